#pragma once

// Peers behind an address that are no server, each in its way.
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <memory>

#include "redis/script/scripts.hpp"
#include "support/command_reader.hpp"

namespace weir::test {

using namespace std::chrono_literals;

namespace asio = boost::asio;
using asio::ip::tcp;

/// Tells the handlers of a peer that it is gone: a handler without an error may have been queued
/// when the peer was destroyed.
class lifetime {
 public:
  std::weak_ptr<const int> watch() const { return token_; }

 private:
  std::shared_ptr<const int> token_ = std::make_shared<int>(0);
};

/// Takes no connection and refuses none: its queue is full, and what comes is dropped.
struct black_hole {
  black_hole(asio::io_context& io, const tcp::endpoint& at) : acceptor(io) {
    acceptor.open(at.protocol());
    acceptor.bind(at);
    acceptor.listen(0);
    for (int i = 0; i < 4; ++i) {
      queue.emplace_back(std::make_unique<tcp::socket>(io))
          ->async_connect(at, [](weir::error_code) {});
    }
  }
  tcp::acceptor acceptor;
  std::vector<std::unique_ptr<tcp::socket>> queue;
};

/// Takes connections and says nothing.
struct mute {
  mute(asio::io_context& io, const tcp::endpoint& at) : acceptor(io, at) { accept(); }
  void accept() {
    acceptor.async_accept([this, alive = life.watch()](weir::error_code ec, tcp::socket peer) {
      if (ec || alive.expired()) return;
      peers.push_back(std::make_unique<tcp::socket>(std::move(peer)));
      accept();
    });
  }
  tcp::acceptor acceptor;
  std::vector<std::unique_ptr<tcp::socket>> peers;
  const lifetime life;
};

/// Greets like a server that has all scripts, and then does something else to whatever comes.
class impostor {
 public:
  enum class manner { silent, drips, hangs_up, talks_nonsense };

  impostor(asio::io_context& io, const tcp::endpoint& at, manner m)
      : acceptor_(io, at), manner_(m) {
    accept();
  }
  std::size_t connections() const { return peers_.size(); }

 private:
  struct peer {
    peer(tcp::socket&& s) : socket(std::move(s)), timer(socket.get_executor()) {}
    tcp::socket socket;
    asio::steady_timer timer;
    weir::test::command_reader reader;
    std::array<char, 4096> room;
    std::string out;
  };

  void accept() {
    acceptor_.async_accept([this, alive = life_.watch()](weir::error_code ec, tcp::socket s) {
      if (ec || alive.expired()) return;
      peers_.push_back(std::make_unique<peer>(std::move(s)));
      read(*peers_.back());
      accept();
    });
  }
  void read(peer& p) {
    const auto on_read = [this, &p, alive = life_.watch()](weir::error_code ec, std::size_t n) {
      if (ec || alive.expired()) return;
      p.reader.feed({p.room.data(), n});
      while (const auto words = p.reader.next()) answer(p, words->front());
      weir::error_code ignored;
      asio::write(p.socket, asio::buffer(std::exchange(p.out, {})), ignored);
      read(p);
    };
    p.socket.async_read_some(asio::buffer(p.room), on_read);
  }
  void answer(peer& p, const std::string& name) {
    if (name == "HELLO") {
      p.out += "%1\r\n+proto\r\n:3\r\n";
    } else if (name == "CLIENT") {
      p.out += "+OK\r\n";
    } else if (name == "SCRIPT") {
      p.out += "*" + std::to_string(weir::redis::scripts().size()) + "\r\n";
      for (std::size_t i = 0; i < weir::redis::scripts().size(); ++i) p.out += ":1\r\n";
    } else if (manner_ == manner::drips) {
      p.out += "$1000000\r\n";
      drip(p);
    } else if (manner_ == manner::hangs_up) {
      p.socket.close();
    } else if (manner_ == manner::talks_nonsense) {
      p.out += "HTTP/1.1 400 Bad Request\r\n\r\n";
    }
  }
  void drip(peer& p) {
    p.timer.expires_after(10ms);
    p.timer.async_wait([this, &p, alive = life_.watch()](weir::error_code ec) {
      if (ec || alive.expired()) return;
      asio::write(p.socket, asio::buffer("x", 1), ec);
      if (!ec) drip(p);
    });
  }

  tcp::acceptor acceptor_;
  const manner manner_;
  std::vector<std::unique_ptr<peer>> peers_;
  const lifetime life_;
};

}  // namespace weir::test

#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "support/tls_certificates.hpp"

namespace weir::test {

namespace asio = boost::asio;
namespace http = boost::beast::http;

/// How a server ends a connection: as TLS wants it, with a close_notify; or without, as a network
/// does that fails.
enum class ending { none, goodbye, cut };

/// What the peer says when it has read a request: these bytes, whatever they are, in one TLS record
/// (up to 16 KiB).
struct answer {
  std::string bytes = {};
  ending then = ending::none;
};

/// "200 OK" with that body.
std::string ok(const std::string& body);

struct seen_request {
  std::size_t connection;
  std::chrono::steady_clock::time_point at;
  std::string server_name;  // which the client wants, by TLS; empty if it has not said
  http::request<http::string_body> message;
};

/// An HTTPS server on a free loopback port, in the test's own thread, that says what the test tells
/// it to. Everything runs on the test's context, which has to outlive it.
class https_peer {
 public:
  /// What is answered to each connection's requests, one by one; later ones are read, and nothing
  /// is said.
  using script = std::vector<std::vector<answer>>;

  https_peer(asio::io_context& io, const tls_files& files, script to_say = {});
  ~https_peer();

  std::uint16_t port() const;
  std::size_t accepted() const { return connections_.size(); }
  const std::vector<seen_request>& seen() const { return seen_; }

  /// Until all that was in the script of a connection has been said and done. On loopback it has
  /// arrived then.
  asio::awaitable<void> done(std::size_t connection);
  /// Until so many requests have been read.
  asio::awaitable<void> asked(std::size_t requests);

  /// Sends what no request asked for. For a connection whose script is done.
  asio::awaitable<void> say(std::size_t connection, const std::string& bytes);
  asio::awaitable<void> end(std::size_t connection, ending how);

 private:
  struct connection;

  asio::awaitable<void> accept();
  asio::awaitable<void> serve(std::shared_ptr<connection> c, std::size_t number);

  asio::io_context& io_;
  const script script_;
  asio::ssl::context tls_;
  asio::ip::tcp::acceptor acceptor_;
  std::vector<std::shared_ptr<connection>> connections_;
  std::vector<seen_request> seen_;
  asio::steady_timer more_;  // cancelled whenever a request has been seen
};

}  // namespace weir::test

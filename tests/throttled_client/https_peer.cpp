#include "https_peer.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>

#include "support/run.hpp"

namespace weir::test {
namespace {

using asio::ip::tcp;

// A client that hangs up is nothing unusual.
constexpr auto result = asio::as_tuple(asio::deferred);

}  // namespace

struct https_peer::connection : std::enable_shared_from_this<connection> {
  connection(tcp::socket socket, asio::ssl::context& tls)
      : stream(std::move(socket), tls), done(stream.get_executor()), left(stream.get_executor()) {}

  void end(ending how) {
    if (how == ending::none) return;
    // The close_notify is written inside the call. It then waits for the client's, for ever:
    // nothing else is to happen.
    if (how == ending::goodbye) stream.async_shutdown([c = shared_from_this()](error_code) {});
    stream.next_layer().shutdown(tcp::socket::shutdown_send);
  }

  asio::ssl::stream<tcp::socket> stream;
  flag done;  // with its script
  flag left;  // the peer reads no more
};

std::string ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

https_peer::https_peer(asio::io_context& io, const tls_files& files, script to_say)
    : io_(io),
      script_(std::move(to_say)),
      tls_(asio::ssl::context::tls_server),
      acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
      more_(io, asio::steady_timer::time_point::max()) {
  tls_.use_certificate_chain_file(files.certificate);
  tls_.use_private_key_file(files.key, asio::ssl::context::pem);
  asio::co_spawn(io_, accept(), [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
}

https_peer::~https_peer() {
  error_code ignored;
  for (const auto& c : connections_) c->stream.next_layer().close(ignored);
}

std::uint16_t https_peer::port() const { return acceptor_.local_endpoint().port(); }

asio::awaitable<void> https_peer::accept() {
  for (;;) {
    auto [error, socket] = co_await acceptor_.async_accept(result);
    if (error) co_return;
    socket.set_option(tcp::no_delay(true));
    connections_.push_back(std::make_shared<connection>(std::move(socket), tls_));
    const std::size_t number = connections_.size() - 1;
    asio::co_spawn(io_, serve(connections_.back(), number), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  }
}

asio::awaitable<void> https_peer::serve(std::shared_ptr<connection> c, std::size_t number) {
  const auto [refused] = co_await c->stream.async_handshake(asio::ssl::stream_base::server, result);
  boost::beast::flat_buffer buffer;
  for (std::size_t i = 0; !refused; ++i) {
    const bool scripted = number < script_.size() && i < script_[number].size();
    if (!scripted) c->done.set();
    http::request<http::string_body> asked;
    const auto [read_error, read] = co_await http::async_read(c->stream, buffer, asked, result);
    if (read_error) break;
    const char* const name = ::SSL_get_servername(c->stream.native_handle(),
                                                  TLSEXT_NAMETYPE_host_name);
    seen_.push_back(
        {number, std::chrono::steady_clock::now(), name == nullptr ? "" : name, std::move(asked)});
    more_.cancel();
    if (!scripted) continue;

    const answer& a = script_[number][i];
    const auto [write_error, written] = co_await asio::async_write(c->stream, asio::buffer(a.bytes),
                                                                   result);
    if (write_error) break;
    c->end(a.then);
    if (a.then != ending::none) break;
  }
  c->done.set();
  c->left.set();
}

asio::awaitable<void> https_peer::done(std::size_t connection) {
  co_await connections_.at(connection)->done.wait();
}

asio::awaitable<void> https_peer::asked(std::size_t requests) {
  while (seen_.size() < requests) (void)co_await more_.async_wait(result);
}

asio::awaitable<void> https_peer::say(std::size_t connection, const std::string& bytes) {
  const auto c = connections_.at(connection);
  co_await c->done.wait();
  co_await asio::async_write(c->stream, asio::buffer(bytes), asio::deferred);
}

asio::awaitable<void> https_peer::end(std::size_t connection, ending how) {
  const auto c = connections_.at(connection);
  co_await c->done.wait();
  c->stream.next_layer().cancel();  // what reads; TLS does one such thing at a time
  co_await c->left.wait();
  c->end(how);
}

}  // namespace weir::test

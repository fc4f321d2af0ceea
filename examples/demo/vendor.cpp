#include "vendor.hpp"

#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <string>
#include <utility>

namespace demo {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

// Errors are looked at, not thrown: a client that hangs up is nothing unusual.
constexpr auto result = asio::as_tuple(asio::deferred);

}  // namespace

vendor::vendor(int limit)
    : admitted_(static_cast<std::size_t>(limit), window),
      acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  // A worker process must not inherit the listening socket: the port would outlive this process.
  ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  asio::co_spawn(context_, accept_connections(), asio::detached);
  thread_ = std::thread([this] { context_.run(); });
}

vendor::~vendor() {
  context_.stop();
  thread_.join();
}

std::uint16_t vendor::port() const { return acceptor_.local_endpoint().port(); }

asio::awaitable<void> vendor::accept_connections() {
  for (;;) {
    auto [error, socket] = co_await acceptor_.async_accept(result);
    if (error) continue;
    socket.set_option(tcp::no_delay(true));
    asio::co_spawn(context_, serve(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> vendor::serve(tcp::socket socket) {
  beast::flat_buffer buffer;
  for (;;) {
    http::request<http::empty_body> request;
    const auto [read_error, read] = co_await http::async_read(socket, buffer, request, result);
    if (read_error) co_return;

    const auto retry_after = admit(examples::vendor_clock::now());
    http::response<http::empty_body> response(
        retry_after.count() == 0 ? http::status::ok : http::status::too_many_requests, 11);
    if (retry_after.count() != 0) {
      response.set(http::field::retry_after, std::to_string(retry_after.count()));
    }
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    const auto [write_error, written] = co_await http::async_write(socket, response, result);
    if (write_error || !request.keep_alive()) co_return;
  }
}

/// Zero if the request is admitted; else after how long, in HTTP's whole seconds, one will be.
std::chrono::seconds vendor::admit(examples::vendor_time now) {
  const auto when = admitted_.earliest(now);
  if (when == now) {
    admitted_.take(now);
    ++ok_;
  } else {
    ++refused_;
  }
  return std::chrono::ceil<std::chrono::seconds>(when - now);
}

}  // namespace demo

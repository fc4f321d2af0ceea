#include "https_connection.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace throttled {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

// use_awaitable, not deferred: the streams of Beast in Boost 1.81 do not take the latter.

asio::awaitable<void> https_connection::connect(const std::string& host, const std::string& port,
                                                std::chrono::milliseconds timeout) {
  tcp::resolver resolver(co_await asio::this_coro::executor);
  const auto addresses = co_await resolver.async_resolve(host, port, asio::use_awaitable);

  auto& socket = beast::get_lowest_layer(stream_);
  socket.expires_after(timeout);
  co_await socket.async_connect(addresses, asio::use_awaitable);
  socket.socket().set_option(tcp::no_delay(true));

  // The name we want goes out (SNI), and has to be in the certificate.
  ::SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
  stream_.set_verify_mode(asio::ssl::verify_peer);
  stream_.set_verify_callback(asio::ssl::host_name_verification(host));
  co_await stream_.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
}

asio::awaitable<http_response> https_connection::exchange(const http_request& request,
                                                          std::chrono::milliseconds timeout) {
  beast::get_lowest_layer(stream_).expires_after(timeout);
  co_await http::async_write(stream_, request, asio::use_awaitable);
  http_response response;
  co_await http::async_read(stream_, buffer_, response, asio::use_awaitable);
  beast::get_lowest_layer(stream_).expires_never();
  co_return response;
}

}  // namespace throttled

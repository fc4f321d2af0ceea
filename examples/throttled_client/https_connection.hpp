#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <string>

namespace throttled {

using http_request = boost::beast::http::request<boost::beast::http::string_body>;
using http_response = boost::beast::http::response<boost::beast::http::string_body>;
using addresses = boost::asio::ip::tcp::resolver::results_type;

/// One connection over TLS for many requests. Throws boost::system::system_error on an error or a
/// time-out; the connection cannot be used after that.
class https_connection {
 public:
  https_connection(const boost::asio::any_io_executor& executor, boost::asio::ssl::context& tls)
      : stream_(executor, tls) {}

  /// `host` is the name that the server's certificate has to hold.
  boost::asio::awaitable<void> connect(const addresses& to, const std::string& host,
                                       std::chrono::milliseconds timeout);

  /// Returns the final response and skips those with a 1xx status. A body of more than `body_limit`
  /// bytes is an error. A 429 is returned as far as its body came, also after an error.
  boost::asio::awaitable<http_response> exchange(const http_request& request,
                                                 std::chrono::milliseconds timeout,
                                                 std::uint64_t body_limit = 8 << 20);

  /// True if another request may follow. False if the connection was idle for longer than `idle`,
  /// because the server may be about to close it; if the server has closed it; or if the server has
  /// sent bytes without a request.
  bool is_usable(std::chrono::milliseconds idle);

 private:
  boost::beast::ssl_stream<boost::beast::tcp_stream> stream_;
  boost::beast::flat_buffer buffer_;
  std::chrono::steady_clock::time_point used_at_{};
  bool is_fresh_ = true;  // no exchange yet
  bool stays_open_ = false;
};

/// Whether a second attempt may succeed: the connection failed, not the exchange over it.
bool may_pass(const boost::system::error_code& ec);

}  // namespace throttled

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
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

/// One connection over TLS that is used again and again. Errors, and an answer that does not come in time, are thrown as
/// boost::system::system_error. After one the connection is of no use any more.
class https_connection {
 public:
  https_connection(const boost::asio::any_io_executor& executor, boost::asio::ssl::context& tls)
      : stream_(executor, tls) {}

  /// `host` is also the name that the server's certificate has to hold.
  boost::asio::awaitable<void> connect(const std::string& host, const std::string& port,
                                       std::chrono::milliseconds timeout);

  boost::asio::awaitable<http_response> exchange(const http_request& request,
                                                 std::chrono::milliseconds timeout);

 private:
  boost::beast::ssl_stream<boost::beast::tcp_stream> stream_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace throttled

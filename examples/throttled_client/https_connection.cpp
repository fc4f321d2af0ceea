#include "https_connection.hpp"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <optional>

namespace throttled {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

// use_awaitable, not deferred: the streams of Beast in Boost 1.81 do not take the latter.

asio::awaitable<void> https_connection::connect(const addresses& to, const std::string& host,
                                                std::chrono::milliseconds timeout) {
  auto& socket = beast::get_lowest_layer(stream_);
  socket.expires_after(timeout);
  co_await socket.async_connect(to, asio::use_awaitable);
  socket.socket().set_option(tcp::no_delay(true));

  // The name we want goes out (SNI), and has to be in the certificate.
  ::SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
  stream_.set_verify_mode(asio::ssl::verify_peer);
  stream_.set_verify_callback(asio::ssl::host_name_verification(host));
  co_await stream_.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  socket.expires_never();
  used_at_ = std::chrono::steady_clock::now();
  stays_open_ = true;
}

asio::awaitable<http_response> https_connection::exchange(const http_request& request,
                                                          std::chrono::milliseconds timeout,
                                                          std::uint64_t body_limit) {
  stays_open_ = is_fresh_ = false;
  beast::get_lowest_layer(stream_).expires_after(timeout);
  co_await http::async_write(stream_, request, asio::use_awaitable);
  std::optional<http::response_parser<http::string_body>> answer;
  do {
    answer.emplace();
    answer->body_limit(body_limit);
    answer->skip(request.method() == http::verb::head);
    co_await http::async_read(stream_, buffer_, *answer, asio::use_awaitable);
  } while (http::to_status_class(answer->get().result()) == http::status_class::informational);
  beast::get_lowest_layer(stream_).expires_never();
  stays_open_ = request.keep_alive() && answer->keep_alive() && buffer_.size() == 0;
  used_at_ = std::chrono::steady_clock::now();
  co_return answer->release();
}

bool https_connection::is_usable(std::chrono::milliseconds idle) {
  if (!stays_open_ || std::chrono::steady_clock::now() - used_at_ > idle) return false;
  char byte;
  const auto size = ::recv(beast::get_lowest_layer(stream_).socket().native_handle(), &byte, 1,
                           MSG_PEEK | MSG_DONTWAIT);
  // A server may send tickets for later sessions behind the handshake, which nobody has read yet.
  return size < 0 ? errno == EAGAIN || errno == EWOULDBLOCK : size > 0 && is_fresh_;
}

bool may_pass(const boost::system::error_code& ec) {
  return ec.category() == boost::system::system_category() || ec == asio::error::eof ||
         ec == asio::error::host_not_found_try_again || ec == asio::ssl::error::stream_truncated ||
         ec == beast::error::timeout || ec == http::error::end_of_stream ||
         ec == http::error::partial_message;
}

}  // namespace throttled

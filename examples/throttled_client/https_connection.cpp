#include "https_connection.hpp"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
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

  // The name we want goes out (SNI: a name, no address; RFC 6066), and has to be in the
  // certificate.
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  if (is_name) ::SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
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
    const auto [ec, size] = co_await http::async_read(stream_, buffer_, *answer,
                                                      asio::as_tuple(asio::use_awaitable));
    // The body of a 429 says nothing that counts, and its headers have to be heard. So it is
    // returned as far as it came, unless the caller has cancelled the call.
    const bool is_refusal = answer->is_header_done() && answer->get().result_int() == 429;
    if (ec && is_refusal && ec != asio::error::operation_aborted) co_return answer->release();
    if (ec) throw boost::system::system_error(ec);
    // By number: Beast has no names for some of them.
  } while (http::to_status_class(answer->get().result_int()) == http::status_class::informational);
  beast::get_lowest_layer(stream_).expires_never();
  stays_open_ = request.keep_alive() && answer->keep_alive() && buffer_.size() == 0;
  used_at_ = std::chrono::steady_clock::now();
  co_return answer->release();
}

bool https_connection::is_usable(std::chrono::milliseconds idle) {
  if (!stays_open_ || std::chrono::steady_clock::now() - used_at_ > idle) return false;
  const int handle = beast::get_lowest_layer(stream_).socket().native_handle();
  ::pollfd socket{handle, POLLIN | POLLRDHUP, 0};
  if (::poll(&socket, 1, 0) < 0 || (socket.revents & ~POLLIN) != 0) return false;  // it is closed
  // After the handshake a server may send session tickets, which have not been read yet.
  if (is_fresh_) return true;
  // What came together with the answer is not in the socket any more: it may be deciphered, or wait
  // for that.
  ::SSL* const tls = stream_.native_handle();
  const bool deciphered = ::SSL_has_pending(tls) != 0;
  const bool received = BIO_pending(::SSL_get_rbio(tls)) > 0;
  return socket.revents == 0 && !deciphered && !received;
}

bool may_pass(const boost::system::error_code& ec) {
  return ec.category() == boost::system::system_category() || ec == asio::error::eof ||
         ec == asio::error::host_not_found_try_again || ec == asio::ssl::error::stream_truncated ||
         ec == beast::error::timeout || ec == http::error::end_of_stream ||
         ec == http::error::partial_message;
}

}  // namespace throttled

#include "http_client.hpp"

#include <algorithm>
#include <boost/asio/deferred.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <stdexcept>
#include <string>

namespace demo {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

constexpr std::chrono::seconds patience{5};

std::chrono::seconds parse_retry_after(std::string_view text) {
  int seconds = 1;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds{std::clamp(seconds, 1, 60)};
}

}  // namespace

asio::awaitable<void> http_client::connect(tcp::endpoint server) {
  stream_.expires_after(patience);
  co_await stream_.async_connect(server, asio::deferred);
  stream_.socket().set_option(tcp::no_delay(true));
}

asio::awaitable<http_client::reply> http_client::call() {
  stream_.expires_after(patience);

  http::request<http::empty_body> request(http::verb::get, "/", 11);
  request.set(http::field::host, "vendor");
  co_await http::async_write(stream_, request, asio::deferred);

  http::response<http::empty_body> response;
  co_await http::async_read(stream_, buffer_, response, asio::deferred);

  switch (response.result()) {
    case http::status::ok:
      co_return reply{.ok = true};
    case http::status::too_many_requests:
      co_return reply{.retry_after = parse_retry_after(response[http::field::retry_after])};
    default:
      throw std::runtime_error("the vendor answered " + std::to_string(response.result_int()));
  }
}

}  // namespace demo

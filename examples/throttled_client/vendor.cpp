#include "vendor.hpp"

#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace throttled {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds service_time{100};

// Errors are looked at, not thrown: a client that hangs up is nothing unusual.
constexpr auto result = asio::as_tuple(asio::deferred);

using request = http::request<http::empty_body>;
using response = http::response<http::empty_body>;

std::optional<vendor_time> read_time(const request& r, const char* header) {
  const auto text = r[header];
  vendor_clock::rep count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  return vendor_time(vendor_clock::duration(count));
}

void tell_limits(response& r, const vendor_limits& limits, const ledger::balance& left) {
  const auto text = [](auto number) { return std::to_string(number); };
  // The older form tells of the limit that has the least left.
  const bool second = left.per_second < left.saved_up;
  r.set("X-RateLimit-Limit", text(second ? limits.per_second : limits.saved_up));
  r.set("X-RateLimit-Remaining", text(second ? left.per_second : left.saved_up));
  r.set("X-RateLimit-Reset", "1");
  r.set("RateLimit-Policy", "\"second\";q=" + text(limits.per_second) +
                                ";w=1, \"saved\";q=" + text(limits.saved_up) + ";w=2");
  r.set("RateLimit", "\"second\";r=" + text(left.per_second) +
                         ";t=1, \"saved\";r=" + text(left.saved_up) + ";t=1");
}

}  // namespace

vendor::vendor(const vendor_limits& limits, ledger books)
    : limits_(limits),
      certificate_(make_certificate()),
      books_(std::move(books)),
      tls_(asio::ssl::context::tls_server),
      acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  tls_.use_certificate_chain(asio::buffer(certificate_.chain));
  tls_.use_private_key(asio::buffer(certificate_.key), asio::ssl::context::pem);
  // A process that we start must not inherit the listening socket: the port would outlive this
  // process.
  ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  asio::co_spawn(context_, accept_connections(), asio::detached);
  thread_ = std::thread([this] { context_.run(); });
}

vendor::~vendor() {
  context_.stop();
  thread_.join();
}

std::uint16_t vendor::port() const { return acceptor_.local_endpoint().port(); }

vendor_report vendor::report(std::chrono::seconds patience) {
  auto report = over_.get_future();
  if (report.wait_for(patience) != std::future_status::ready) {
    throw std::runtime_error("nobody has called the vendor");
  }
  return report.get();
}

asio::awaitable<void> vendor::accept_connections() {
  for (;;) {
    auto [error, socket] = co_await acceptor_.async_accept(result);
    if (error) continue;
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    socket.set_option(tcp::no_delay(true));
    asio::co_spawn(context_, serve(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> vendor::serve(tcp::socket socket) {
  asio::ssl::stream<tcp::socket> stream(std::move(socket), tls_);
  const auto [handshake_error] = co_await stream.async_handshake(asio::ssl::stream_base::server,
                                                                 result);
  if (handshake_error) co_return;

  beast::flat_buffer buffer;
  asio::steady_timer work(context_);
  for (;;) {
    request asked;
    const auto [read_error, read] = co_await http::async_read(stream, buffer, asked, result);
    if (read_error) co_return;

    const auto now = vendor_clock::now();
    const bool first = !books_.end();
    const auto answer = books_.arrive(now, {.asked = read_time(asked, asked_header).value_or(now),
                                            .heard = read_time(asked, heard_header)});
    if (first) asio::co_spawn(context_, announce_end(), asio::detached);

    response reply(answer.served ? http::status::ok : http::status::too_many_requests, 11);
    tell_limits(reply, limits_, books_.left(now));
    if (answer.served) {
      work.expires_at(now + service_time);
      co_await work.async_wait(result);
      books_.leave();
    } else {
      reply.set(http::field::retry_after, std::to_string(answer.retry_after.count()));
    }
    reply.keep_alive(asked.keep_alive());
    reply.prepare_payload();
    const auto [write_error, written] = co_await http::async_write(stream, reply, result);
    if (write_error || !asked.keep_alive()) co_return;
  }
}

asio::awaitable<void> vendor::announce_end() {
  asio::steady_timer end(context_, *books_.end());
  co_await end.async_wait(result);
  over_.set_value(books_.close());
}

}  // namespace throttled

#include "net/stream.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace weir::net {

namespace asio = boost::asio;

namespace {

std::string address_of(const std::string& host, std::uint16_t port) {
  const bool is_ip6 = host.find(':') != host.npos;
  return (is_ip6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// The address that the options name; empty if a locator does.
std::string address_of(const redis_options& options, const locator* where) {
  if (where != nullptr) return {};
  return options.unix_path.empty() ? address_of(options.host, options.port) : options.unix_path;
}

}  // namespace

stream::stream(const strand& s, const redis_options& options, tls_context tls, listener& l,
               locator* where)
    : strand_(s),
      options_(options),
      listener_(l),
      locator_(where),
      tls_context_(std::move(tls)),
      lookup_(s),
      address_(address_of(options, where)),
      address_timer_(s) {}

void stream::note_address(const std::string& host, std::uint16_t port) {
  host_ = host;
  address_ = address_of(host, port);
}

void stream::read(std::span<char> room) {
  const auto buffer = asio::buffer(room.data(), room.size());
  auto done = [this, alive = listener_.keep_alive()](error_code ec, std::size_t n) {
    listener_.on_received(!ec                  ? error{}
                          : is_tls_refusal(ec) ? error::tls_failed
                                               : error::outcome_unknown,
                          n);
  };
  if (tls_) {
    tls_->async_read_some(buffer, std::move(done));
  } else {
    socket_->async_read_some(buffer, std::move(done));
  }
}

bool stream::write(std::string_view bytes) {
  // Most writes fit the socket's buffer. Then there is nothing to wait for, and no completion.
  std::size_t taken = 0;
  if (!tls_ && socket_->non_blocking()) {
    error_code ec;  // an error comes again, and is reported, below
    taken = socket_->write_some(asio::buffer(bytes.data(), bytes.size()), ec);
    if (taken == bytes.size()) return true;
  }
  const auto rest = asio::buffer(bytes.data() + taken, bytes.size() - taken);
  auto done = [this, taken, alive = listener_.keep_alive()](error_code ec, std::size_t n) {
    listener_.on_written(!ec, taken + n);
  };
  if (tls_) {
    asio::async_write(*tls_, rest, std::move(done));
  } else {
    asio::async_write(*socket_, rest, std::move(done));
  }
  return false;
}

void stream::poll_until(clock::time_point end) {
  poll_until_ = end;
  if (polls_ || end == clock::time_point::min()) return;
  polls_ = true;
  poll_again(listener_.keep_alive());
}

/// While a posted function waits to run, Asio asks the system for events without sleeping.
void stream::poll_again(std::shared_ptr<void>&& alive) {
  asio::post(strand_, [this, alive = std::move(alive)]() mutable {
    polls_ = clock::now() < poll_until_;
    if (polls_) poll_again(std::move(alive));
  });
}

/// Sends no TLS close_notify: no reply is wanted any more, and a dead server would not answer it.
void stream::close() {
  closed_ = true;
  if (locator_ != nullptr) locator_->leave();
  lookup_.leave(listener_.keep_alive());
  address_timer_.cancel();
  error_code ignored;
  if (socket_) socket_->close(ignored);
}

}  // namespace weir::net

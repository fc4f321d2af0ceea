// How a stream connects: over a Unix socket, or to one address of a host after the other, then TLS.
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "net/stream.hpp"

namespace weir::net {

namespace asio = boost::asio;

namespace {

void set_option(int handle, int level, int name, int value) {
  // Best effort: if the system does not know the option, connection_core's silence_timeout still
  // notices a dead link.
  static_cast<void>(::setsockopt(handle, level, name, &value, sizeof value));
}

error meaning_of(const error_code& connecting) {
  if (connecting == asio::error::connection_refused || connecting == asio::error::access_denied ||
      connecting == boost::system::errc::no_such_file_or_directory) {
    return error::connection_refused;
  }
  if (connecting == asio::error::connection_reset) return error::closed_by_peer;
  return error::host_unreachable;
}

}  // namespace

void stream::open(bool elsewhere) {
  if (connected_ && elsewhere) first_endpoint_ += next_endpoint_;
  closed_ = connected_ = false;
  endpoints_.clear();
  next_endpoint_ = 0;
  met_ = error::host_not_found;
  give_up_ = clock::now() + options_.connect_timeout;
  tls_.reset();
  socket_.emplace(strand_);

  if (!options_.unix_path.empty()) {
    endpoints_.emplace_back(asio::local::stream_protocol::endpoint(options_.unix_path));
    return connect_next();
  }
  if (locator_ == nullptr) return look_up(options_.host, options_.port);
  locator_->ask(elsewhere, [this](error e, const redis_address& found) {
    if (e != error{}) met_ = e;
    if (closed_ || e != error{}) return listener_.on_opened(met_);
    look_up(found.host, found.port);
  });
}

void stream::look_up(const std::string& host, std::uint16_t port) {
  note_address(host, port);
  listener_.on_step(met_);
  lookup_.ask(host, port, listener_.keep_alive(), [this](resolver::endpoints&& found) {
    if (closed_ || found.empty()) return listener_.on_opened(met_);
    first_endpoint_ %= found.size();
    std::rotate(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(first_endpoint_),
                found.end());
    endpoints_ = std::move(found);
    connect_next();
  });
}

void stream::connect_next() {
  if (next_endpoint_ == endpoints_.size()) return report_opened(met_);
  if (next_endpoint_ == 0) met_ = error::host_unreachable;
  listener_.on_step(met_);
  error_code ignored;
  socket_->close(ignored);  // the socket of the previous address
  limit_address();
  open_socket();
  socket_->async_connect(endpoints_[next_endpoint_++],
                         [this, alive = listener_.keep_alive()](error_code ec) {
                           address_timer_.cancel();
                           if (closed_) return listener_.on_opened(met_);
                           if (ec) {
                             met_ = meaning_of(ec);
                             return connect_next();
                           }
                           connected_ = true;
                           error_code ignored;
                           socket_->non_blocking(true, ignored);  // for write()
                           set_tcp_options();
                           if (tls_context_ != nullptr) return secure();
                           listener_.on_opened(error{});
                         });
}

/// Keeps the socket from programs that this process starts: each could use the connection, and
/// would keep it open. Asio does not set FD_CLOEXEC. But Asio must open the socket: if a child of
/// fork() destroys an assigned one, the parent's leaves the epoll instance.
void stream::open_socket() {
  error_code ec;  // async_connect() tries again, and reports the error
  socket_->open(endpoints_[next_endpoint_].protocol(), ec);
  if (!ec) ::fcntl(socket_->native_handle(), F_SETFD, FD_CLOEXEC);
}

/// Limits the attempt at one address to an equal share of the time left, so that a silent address
/// leaves time for the others. The last one has no limit here: the session ends the whole attempt.
void stream::limit_address() {
  const std::size_t left = endpoints_.size() - next_endpoint_;
  if (left < 2) return;
  const auto now = clock::now();
  address_timer_.expires_at(now + (give_up_ - now) / static_cast<std::ptrdiff_t>(left));
  address_timer_.async_wait(
      [this, tried = next_endpoint_ + 1, alive = listener_.keep_alive()](error_code ec) {
        if (ec || closed_ || connected_ || next_endpoint_ != tried) return;
        error_code ignored;
        socket_->cancel(ignored);
      });
}

/// Posts the report of an open() that ends without I/O, because reports never come inside the call.
void stream::report_opened(error e) {
  asio::post(strand_, [this, e, alive = listener_.keep_alive()] { listener_.on_opened(e); });
}

void stream::set_tcp_options() {
  if (!options_.unix_path.empty()) return;
  const int handle = socket_->native_handle();
  set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
  set_option(handle, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(handle, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(handle, IPPROTO_TCP, TCP_KEEPCNT, 3);
#endif
#ifdef TCP_USER_TIMEOUT
  set_option(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
#endif
}

void stream::secure() {
  tls_.emplace(*socket_, *tls_context_);
  listener_.on_step(error::tls_failed);
  if (!expect_server(tls_->native_handle(), options_, host_))
    return report_opened(error::tls_failed);
  tls_->async_handshake(
      asio::ssl::stream_base::client, [this, alive = listener_.keep_alive()](error_code ec) {
        if (closed_) return listener_.on_opened(error::tls_failed);
        error_code ignored;
        if (ec) socket_->close(ignored);  // frees the descriptor before the next attempt
        listener_.on_opened(!ec                  ? error{}
                            : is_tls_refusal(ec) ? error::tls_failed
                                                 : error::closed_by_peer);
      });
}

}  // namespace weir::net

#include "net/stream.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <string>

namespace weir::net {

namespace asio = boost::asio;

namespace {

[[noreturn]] void refuse_tls(std::string_view what, const error_code& why) {
  throw boost::system::system_error(make_error_code(error::tls_failed),
                                    std::string(what) + " (" + why.message() + ")");
}

asio::ssl::context make_tls_context(const redis_options& options) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  error_code ec;
  if (options.tls_ca_file.empty()) {
    context.set_default_verify_paths(ec);
    if (ec) refuse_tls("the system's certificate authorities cannot be read", ec);
  } else {
    context.load_verify_file(options.tls_ca_file, ec);
    if (ec) refuse_tls("tls_ca_file cannot be used", ec);
  }
  if (!options.tls_cert_file.empty()) {
    context.use_certificate_chain_file(options.tls_cert_file, ec);
    if (ec) refuse_tls("tls_cert_file cannot be used", ec);
  }
  if (!options.tls_key_file.empty()) {
    context.use_private_key_file(options.tls_key_file, asio::ssl::context::pem, ec);
    if (ec) refuse_tls("tls_key_file cannot be used", ec);
  }
  return context;
}

void set_option(int handle, int level, int name, int value) {
  // Best effort: a kernel that does not know an option leaves the watchdog of session_core to notice a dead link.
  static_cast<void>(::setsockopt(handle, level, name, &value, sizeof value));
}

}  // namespace

stream::stream(const strand& s, const redis_options& options, listener& l)
    : strand_(s), options_(options), listener_(l), resolver_(s) {
  if (options_.tls) tls_context_.emplace(make_tls_context(options_));
}

void stream::open() {
  closed_ = false;
  endpoints_.clear();
  next_endpoint_ = 0;
  tls_.reset();
  socket_.emplace(strand_);

  if (!options_.unix_path.empty()) {
    if (options_.unix_path.size() < sizeof(sockaddr_un::sun_path)) {
      endpoints_.emplace_back(asio::local::stream_protocol::endpoint(options_.unix_path));
    }
    return connect_next();
  }
  resolver_.async_resolve(options_.host, std::to_string(options_.port),
                          [this, alive = listener_.keep_alive()](
                              error_code ec, const asio::ip::tcp::resolver::results_type& found) {
                            if (ec || closed_) return listener_.on_opened(error::server_error);
                            for (const auto& entry : found)
                              endpoints_.emplace_back(entry.endpoint());
                            connect_next();
                          });
}

void stream::connect_next() {
  if (next_endpoint_ == endpoints_.size()) return report_opened(error::server_error);
  error_code ignored;
  socket_->close(ignored);  // of the address before
  socket_->async_connect(endpoints_[next_endpoint_++],
                         [this, alive = listener_.keep_alive()](error_code ec) {
                           if (closed_) return listener_.on_opened(error::server_error);
                           if (ec) return connect_next();
                           set_tcp_options();
                           if (options_.tls && options_.unix_path.empty()) return secure();
                           listener_.on_opened(error{});
                         });
}

/// For when there is nothing to wait for: reports all the same, but later.
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
  const std::string& name = options_.tls_server_name.empty() ? options_.host
                                                             : options_.tls_server_name;
  tls_.emplace(*socket_, *tls_context_);
  error_code not_an_address;
  asio::ip::make_address(name, not_an_address);
  if (not_an_address) SSL_set_tlsext_host_name(tls_->native_handle(), name.c_str());
  error_code ignored;
  if (options_.tls_verify) {
    tls_->set_verify_mode(asio::ssl::verify_peer, ignored);
    tls_->set_verify_callback(asio::ssl::host_name_verification(name), ignored);
  } else {
    tls_->set_verify_mode(asio::ssl::verify_none, ignored);
  }
  tls_->async_handshake(
      asio::ssl::stream_base::client, [this, alive = listener_.keep_alive()](error_code ec) {
        if (closed_) return listener_.on_opened(error::server_error);
        const bool refused = ec.category() == asio::error::get_ssl_category();
        listener_.on_opened(!ec ? error{} : refused ? error::tls_failed : error::server_error);
      });
}

void stream::read(std::span<char> room) {
  const auto buffer = asio::buffer(room.data(), room.size());
  auto done = [this, alive = listener_.keep_alive()](error_code ec, std::size_t n) {
    listener_.on_received(!ec, n);
  };
  if (tls_) {
    tls_->async_read_some(buffer, std::move(done));
  } else {
    socket_->async_read_some(buffer, std::move(done));
  }
}

void stream::write(std::string_view bytes) {
  const auto buffer = asio::buffer(bytes.data(), bytes.size());
  auto done = [this, alive = listener_.keep_alive()](error_code ec, std::size_t n) {
    listener_.on_written(!ec, n);
  };
  if (tls_) {
    asio::async_write(*tls_, buffer, std::move(done));
  } else {
    asio::async_write(*socket_, buffer, std::move(done));
  }
}

/// Without a TLS farewell: nothing of value could still come, and a dead peer would not answer it.
void stream::close() {
  closed_ = true;
  resolver_.cancel();
  error_code ignored;
  if (socket_) socket_->close(ignored);
}

}  // namespace weir::net

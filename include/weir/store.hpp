#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string_view>

#include "weir/error.hpp"

namespace weir {

namespace detail {
class store_backend;
}

/// Where the counts live: a handle to one store. Copies share it; the store closes when the last
/// copy (those inside limiters and pending calls included) is gone. A Redis store keeps
/// `io_context::run()` busy until then, so let the last handle belong to the work itself, such as a
/// coroutine's local variable, or call close().
///
/// **Object lifetime.** Stores, limiters, leases and the executor's context may end in any order.
/// When the context is destroyed, pending calls end with it: their handlers are destroyed, and do
/// not run. From then on only destructors, close() and lease::release() are allowed, and do
/// nothing. While a context is being destroyed, no other thread may use its stores, nor their
/// limiters and leases. See docs/lifetime.md.
///
/// **Thread safety.** Everything, on the same or on different handles, may be called from any
/// thread.
class store {
 public:
  explicit store(std::shared_ptr<detail::store_backend> backend);

  /// Completion handlers without an executor of their own run here.
  boost::asio::any_io_executor get_executor() const noexcept;

  /// Ends every call, and lets `io_context::run()` return. A pending call gets error::store_closed,
  /// or error::outcome_unknown if it was sent. A waiter in acquire() or acquire_all() gives its
  /// turn back, and gets error::store_closed once the server has confirmed that. What is not
  /// confirmed within the store's `timeout` from now gets error::outcome_unknown: the turn may
  /// still be booked. Then the connection is closed. lease::lost() ends with error::store_closed; a
  /// lease that its holder does not release is not renewed, and lapses. A later call gets
  /// error::store_closed.
  ///
  /// The executor's context has to run until all that is done. Idempotent; does nothing once the
  /// context is gone.
  void close();

  /// For limiters.
  const std::shared_ptr<detail::store_backend>& backend() const noexcept { return backend_; }

 private:
  std::shared_ptr<detail::store_backend> backend_;
};

/// Opens the store that the URL names:
///
///     memory://                                   in this process
///     redis://[[user]:password@]host[:port][/db]  Redis or Valkey over TCP; port 6379, db 0 unless
///                                                 given
///     rediss://...                                the same with TLS
///     unix:///path/to/socket[?db=n]               the same over a Unix socket; [user]:password@
///                                                 before the path works too
///
/// Query parameters of redis, rediss and unix: `timeout` (the default deadline of a call, "250ms"),
/// `prefix` (of the keys), `client_name`. Of rediss alone: `tls_ca_file`, `tls_cert_file`,
/// `tls_key_file`, `tls_server_name`, and `tls_verify` (true or false), as in redis_options.
/// Percent-escapes are decoded in every part.
///
/// Returns at once; connecting goes on in the background, and calls made meanwhile wait for it
/// within their deadlines. Calls need the executor's context: see store.
///
/// Throws boost::system::system_error with error::invalid_url, error::unsupported_scheme or
/// error::invalid_tls_file; no part of the URL appears in the text.
store open_store(const boost::asio::any_io_executor& executor, std::string_view url);

}  // namespace weir

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weir/detail/check_operation.hpp"
#include "weir/detail/export.hpp"
#include "weir/duration.hpp"
#include "weir/error.hpp"
#include "weir/event.hpp"
#include "weir/stats.hpp"

namespace weir {

namespace detail {

class store_backend;

/// The limiter whose key store::ping() reads.
WEIR_EXPORT std::shared_ptr<const limiter_spec> ping_target(
    const std::shared_ptr<store_backend>& backend);

/// A check whose caller only learns that the server has answered.
class ping_check : public check_of<fetch_request> {
 public:
  static constexpr bool has_decision = false;

 protected:
  using check_of::check_of;
  ~ping_check() = default;
};

struct WEIR_EXPORT ping_arguments : arguments_of<fetch_request> {
  using check_type = ping_check;
  explicit ping_arguments(std::chrono::microseconds longest);
};

/// An io_context, a thread_pool and the like.
template <class T>
concept execution_context = std::is_convertible_v<T&, boost::asio::execution_context&>;

}  // namespace detail

/// A handle to the place where the counts live. Copies share one store; it closes when its last
/// copy is gone. Limiters, leases and pending calls hold copies. A Redis or Memcached store keeps
/// `io_context::run()` busy until then, so keep the last handle in the work itself, such as a local
/// variable of a coroutine, or call close().
///
/// **Thread safety.** Any thread may call any function, on the same or on different handles.
///
/// **Object lifetime.** Stores, limiters, leases and the executor's context may be destroyed in any
/// order. When the context is destroyed, the pending calls are destroyed with it: their handlers do
/// not run. After that only destructors, moves, close() and lease::release() are allowed, and they
/// do nothing else. A moved-from store, limiter or gate may only be destroyed or assigned to; the
/// constructor of a limiter or gate throws `invalid_options` for such a store. While
/// one thread destroys a context, no other thread may use its stores, limiters and leases. See
/// docs/lifetime.md.
class WEIR_EXPORT store {
 public:
  using executor_type = boost::asio::any_io_executor;

  /// For the functions that make stores.
  explicit store(std::shared_ptr<detail::store_backend> backend);

  /// The executor of completion handlers that have none of their own.
  executor_type get_executor() const noexcept;

  /// Ends every call and lets `io_context::run()` return. A second call does nothing.
  ///
  /// - A call that was not sent gets `store_closed`, one that was sent gets `outcome_unknown`.
  /// - A waiter of acquire() or acquire_all() gives its reservation back and gets `store_closed`
  ///   when the server has confirmed that. If the server does not confirm within the store's
  ///   `timeout` from now, the waiter gets `outcome_unknown`: the reservation may still count.
  /// - lease::lost() ends with `store_closed`. No lease is renewed, so a lease that is not released
  ///   lapses.
  /// - A later call gets `store_closed`. A record() that a deny cache
  ///   (limiter_options::deny_cache_subjects) answers is still refused.
  ///
  /// The connection closes when every reservation and lease on its way back has been answered, or
  /// that `timeout` has passed. The context has to run until then.
  ///
  /// **Errors.** Throws only std::bad_alloc.
  ///
  /// **Thread safety** is as for the class. **Object lifetime.** Does nothing after the context is
  /// destroyed.
  void close();

  /// What the store's connections do, and how the calls of its limiters and gates have ended. It
  /// never waits for a server. Throws only std::bad_alloc; after the context is destroyed, only the
  /// calls are told.
  store_stats stats() const;

  /// Asks the server whether it answers, as a health check does: one round trip through the script
  /// that limiters use, which reads a key that nobody writes. Of a Redis Cluster or several
  /// memcached servers it asks one, chosen at random; stats() tells of all connections. A memory
  /// store answers at once.
  ///
  /// `timeout`: see record_options. The call counts among call_counts::other.
  ///
  /// **Handler signature.** `void(error_code)`. **Executor**, **cancellation** and **errors** are
  /// as for limiter::fetch().
  ///
  ///     co_await store.ping(200ms);
  template <class CompletionToken = boost::asio::deferred_t>
  auto ping(duration timeout = {}, CompletionToken&& token = CompletionToken()) const {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
        detail::check_initiation{detail::ping_target(backend())}, token,
        detail::ping_arguments(timeout));
  }

  /// For limiters only. Throws `invalid_options` if this handle was moved from.
  const std::shared_ptr<detail::store_backend>& backend() const;

 private:
  std::shared_ptr<detail::store_backend> backend_;
};

/// Opens the store that the URL names:
///
///     memory://                                   in this process
///     redis://[[user]:password@]host[:port][/db]  Redis or Valkey over TCP; port 6379 and db 0
///                                                 unless given
///     rediss://...                                the same with TLS
///     redis-cluster://[[user]:password@]host[:port][,host[:port]...]
///                                                 a Redis Cluster, of which these are some nodes;
///                                                 see docs/cluster.md
///     rediss-cluster://...                        the same with TLS
///     redis-sentinel://[[user]:password@]sentinel[:port][,sentinel[:port]...]/master[/db]
///                                                 a master that these Sentinels name; port 26379
///                                                 unless given; see docs/sentinel.md
///     rediss-sentinel://...                       the same with TLS, also to the Sentinels
///     unix:///path/to/socket[?db=n]               one server over a Unix socket; [user]:password@
///                                                 before the path works too
///     memcached://host[:port][,host[:port]...]    memcached 1.6.10 or later, on one or several
///                                                 servers; port 11211 unless given
///     memcached+unix:///path/to/socket            one memcached over a Unix socket
///
/// `valkey` and `valkeys` may stand for `redis` and `rediss`: valkey://, valkeys-cluster://. An
/// IPv6 address stands in brackets. Its zone is written "%25eth0" (RFC 6874) or "%eth0".
///
/// Returns at once. The store connects in the background, as soon as the context runs; calls made
/// meanwhile wait for the connection within their deadlines.
///
/// `executor`: its context runs the store; see store. `url`: all schemes of Redis take the query
/// parameters `timeout` (the default deadline of a call, such as "250ms"; a day at most), `prefix`
/// (of the keys) and `client_name`. Those with TLS also take `tls_ca_file`, `tls_cert_file`,
/// `tls_key_file`, `tls_server_name` and `tls_verify` (true or false), as in redis_options.
/// Those with Sentinels also take `sentinel_username`, `sentinel_password` and `sentinel_tls`.
/// memcached takes `timeout` and `prefix`. Percent-escapes are decoded in every part. `on_event`
/// gets the store's events: see event.hpp.
///
/// **Errors.** Throws boost::system::system_error with `invalid_url`, `unsupported_scheme`,
/// `invalid_tls_file`, or `invalid_options` (the executor is empty, or this OpenSSL offers no SHA-1
/// or MD5). The text repeats no part of the URL.
///
/// **Thread safety.** Any thread may call it.
///
/// **Object lifetime.** The URL's text may be destroyed when this function has returned. The
/// context may be destroyed before or after the store: see store.
///
///     weir::store store = weir::open_store(context.get_executor(), "redis://127.0.0.1:6379");
[[nodiscard]] WEIR_EXPORT store open_store(const boost::asio::any_io_executor& executor,
                                           std::string_view url, event_handler on_event = {});

/// The same on a context's own executor.
template <detail::execution_context Context>
[[nodiscard]] store open_store(Context& context, std::string_view url,
                               event_handler on_event = {}) {
  return open_store(context.get_executor(), url, std::move(on_event));
}

}  // namespace weir

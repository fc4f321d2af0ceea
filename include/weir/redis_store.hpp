#pragma once

#include <utility>

#include "weir/detail/export.hpp"
#include "weir/redis_options.hpp"
#include "weir/store.hpp"

namespace weir {

/// Makes a store on one Redis (6.2 or later) or Valkey (7.2 or later) server, over one multiplexed
/// connection; or, with redis_options::cluster_seeds, on a Redis Cluster, over one connection to
/// each master that is needed; or, with redis_options::sentinel, on the master that Sentinels name.
///
/// Returns at once, as open_store() does. It reads the TLS files now, and never again.
///
/// **Errors.** Throws boost::system::system_error with `invalid_options` (also if the executor is
/// empty or this OpenSSL offers no SHA-1) or `invalid_tls_file`.
///
/// **Thread safety.** Any thread may call it; the store is for any thread, unless
/// redis_options::single_threaded is set.
///
/// **Object lifetime.** The store copies the options. Store and execution context may be destroyed
/// in any order: see store.
///
/// In a coroutine, take the executor in a statement of its own. g++ 12 destroys members of the
/// options twice if the expression has a co_await:
///
///     const auto executor = co_await asio::this_coro::executor;
///     weir::store store = weir::make_redis_store(executor, {.host = "cache"});
[[nodiscard]] WEIR_EXPORT store make_redis_store(const boost::asio::any_io_executor& executor,
                                                 redis_options options);
[[nodiscard]] WEIR_EXPORT store make_redis_store(const boost::asio::any_io_executor& executor);

/// The same on a context's own executor.
template <detail::execution_context Context>
[[nodiscard]] store make_redis_store(Context& context, redis_options options = {}) {
  return make_redis_store(context.get_executor(), std::move(options));
}

}  // namespace weir

#pragma once

#include <utility>

#include "weir/detail/export.hpp"
#include "weir/memcached_options.hpp"
#include "weir/store.hpp"

namespace weir {

/// Makes a store on one or several memcached servers (1.6.10 or later), over one multiplexed
/// connection to each. A subject's state is one value, which every call reads and writes back with
/// a compare-and-swap.
///
/// Returns at once, as open_store() does.
///
/// What such a store does not promise:
///
/// - **Clock.** memcached offers none, so the caller's clock decides; it is compared with the
///   server's `stats` (memcached_options::max_clock_skew). Decisions of two processes whose clocks
///   differ by d may differ by d.
/// - **Durability.** A restart, a `flush_all` or an eviction forgets subjects: they start anew,
///   with their whole limit. Give the server enough memory (`memcached -m`).
/// - **Joint checks.** record_all(), acquire_all(), fetch_all(), settle_all() and refund_all() with
///   several claims, and enter() with claims, get error::joint_not_supported: memcached changes one
///   key at a time. `tiers` of one limiter work. limiter_options::group changes only the keys.
/// - **Servers that fail.** Calls for a server that is away fail; its subjects do not move to
///   another one.
///
/// **Errors.** Throws boost::system::system_error with `invalid_options`, also if the executor is
/// empty or this OpenSSL offers no MD5 for several servers.
///
/// **Thread safety.** Any thread may call it; the store is for any thread.
///
/// **Object lifetime.** The store copies the options. Store and execution context may be destroyed
/// in any order: see store.
///
/// In a coroutine, take the executor in a statement of its own. g++ 12 destroys members of the
/// options twice if the expression has a co_await:
///
///     const auto executor = co_await asio::this_coro::executor;
///     weir::store store = weir::make_memcached_store(executor, {.servers = {{"cache"}}});
[[nodiscard]] WEIR_EXPORT store make_memcached_store(const boost::asio::any_io_executor& executor,
                                                     memcached_options options);
[[nodiscard]] WEIR_EXPORT store make_memcached_store(const boost::asio::any_io_executor& executor);

/// The same on a context's own executor.
template <detail::execution_context Context>
[[nodiscard]] store make_memcached_store(Context& context, memcached_options options = {}) {
  return make_memcached_store(context.get_executor(), std::move(options));
}

}  // namespace weir

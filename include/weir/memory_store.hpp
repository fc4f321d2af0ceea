#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/event.hpp"
#include "weir/store.hpp"

namespace weir {

/// Options of a store in this process.
struct memory_options {
  /// The most subjects, each tier counted as one: 1 to 10^12, and at most 4 * 10^9 in a shard. A
  /// new subject beyond that gets error::store_full, because the store never forgets a subject that
  /// still counts. (With on_failure::open, such a call is allowed.) The bound is divided among the
  /// shards, and all of a `group` lies in one shard. A subject takes 85 to 175 bytes, and more if
  /// it has a key of more than 32 bytes or is a log (docs/in_memory.md).
  std::size_t max_subjects = 1'000'000;

  /// The most settled decisions (limiter::refund, limiter::settle) that the store remembers, in all
  /// shards together: 1 to 10^9. Beyond that refund() and settle() get error::settlements_full and
  /// change nothing, because the store never forgets one early. It remembers a decision for a
  /// minute, or for as long as a refund could give anything back, if that is longer. Each takes
  /// about 40 bytes.
  std::size_t max_settled = 1'000'000;

  /// The number of shards, each with its own lock: 1 to 65,536, rounded up to a power of two. The
  /// store has fewer if a shard would hold less than 1,024 subjects.
  std::size_t shards = 16;

  /// The clock; the system's if not given. A time before 1970 is read as the first microsecond of
  /// 1970, and one after 2255 as the last time that a state can hold. A finer clock needs
  /// std::chrono::time_point_cast. Only the store follows it, with counts and with leases that
  /// lapse; acquire(), the renewal and loss of leases, deadlines, the deny cache and local units go
  /// by the steady clock. So a test must advance its clock by each `delay`, and while it holds a
  /// lease, by less than the lease's duration. While the clock stands still, each reservation is
  /// further away than the one before. It may step backward: a policy then uses its state's own
  /// time (docs/policies.md). Any thread that makes a check calls it, under a lock, so it must not
  /// use the store or throw.
  std::function<time_point()> clock = {};

  /// Gets the store's events, and those of its limiters and gates that have no function of their
  /// own: event.hpp says when and where it runs.
  event_handler on_event = {};
};

/// Makes a store in this process.
///
/// Each check looks at a few subjects, of all shards in turn, and drops the idle ones (their state
/// has had no effect for 2 s), at a constant cost and without a pause, a timer or a thread. Their
/// memory goes back to the allocator. A store that gets no checks drops nothing.
///
/// **Errors.** Throws boost::system::system_error with `invalid_options` if a number is out of
/// range or the executor is empty.
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
///     weir::store store = weir::make_memory_store(executor, {.shards = 64});
[[nodiscard]] WEIR_EXPORT store make_memory_store(const boost::asio::any_io_executor& executor,
                                                  memory_options options);
[[nodiscard]] WEIR_EXPORT store make_memory_store(const boost::asio::any_io_executor& executor);

/// The same on a context's own executor.
template <detail::execution_context Context>
[[nodiscard]] store make_memory_store(Context& context, memory_options options = {}) {
  return make_memory_store(context.get_executor(), std::move(options));
}

}  // namespace weir

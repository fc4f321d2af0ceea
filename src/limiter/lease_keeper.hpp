#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/alarm.hpp"
#include "base/random.hpp"
#include "limiter/lease_schedule.hpp"
#include "policy/lease_set.hpp"

namespace weir::detail {

/// Renews the leases of one gate and gives them back: a lease_schedule with one timer on the
/// store's executor, and a mutex, because callers come from any thread. The mutex is not held while
/// a store is called or a handler is handed over.
///
/// The limiter owns it; each operation in progress holds `core` and so keeps it alive.
class lease_keeper final {
 public:
  using time = lease_schedule::time;
  using core_ptr = std::shared_ptr<const limiter_spec>;

  explicit lease_keeper(std::chrono::microseconds length) : length_(length), schedule_(length) {}

  /// A number for the next lease. After fork(), parent and child get different numbers.
  std::int64_t new_number() noexcept {
    constexpr std::uint64_t numbers = std::uint64_t{1} << 52;
    constexpr std::uint64_t first = policies::lease_set::nobody + 1;
    const std::uint64_t next = next_number_.fetch_add(1, std::memory_order_relaxed);
    return static_cast<std::int64_t>(first + (next + fork_salt()) % (numbers - first));
  }

  /// Adds a lease that the store has given, and renews it from now on. `sent` is a time before the
  /// enter left this process.
  void add(const core_ptr& core, std::int64_t lease, short_text subject, time sent);

  /// Ends the lease: its watchers get operation_aborted, and the store gets a leave, repeatedly
  /// until it answers one without an error or the lease has lapsed. A second call does nothing.
  void release(const core_ptr& core, std::int64_t lease);

  /// Sends a leave for an enter whose answer is unknown, in case the store has given the lease.
  /// Repeats it as release() does.
  void give_back(const core_ptr& core, std::int64_t lease, short_text subject);

  bool is_held(std::int64_t lease) noexcept;
  /// How many leases are held.
  std::size_t held();

  /// Finishes the check without an error when its lease is lost, and with operation_aborted when
  /// the lease is released.
  void watch(check& c);
  void unwatch(check& c);

  /// Called when the store closes: all watchers get store_closed. Leases that are not released
  /// lapse, because they are not renewed any more.
  void close();
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

 private:
  class renew_call;
  class leave_call;

  check_list take_watchers();
  void on_renewed(const renew_call& c);
  void on_leave_failed(const core_ptr& core, error_code ec, lease_schedule::open_leave what);
  static void leave(const core_ptr& core, lease_schedule::open_leave what);
  void on_timer(const core_ptr& core);
  void arm(const core_ptr& core);

  const std::chrono::microseconds length_;
  std::atomic<std::uint64_t> next_number_{0};

  std::mutex mutex_;
  // The mutex guards all members below.
  lease_schedule schedule_;
  alarm alarm_;  // stopped once the store closes or the context is gone
};

}  // namespace weir::detail

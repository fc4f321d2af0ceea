#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "check/random_number.hpp"
#include "limiter/lease_schedule.hpp"
#include "policy/lease_set.hpp"

namespace weir::detail {

/// Keeps the leases of one gate alive: a lease_schedule with one timer, on the store's executor,
/// and a mutex, because holders come from any thread. No lock is held while a store is called or a
/// handler is handed over.
///
/// It belongs to its limiter_spec, which is passed along: what is under way keeps it alive.
class lease_keeper final {
 public:
  using time = lease_schedule::time;
  using core_ptr = std::shared_ptr<const limiter_spec>;

  explicit lease_keeper(std::chrono::microseconds length) : length_(length), book_(length) {}

  /// For the next lease. A child of fork() counts on from elsewhere: it has the same gate.
  std::int64_t new_number() noexcept {
    constexpr std::uint64_t numbers = std::uint64_t{1} << 52;
    constexpr std::uint64_t first = policies::lease_set::nobody + 1;
    const std::uint64_t next = next_number_.fetch_add(1, std::memory_order_relaxed);
    return static_cast<std::int64_t>(first + (next + fork_salt()) % (numbers - first));
  }

  /// A lease has been given; from now on it is renewed. `sent`: before the enter left this process.
  void add(const core_ptr& core, std::int64_t lease, short_text subject, time sent);

  /// Ends it: its watchers hear operation_aborted, and the store is told. No second time.
  void release(const core_ptr& core, std::int64_t lease);

  /// Tells the store that an enter whose answer nobody has heard is not wanted, should it have been
  /// let in.
  void give_back(const core_ptr& core, std::int64_t lease, short_text subject);

  bool is_held(std::int64_t lease);

  /// The check is finished without an error when its lease is lost; with operation_aborted when it
  /// is released.
  void watch(check& c);
  void unwatch(check& c);

  /// The store is closing: all watchers hear store_closed. Leases that are not released lapse:
  /// nobody renews them.
  void close();
  /// As shutdown_listener's.
  void context_shut_down() noexcept;

 private:
  class call;

  check_list take_watchers();
  void on_timer(const core_ptr& core);
  void on_renewed(const call& c);
  void look_after(const core_ptr& core, check_list told);
  void arm(const core_ptr& core);

  const std::chrono::microseconds length_;
  std::atomic<std::uint64_t> next_number_{0};

  std::mutex mutex_;
  // Under the mutex:
  lease_schedule book_;
  std::optional<boost::asio::steady_timer> timer_;
  time armed_ = time::max();  // when the timer fires
  bool closed_ = false;
  bool context_gone_ = false;
};

}  // namespace weir::detail

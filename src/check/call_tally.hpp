#pragma once

#include <array>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/light_mutex.hpp"
#include "check/flight.hpp"
#include "weir/stats.hpp"

namespace weir::detail {

/// Counts how calls ended. Thread-safe.
///
/// Allowed calls are counted in one of several cache lines, chosen by the thread: threads that use
/// one limiter of a memory store would wait for each other otherwise.
class call_tally : public boost::intrusive::list_base_hook<> {
 public:
  /// Plain numbers of the same; for sums and differences.
  struct numbers {
    static constexpr std::size_t most_errors = 64;

    std::array<std::uint64_t, 8> outcomes{};  // allowed by source, then refused by source
    std::uint64_t other = 0, cancelled = 0;
    std::array<std::uint64_t, most_errors> failed{}, covered{};

    void add(const numbers& n) noexcept;
    void subtract(const numbers& n) noexcept;
    call_counts counts() const;
  };

  /// Counts calls of this limiter alone, which the store has allowed, and which took units.
  void add_allowed(std::uint64_t calls) noexcept {
    stripes_[stripe_of_thread()].allowed.fetch_add(calls, std::memory_order_relaxed);
  }
  /// Counts any other call.
  void add(const check& c) noexcept;
  numbers read() const noexcept;

 private:
  static constexpr std::size_t stripe_count = 8;
  struct alignas(64) line {
    std::atomic<std::uint64_t> allowed{0};
  };

  /// Threads have their stacks at least 2^23 bytes apart, as a rule. A thread_local number would
  /// cost more than the addition.
  static std::size_t stripe_of_thread() noexcept {
    return (reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >> 23) % stripe_count;
  }

  std::array<line, stripe_count> stripes_{};
  mutable light_mutex mutex_;
  numbers rare_;  // what the stripes do not count; guarded by the mutex
};

/// The counts of all limiters of a store. Thread-safe.
class tally_book {
 public:
  void enter(call_tally& of_limiter);
  /// Keeps the counts of a limiter that is destroyed.
  void leave(call_tally& of_limiter) noexcept;
  /// Notes that a call of several limiters was counted at one more of them.
  void counted_again(const check& c) noexcept { again_.add(c); }
  call_counts sum() const;

 private:
  mutable std::mutex mutex_;
  // The mutex guards these:
  boost::intrusive::list<call_tally> present_;
  call_tally::numbers of_past_;
  call_tally again_;
};

}  // namespace weir::detail

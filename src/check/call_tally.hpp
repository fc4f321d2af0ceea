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
/// An answer without anything else to note is counted in one of several cache lines, chosen by the
/// thread: threads that use one limiter of a memory store would wait for each other otherwise.
class call_tally : public boost::intrusive::list_base_hook<> {
 public:
  /// Plain numbers of the same; for sums and differences.
  struct numbers {
    static constexpr std::size_t most_errors = 64;

    std::array<std::uint64_t, 8> outcomes{};  // allowed by source, then refused by source
    std::uint64_t other = 0, cancelled = 0;
    std::array<std::uint64_t, most_errors> failed{};

    void add(const numbers& n) noexcept;
    void subtract(const numbers& n) noexcept;
    call_counts counts() const;
  };

  /// Counts a call that has ended. Returns true if it was a common one: nothing else is to be
  /// noted.
  bool add_common(const check& c, unsigned stripe) noexcept {
    const bool is_common = is_record(c) && !c.ec && c.further().empty() && c.answer.tier < 0 &&
                           (c.answer.allowed || !c.answer.cooling_down);
    if (is_common) stripes_[stripe].outcomes[outcome_of(c)].fetch_add(1, relaxed);
    return is_common;
  }
  /// Counts any other call.
  void add(const check& c) noexcept;
  numbers read() const noexcept;

  static constexpr unsigned stripe_count = 8;

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  struct alignas(64) line {
    std::array<std::atomic<std::uint64_t>, 8> outcomes{};
  };

  static std::size_t outcome_of(const check& c) noexcept {
    return static_cast<std::size_t>(c.answer.source) + (c.answer.allowed ? 0 : 4);
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

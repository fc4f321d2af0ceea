#pragma once

#include <algorithm>
#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>

#include "check/flight.hpp"

namespace weir::detail {

/// The deadlines of all pending checks, for one timer. Adding and removing cost a pointer or two.
/// Finding the next deadline scans the wheel, when the timer fires, not per check.
///
/// Hashed timing wheel (Varghese and Lauck 1987, scheme 6): a deadline further ahead than one turn
/// of the wheel stays in its slot for several turns.
class deadline_wheel {
 public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds tick{1 << 20};  // about 1 ms, found by a shift
  static constexpr std::size_t slots = 1024;

  void add(check& c) {
    const time deadline = c.flight.deadline;
    slots_[slot_of(deadline)].push_back(c);
    if (deadline < next_) next_ = deadline;
  }

  /// Removes a check; unlinking its hook is enough.
  static void remove(check& c) { c.wheel.unlink(); }

  /// A lower bound of all deadlines; time::max() if there is none.
  time next() const noexcept { return next_; }

  /// Removes every check whose deadline has passed and calls `expired` with it, which may add and
  /// remove other checks.
  template <class F>
  void expire(time now, F&& expired) {
    if (now < next_) return;
    const std::int64_t first = tick_of(next_);
    const std::int64_t last = tick_of(now);
    const std::int64_t turn = static_cast<std::int64_t>(slots);
    list due;
    for (std::int64_t t = first; t <= last && t < first + turn; ++t) {
      for (auto it = slots_[index(t)].begin(); it != slots_[index(t)].end();) {
        check& c = *it++;
        if (c.flight.deadline > now) continue;
        remove(c);
        due.push_back(c);
      }
    }
    while (!due.empty()) {
      check& c = due.front();
      due.pop_front();
      expired(c);
    }
    next_ = find_next(now);
  }

 private:
  using list = boost::intrusive::list<
      check, boost::intrusive::member_hook<check, check::hook, &check::wheel>,
      boost::intrusive::constant_time_size<false>>;

  static std::int64_t tick_of(time t) noexcept {
    return std::chrono::nanoseconds(t.time_since_epoch()).count() >> 20;
  }
  static std::size_t index(std::int64_t t) noexcept {
    return static_cast<std::size_t>(t) & (slots - 1);
  }
  std::size_t slot_of(time t) const noexcept { return index(tick_of(t)); }

  /// The earliest deadline in the first slot that is due within one turn of the wheel; the end of
  /// the turn if all are later.
  time find_next(time now) const noexcept {
    const std::int64_t first = tick_of(now);
    bool later = false;
    for (std::size_t i = 0; i < slots; ++i) {
      const std::int64_t t = first + static_cast<std::int64_t>(i);
      time earliest = time::max();
      for (const check& c : slots_[index(t)]) {
        earliest = std::min(earliest, c.flight.deadline);
      }
      if (earliest == time::max()) continue;
      if (tick_of(earliest) <= t) return earliest;
      later = true;
    }
    if (!later) return time::max();
    return time(tick * (first + static_cast<std::int64_t>(slots)));
  }

  std::array<list, slots> slots_;
  time next_ = time::max();
};

}  // namespace weir::detail

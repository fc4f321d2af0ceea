#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "weir/decision.hpp"
#include "weir/detail/check.hpp"

namespace weir::waiting {

/// A reservation that lies ahead, of the store or of the fallback. The waiters of one line and cost
/// may exchange theirs.
struct reservation {
  using steady_time = detail::check::steady_time;

  joint_decision answer;                     // with which it was made
  std::vector<std::int64_t> found;           // see acquire_request
  steady_time due{};                         // by this process's clock
  std::uint64_t number = 0;                  // in the order of the answers
  std::chrono::nanoseconds postponed_by{0};  // how far a cool-down has postponed it
  std::chrono::nanoseconds late_by{0};       // how late it may be by the store's clock, at most
  // How many cool-downs its line had noted, and forgotten, when the store was asked for it.
  std::uint32_t cool_downs = 0, forgotten = 0;
  steady_time named_cool_down{};  // the end of the one that the answer named

  bool is_of_store() const noexcept { return answer.source != source::fallback; }
  /// Its time by the store's clock, without the postponement for a cool-down.
  time_point reserved_time() const noexcept { return answer.decided_at + answer.delay; }

  /// What a waiter is told when the reservation is due. The store may have made it for another
  /// waiter, so `decided_at` and `delay` are moved to the time at which this one got its own.
  joint_decision decision_since(steady_time reserved_at) const noexcept;
  /// What a waiter is told if its max_wait ends before a cool-down, which lasts until `until`.
  decision refusal(std::chrono::microseconds max_wait, steady_time now, steady_time until) const;
};

}  // namespace weir::waiting

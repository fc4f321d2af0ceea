#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace weir::detail {

/// How much too late it is `now` for a timer that was set to `due`: zero, or more than timers of an
/// idle process are late. Then this process, or its thread, stood still.
inline std::chrono::steady_clock::duration lateness(
    std::chrono::steady_clock::time_point due, std::chrono::steady_clock::time_point now) noexcept {
  constexpr std::chrono::milliseconds usual{2};
  const auto late = now - due;
  return late > usual ? late : late.zero();
}

/// The end of waiting for something. If the process stood still when it came, what is awaited may
/// be there already: the limit is put off once, so that this is read first.
struct limit {
  using time = std::chrono::steady_clock::time_point;

  time at = time::max();
  bool was_put_off = false;

  /// `late`: how long the process stood still; the limit is put off by as long, at most by `most`.
  bool is_over(time now, time::duration late, time::duration most) noexcept {
    if (now < at) return false;
    if (late.count() == 0 || std::exchange(was_put_off, true)) return true;
    at = now + std::min(late, most);
    return false;
  }
};

}  // namespace weir::detail

#pragma once

#include <chrono>

namespace weir::detail {

/// How much too late it is `now` for a timer that was set to `due`: zero, or more than timers of an
/// idle process are late. Then this process, or its thread, stood still.
inline std::chrono::steady_clock::duration lateness(
    std::chrono::steady_clock::time_point due, std::chrono::steady_clock::time_point now) noexcept {
  constexpr std::chrono::milliseconds usual{2};
  const auto late = now - due;
  return late > usual ? late : late.zero();
}

}  // namespace weir::detail

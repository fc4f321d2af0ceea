#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include "weir/decision.hpp"

namespace weir::detail {

/// The time of the given clock, or of the system's if it is empty, in microseconds since 1970. It
/// is cut to what a state can hold: 1 (zero means "no time") to 2^53 - 1, in the year 2255.
inline std::int64_t read_clock(const std::function<time_point()>& clock) {
  const time_point t = clock ? clock()
                             : std::chrono::time_point_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now());
  constexpr std::int64_t last = (std::int64_t{1} << 53) - 1;
  return std::clamp<std::int64_t>(t.time_since_epoch().count(), 1, last);
}

/// This process's clock, as events and statistics tell times.
inline time_point system_time() noexcept {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace weir::detail

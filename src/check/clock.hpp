#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "policy/arithmetic.hpp"

namespace weir::detail {

/// The time of the given clock, or of the system's if it is empty, cut to what a state can hold:
/// from the first microsecond of 1970 (zero means "no time") to the year 2255.
inline policies::instant read_clock(const std::function<time_point()>& clock) {
  const time_point t = clock ? clock()
                             : std::chrono::time_point_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now());
  return std::clamp<policies::instant>(t.time_since_epoch().count(), 1, policies::max_exact);
}

}  // namespace weir::detail

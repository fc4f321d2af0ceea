#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "policy/arithmetic.hpp"

namespace weir::detail {

/// The time of the given clock, or of the system's if it is empty; never before 1970, because
/// policies have no negative times.
inline policies::instant read_clock(const std::function<time_point()>& clock) {
  const time_point t = clock ? clock()
                             : std::chrono::time_point_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now());
  return std::max<policies::instant>(0, t.time_since_epoch().count());
}

}  // namespace weir::detail

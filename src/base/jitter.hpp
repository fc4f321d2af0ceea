#pragma once

#include <algorithm>
#include <chrono>

#include "base/random.hpp"

namespace weir::detail {

/// Random jitter for the end of a cool-down: up to a tenth of `pause`, at most 1 s. Without it, all
/// refused callers would return in the same microsecond.
inline std::chrono::microseconds jitter(std::chrono::microseconds pause) {
  constexpr std::chrono::microseconds most = std::chrono::seconds{1};
  const auto width = static_cast<std::uint64_t>(std::min(pause / 10, most).count());
  return std::chrono::microseconds(static_cast<std::int64_t>(random_number() % (width + 1)));
}

}  // namespace weir::detail

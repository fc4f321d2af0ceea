#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/policy.hpp"

namespace weir::policies {

using units = std::int64_t;    ///< what a policy counts
using instant = std::int64_t;  ///< microseconds since 1970-01-01T00:00Z, never negative
using span = std::int64_t;     ///< microseconds

__extension__ using wide = __int128;  // products of two 53-bit numbers

/// The largest integer from which a Lua number can still count on.
inline constexpr std::int64_t max_exact = (std::int64_t{1} << 53) - 1;

/// Stands for weir::unlimited inside the kernels and scripts: no sum of two counts gets past it.
inline constexpr units no_limit = max_exact;

constexpr std::int64_t floor_div(wide a, wide b) noexcept {
  return static_cast<std::int64_t>(a / b - (a % b < 0 ? 1 : 0));
}
constexpr std::int64_t ceil_div(wide a, wide b) noexcept {
  return static_cast<std::int64_t>(a / b + (a % b > 0 ? 1 : 0));
}

/// Counts stop at `most` instead of overflowing.
constexpr units add_up_to(units a, units b, units most) noexcept {
  return a > most - b ? most : a + b;
}

constexpr units limit_for_caller(units limit) noexcept {
  return limit == no_limit ? unlimited : limit;
}
constexpr units remaining_for_caller(units limit, units used) noexcept {
  return limit == no_limit ? unlimited : std::max<units>(0, limit - used);
}

/// Whether a number from a script's reply can be what it says: a stray value in a key must not reach the arithmetic.
constexpr bool is_instant(std::int64_t x) noexcept { return x >= 0 && x <= max_exact; }
constexpr bool is_count(std::int64_t x) noexcept { return x >= 0 && x <= max_exact; }

constexpr time_point to_time_point(instant t) noexcept {
  return time_point(std::chrono::microseconds(t));
}

}  // namespace weir::policies

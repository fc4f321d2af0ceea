#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "weir/policy.hpp"

namespace weir::policies {

using units = std::int64_t;    ///< what a policy counts
using instant = std::int64_t;  ///< microseconds since 1970-01-01T00:00Z, never negative
using span = std::int64_t;     ///< microseconds

/// The time of a request: the store's clock, and when the request may go. A reservation may go at
/// its turn, which may lie after the clock.
struct request_time {
  instant clock;
  instant when;

  request_time(instant now) noexcept
      : clock(now), when(now) {}  // NOLINT: an instant is a moment of its own
  request_time(instant now, instant turn) noexcept : clock(now), when(turn) {}
};

/// How long a state is kept after it has ended or was emptied: the clock may step back by that.
inline constexpr span grace = 2'000'000;

/// In Redis, a key stays until the next multiple of this after the end of its state, and the grace.
/// Only a check that moves the end beyond that multiple renews the TTL (policy/lua/start.lua).
inline constexpr span grid = 16'000'000;

/// How long at least a store remembers that it has settled a decision. Repetitions of a give-back
/// end sooner. settle.lua has the same number.
inline constexpr span shortest_marker_life = 60'000'000;

__extension__ using wide = __int128;  // products of two 53-bit numbers

/// The largest integer up to which all Lua numbers are exact.
inline constexpr std::int64_t max_exact = (std::int64_t{1} << 53) - 1;

/// weir::unlimited inside the kernels and scripts: no sum of two counts exceeds it.
inline constexpr units no_limit = max_exact;

/// b > 0. A division of 128 bits is a call, so there is one only.
constexpr std::int64_t floor_div(wide a, wide b) noexcept {
  const wide quotient = a / b;
  return static_cast<std::int64_t>(quotient - (quotient * b > a ? 1 : 0));
}
constexpr std::int64_t ceil_div(wide a, wide b) noexcept {
  const wide quotient = a / b;
  return static_cast<std::int64_t>(quotient + (quotient * b < a ? 1 : 0));
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

/// True if a number from a script's reply can be a time, or a count: foreign values must not reach
/// the arithmetic.
constexpr bool is_instant(std::int64_t x) noexcept { return x >= 0 && x <= max_exact; }
constexpr bool is_count(std::int64_t x) noexcept { return x >= 0 && x <= max_exact; }

constexpr time_point to_time_point(instant t) noexcept {
  return time_point(std::chrono::microseconds(t));
}

}  // namespace weir::policies

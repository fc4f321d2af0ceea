#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "weir/policy.hpp"

namespace weir::policies {

using units = std::int64_t;    ///< what a policy counts
using instant = std::int64_t;  ///< microseconds since 1970-01-01T00:00Z, never negative
using span = std::int64_t;     ///< microseconds

/// The time of a request: the store's clock, and when the request may go. For a reservation, that
/// is its turn, which may lie after the clock.
struct moment {
  instant clock;
  instant when;

  moment(instant now) noexcept
      : clock(now), when(now) {}  // NOLINT: an instant is a moment of its own
  moment(instant now, instant turn) noexcept : clock(now), when(turn) {}
};

/// So long is a state kept after it has ended or was emptied: the clock may step back by that.
inline constexpr span grace = 2'000'000;

/// In Redis, a key stays up to the next multiple of this after the end of its state, and the grace:
/// only a check that moves the end beyond that renews the TTL (policy/lua/start.lua).
inline constexpr span grid = 16'000'000;

/// The reservations ahead, as a state knows them. A *turn* is the time at which a reservation may
/// go.
struct reservations_ahead {
  instant written = 0;  // when the last one was made: that time has passed; 0: none is ahead
  instant turn = 0;     // of the last one

  /// The same without what lies before `passed`.
  reservations_ahead after(instant passed) const noexcept {
    return turn > passed ? reservations_ahead{passed, turn} : reservations_ahead{};
  }
  friend bool operator==(const reservations_ahead&, const reservations_ahead&) = default;
};

/// What is known, at one tier, of a counted request that is to be given back.
struct ticket {
  instant turn;     // when it may go
  instant counted;  // when all but a leaky bucket counted it: then, or before
  // What the request left behind in a bucket; nothing is known if `whole` is 0
  receipt::bucket left = {};
  /// For a reservation ahead: the state that it found, as restore() takes it. Else empty.
  std::span<const std::int64_t> found = {};

  /// Calls f with each number that the kernel's script takes: of a bucket what was left behind, if
  /// that is known; then what was found.
  template <class F>
  void each_number(F&& f) const {
    if (left.whole > 0) {
      for (const std::int64_t value : {left.whole, left.part, left.returned}) f(value);
    }
    for (const std::int64_t value : found) f(value);
  }
  std::size_t numbers() const noexcept { return (left.whole > 0 ? 3 : 0) + found.size(); }
};

__extension__ using wide = __int128;  // products of two 53-bit numbers

/// The largest integer from which a Lua number can still count on.
inline constexpr std::int64_t max_exact = (std::int64_t{1} << 53) - 1;

/// weir::unlimited inside the kernels and scripts: no sum of two counts exceeds it.
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

/// Whether a number from a script's reply can be a time, or a count: a foreign value in a key must
/// not reach the arithmetic.
constexpr bool is_instant(std::int64_t x) noexcept { return x >= 0 && x <= max_exact; }
constexpr bool is_count(std::int64_t x) noexcept { return x >= 0 && x <= max_exact; }

constexpr time_point to_time_point(instant t) noexcept {
  return time_point(std::chrono::microseconds(t));
}

}  // namespace weir::policies

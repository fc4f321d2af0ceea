#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/arithmetic.hpp"

namespace weir::policies {

/// The reservations ahead, as a state knows them. A *turn* is the time at which a reservation may
/// go.
struct reservations_ahead {
  instant written = 0;  // when the last one was made: that time has passed; 0: none is ahead
  instant turn = 0;     // of the last one

  /// The reservations that are still ahead at `passed`.
  reservations_ahead after(instant latest_known_past) const noexcept {
    return turn > latest_known_past ? reservations_ahead{latest_known_past, turn}
                                    : reservations_ahead{};
  }
  friend bool operator==(const reservations_ahead&, const reservations_ahead&) = default;
};

/// What is known, at one tier, of a counted request that is to be given back.
struct ticket {
  instant counted;  // when all but a leaky bucket counted it: when it may go, or before
  // What the request left behind in a bucket; not known if `whole` is 0.
  receipt::bucket left = {};
  /// For a reservation ahead: the state that it found, as restore() takes it. Else empty.
  std::span<const std::int64_t> found = {};

  /// Calls f with each number that the kernel's script takes: for a bucket what was left behind, if
  /// known; then what was found.
  template <class F>
  void each_number(F&& f) const {
    if (left.whole > 0) {
      for (const std::int64_t value : {left.whole, left.part, left.returned}) f(value);
    }
    for (const std::int64_t value : found) f(value);
  }
  std::size_t numbers() const noexcept { return (left.whole > 0 ? 3 : 0) + found.size(); }
};

}  // namespace weir::policies

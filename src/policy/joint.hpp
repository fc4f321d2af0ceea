#pragma once

#include <span>

#include "policy/kernel.hpp"

namespace weir::policies {

/// What restore() makes of a script's reply, for any kernel.
using any_replay = std::variant<meter::replay, fixed_window::replay, sliding_window::replay,
                                sliding_log::replay, hold::replay>;

/// The most keys that one check may touch.
inline constexpr std::size_t max_tiers = 16;

/// One of several kernels that are asked together. `State` is any_state or any_replay, and holds what fits the kernel.
template <class State>
struct tier {
  const kernel* rules;
  State* state;
  units cost;
};

/// What several decisions come to. All allowed: the one with the least left, and the longest delay. Else the one that
/// refuses longest, and its place in `tier` (of one alone: -1). `of` holds at least one.
decision combined(std::span<const decision> of) noexcept;

/// Counts in all of them, at one instant, if all allow it; else in none. None may count what it refuses. At most max_tiers.
/// A hold follows the tiers of its limiter, takes no place among them, and refuses in the name of the last.
template <class State>
decision record_all(std::span<const tier<State>> tiers, instant now);

template <class State>
decision fetch_all(std::span<const tier<State>> tiers, instant now);

}  // namespace weir::policies

#pragma once

#include <span>

#include "policy/kernel.hpp"

namespace weir::policies {

/// What restore() makes of a script's reply, for any kernel.
using any_replay = std::variant<meter::replay, fixed_window::replay, sliding_window::replay,
                                sliding_log::replay, hold::replay, lease_set::replay>;

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

/// Counts in all of them, at one instant of the clock, if all allow it; else in none. None may count what it refuses. At most max_tiers.
/// A hold follows the tiers of its limiter, takes no place among them, and refuses in the name of the last.
template <class State>
decision record_all(std::span<const tier<State>> tiers, moment now);

template <class State>
decision fetch_all(std::span<const tier<State>> tiers, moment now);

/// Whether a turn can be booked in it ahead of time.
bool can_book(const kernel& k) noexcept;

/// Counts a request in all of them at its turn, if that is not after now + max_wait; else in none. The turn is the first time
/// at which all of the tiers allow it, and none asks for a delay. `delay` is the time until then. If refused, `retry_after`
/// is when the same would be booked.
template <class State>
decision book_all(std::span<const tier<State>> tiers, instant now, span max_wait);

/// The decision on a request whose turn is known.
template <class State>
decision book_at(std::span<const tier<State>> tiers, moment turn, span max_wait);

/// Whether what it counted can be settled later.
bool can_settle(const kernel& k) noexcept;

/// Takes a counted request back from each, as far as it can be.
void give_back_all(std::span<const tier<any_state>> tiers, instant clock, ticket t);

/// Counts in each, beyond its limit if it must: at the first time at which it would pass without one.
void charge_all(std::span<const tier<any_state>> tiers, instant clock);

/// Counts as much in each as leaves no more than its tier's cost.
void lower_all(std::span<const tier<any_state>> tiers, instant clock);

/// The answer to who settles: `done` says whether this was the first time, and the rest how things stand.
template <class State>
decision settled(std::span<const tier<State>> tiers, instant clock, bool done);

/// What charges in the kernel's stead: the script takes its constants.
kernel charging(const kernel& k);

/// What give_back_all has to know of a decision on these kernels. `alone`: as in ticket. `is_whole`: no other limiter's were
/// asked with them.
template <class Kernels>
ticket ticket_of(const decision& d, const Kernels& kernels, bool alone, bool is_whole = true) {
  const instant turn = (d.at + d.delay).time_since_epoch().count();
  ticket t{.turn = turn,
           .counted = !is_whole || kernels.size() > 1 ? d.receipt.counted_at : turn,
           .after = d.receipt.empty_at,
           .unit = 0,
           .alone = alone};
  // Of the only one, the decision itself tells.
  const auto* bucket = std::get_if<meter>(&kernels.front());
  if ((alone || (is_whole && kernels.size() == 1)) && bucket != nullptr) {
    t.after = bucket->after(d);
    t.unit = bucket->unit();
  }
  return t;
}

}  // namespace weir::policies

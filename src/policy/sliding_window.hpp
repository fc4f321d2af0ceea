#pragma once

#include <span>
#include <string_view>

#include "policy/arithmetic.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// Two counters of epoch-aligned windows. With `e` elapsed in the current one, the previous one weighs
/// previous * (window - e) / window; as everything else is whole, rounding that up compares the same. A clock behind the
/// stored window's beginning is read as that beginning; behind by more than a window, both counts go
/// into the window of now, at full weight.
///
/// Turns. A request booked for a later time is counted in the window of its turn. Nothing passes before the last turn,
/// so the counts up to it are final, and the first time at which the formula holds is exact. The state then says which
/// turn is the last, and when it was written: that is the time which has passed. Of the windows with turns ahead, the
/// last one and the one before it are remembered.
class sliding_window {
 public:
  struct state {
    // Of the current window. The start, not the number: read with another window's length, a number could lie years ahead.
    instant start = 0;
    units current = 0;
    units previous = 0;
    booking ahead = {};
    friend bool operator==(const state&, const state&) = default;
  };

  /// The policy has been validated against most().
  explicit sliding_window(const weir::sliding_window& policy) noexcept;

  /// The largest count whose weight a script can compute exactly, for a window of that length.
  static units most(span window) noexcept;

  units ceiling() const noexcept { return std::min(limit_, most_); }
  units limit() const noexcept { return limit_for_caller(limit_); }
  span window() const noexcept { return window_; }

  decision record(state& s, moment now, units cost) const noexcept;
  decision fetch(const state& s, moment now, units cost) const noexcept;
  /// Has a state far ahead of the clock begin anew by that, once and for all.
  void mend(state& s, instant clock) const noexcept { s = settled(s, clock); }
  /// The same without its limit: what it counts is charged, whatever the limit says.
  sliding_window endless() const noexcept;
  instant matters_until(const state& s) const noexcept {
    return std::max(aligned(s.start) + 2 * window_, s.ahead.turn);
  }

  /// Takes a counted request back, as far as its window is still remembered. When nothing is left in the window of the
  /// last turn, that turn becomes the window's beginning: of the windows before, not all counts are known.
  void give_back(state& s, instant clock, const ticket& t, units cost) const noexcept;

  // Its other half is sliding_window.lua.
  static constexpr std::size_t script_constants = 6;  // arguments()
  static constexpr std::size_t reply_width = 5;
  static constexpr std::string_view key_suffix = "w";
  static constexpr bool can_book = true;
  static constexpr bool can_settle = true;
  static std::string_view script() noexcept;
  static std::string_view settle_script() noexcept;
  using replay = state;
  script_arguments arguments(units cost) const noexcept;
  bool coalesces() const noexcept { return true; }
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;

 private:
  struct times {
    instant passed;  // the clock, or what the state knows to have passed
    instant at;      // the time of the request
    instant turn;    // not before the last turn that is taken: where it would stand
  };

  instant aligned(instant t) const noexcept { return t - t % window_; }
  instant passed(const state& s) const noexcept;
  times times_of(const state& s, moment now) const noexcept;
  state settled(const state& s, instant now) const noexcept;
  state current(const state& s, instant at) const noexcept;
  units used(const state& s, instant at) const noexcept;
  bool fits(const state& s, instant at, units cost) const noexcept;
  instant passes_at(const state& s, units cost) const noexcept;
  decision describe(const state& s, const times& t, units cost, bool allowed) const noexcept;

  span window_;
  units limit_;
  units most_;
  bool count_refused_;
};

}  // namespace weir::policies

#pragma once

#include <array>
#include <span>
#include <string_view>

#include "policy/kernel_kind.hpp"
#include "policy/reservation.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// Two counters of epoch-aligned windows. With `e` elapsed in the current window, the previous
/// counter weighs previous * (window - e) / window, rounded up, which changes no comparison because
/// all other numbers are whole. A clock behind the stored window's beginning is read as that
/// beginning; if it is behind by more than a window, both counts go into the present window, at
/// full weight.
///
/// Reservations. A reservation is counted in the window of its turn. Nothing passes before the last
/// turn, so the counts up to it are final. The state then knows the last turn, how much is reserved
/// for it, and when it was written, which is a time that has passed. Of the windows with
/// reservations ahead, the state knows the last two.
class sliding_window {
 public:
  struct state {
    // The current window's start. Its number would lie years ahead for another window's length.
    instant start = 0;
    units current = 0;
    units previous = 0;
    // With reservations ahead: when it was written, and `start` is the last turn. Else 0
    instant written = 0;
    units at_last = 0;  // how much of `current` is reserved for the last turn
    friend bool operator==(const state&, const state&) = default;
  };

  /// The policy has been validated against most().
  explicit sliding_window(const weir::sliding_window& policy) noexcept;

  /// The largest count whose weight a script can compute exactly for this window.
  static units most(span window) noexcept;

  units ceiling() const noexcept { return std::min(limit_, most_); }
  units limit() const noexcept { return limit_for_caller(limit_); }

  decision record(state& s, request_time now, units cost) const noexcept;
  decision fetch(const state& s, request_time now, units cost) const noexcept;
  /// Makes a state far ahead of the clock begin anew by the clock.
  void mend(state& s, instant clock) const noexcept {
    if (is_far_ahead(s, clock)) s = seen_at(s, clock);
  }
  bool is_far_ahead(const state& s, instant clock) const noexcept {
    return latest_known_past(s) - clock > window_;
  }
  instant own_time(const state& s) const noexcept { return latest_known_past(s); }
  units in_use(const state& s, instant) const noexcept { return s.current + s.previous; }
  /// The same policy without its limit: for charges.
  sliding_window endless() const noexcept;
  /// An empty state still matters for the time that had passed when it was emptied.
  instant matters_until(const state& s) const noexcept {
    return aligned(s.start) + (is_empty(s) ? 0 : 2 * window_);
  }
  static bool is_empty(const state& s) noexcept {
    return s.current == 0 && s.previous == 0 && s.written == 0;
  }

  /// Takes a counted request back, if the state still knows its window. If no reservation is left
  /// at the last turn, or in its window, the last turn becomes the one that the reservation found;
  /// if that is not known, the beginning of the window.
  void give_back(state& s, instant clock, const ticket& t, units cost) const noexcept;

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::window;
  static constexpr bool tells_state = true;
  bool counts_refused() const noexcept { return count_refused_; }

  // Its other half is sliding_window.lua, with sliding_window_settle.lua.
  static constexpr std::size_t script_constants = 6;  // arguments()
  static constexpr std::size_t reply_width = 5;
  static constexpr std::string_view key_suffix = "w";
  static std::string_view script() noexcept;
  static std::string_view settle_script() noexcept;
  using replay = state;
  script_arguments arguments(units cost) const noexcept;
  void pack_common_constants(std::string& to, units cost) const {
    pack_numbers(to, {window_, limit_, cost});
  }
  bool has_common_path() const noexcept { return !count_refused_ && limit_ != no_limit; }
  std::array<std::int64_t, reply_width> fields(const state& s, instant) const noexcept {
    return {s.start, s.current, s.previous, s.written, s.at_last};
  }
  bool coalesces() const noexcept { return true; }
  static bool read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept;
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;

  friend bool operator==(const sliding_window&, const sliding_window&) = default;

 private:
  struct times {
    instant latest_known_past;  // the clock, or what the state knows to have passed
    instant at;                 // the time of the request
    instant turn;  // the earliest one that the request can get: not before the last reservation's
  };

  instant aligned(instant t) const noexcept { return t - t % window_; }
  instant latest_known_past(const state& s) const noexcept;
  static instant last_turn(const state& s) noexcept { return s.written > 0 ? s.start : 0; }
  times times_of(const state& s, request_time now) const noexcept;
  void step_back(state& s, const ticket& t) const noexcept;
  state seen_at(const state& s, instant clock) const noexcept;
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

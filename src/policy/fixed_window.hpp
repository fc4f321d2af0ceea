#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "policy/kernel_kind.hpp"
#include "policy/reservation.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// One counter and the time at which its window began. A clock behind that time is read as that
/// time; if it is behind by more than a window, the count moves to the present window.
///
/// Reservations. A reservation in a later window opens that window ahead: until it begins, nothing
/// passes. The state then says when it was written, which is a time that has passed. It also keeps
/// the window before, and returns to it when all reservations in the later window are given back,
/// even if that window is over: a longer window of the key may still count it. If several windows
/// are opened ahead, the state knows the last two; the ticket of the reservation that opened a
/// window has the state before.
class fixed_window {
 public:
  struct state {
    instant start = 0;
    units count = 0;           // 0: no window is open, unless it was opened ahead
    instant written = 0;       // of a window opened ahead: when it was written; else 0
    instant start_before = 0;  // and the window before: 0 if not known
    units count_before = 0;
    bool is_open() const noexcept { return count > 0 || written > 0; }
    friend bool operator==(const state&, const state&) = default;
  };

  /// The policy has been validated.
  explicit fixed_window(const weir::fixed_window& policy) noexcept;

  units ceiling() const noexcept { return std::min(limit_, max_units); }
  units limit() const noexcept { return limit_for_caller(limit_); }
  span window() const noexcept { return window_; }
  /// Where the windows begin; nothing if the first request opens one.
  std::optional<span> offset() const noexcept {
    return offset_ == first_request ? std::optional<span>{} : offset_;
  }

  decision record(state& s, request_time now, units cost) const noexcept;
  /// As record(), but returns only whether the request passes. For a state that is a begin and a
  /// count alone (0: there is no window), a limit up to max_units, and without count_refused. 1 <=
  /// cost <= limit.
  bool record_plain(instant& start, units& count, instant now, units cost) const noexcept {
    if (count > 0) {
      // A window far ahead was not written by this clock: it begins anew.
      if (start - now > window_) start = begin_of_window(now);
      // A clock behind the state is read as the state's own time.
      if (now < start + window_) {
        if (count + cost > limit_) return false;
        count += cost;
        return true;
      }
    }
    start = begin_of_window(now);
    count = cost;
    return true;
  }
  decision fetch(const state& s, request_time now, units cost) const noexcept;
  /// Makes a state far ahead of the clock begin anew by the clock.
  void mend(state& s, instant clock) const noexcept {
    if (is_far_ahead(s, clock)) s = seen_at(s, clock);
  }
  bool is_far_ahead(const state& s, instant clock) const noexcept {
    return latest_known_past(s, clock) - clock > window_;
  }
  instant own_time(const state& s) const noexcept { return latest_known_past(s, 0); }
  units in_use(const state& s, instant) const noexcept { return s.count; }
  /// Takes back what a request counted, if the state still knows its window.
  void give_back(state& s, instant clock, const ticket& t, units cost) const noexcept;

  /// The same policy without its limit: for charges.
  fixed_window endless() const noexcept;
  /// An empty window still matters for the time that had passed when it was emptied.
  instant matters_until(const state& s) const noexcept {
    return s.is_open() ? s.start + window_ : s.start;
  }

  static bool is_empty(const state& s) noexcept { return !s.is_open(); }

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::window;
  static constexpr bool tells_state = true;
  bool counts_refused() const noexcept { return count_refused_; }

  // Its other half is fixed_window.lua, with fixed_window_settle.lua.
  static constexpr std::size_t script_constants = 5;  // arguments()
  static constexpr std::size_t reply_width = 3;
  static constexpr std::string_view key_suffix = "f";
  static std::string_view script() noexcept;
  static std::string_view settle_script() noexcept;
  using replay = state;
  script_arguments arguments(units cost) const noexcept;
  void pack_common_constants(std::string& to, units cost) const {
    pack_numbers(to, {window_, limit_, offset_, cost});
  }
  bool has_common_path() const noexcept { return !count_refused_ && limit_ != no_limit; }
  std::array<std::int64_t, reply_width> fields(const state& s, instant) const noexcept {
    return {s.start, s.count, s.written};
  }
  bool coalesces() const noexcept { return true; }
  static bool read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept;
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;

  friend bool operator==(const fixed_window&, const fixed_window&) = default;

 private:
  /// In place of an offset: the first request opens the window.
  static constexpr span first_request = -1;

  instant begin_of_window(instant at) const noexcept {
    if (offset_ == first_request) return at;
    const span since_begin = (at - offset_) % window_;
    return at - since_begin - (since_begin < 0 ? window_ : 0);
  }
  instant latest_known_past(const state& s, instant clock) const noexcept;
  state seen_at(const state& s, instant clock) const noexcept;
  state current(const state& s, instant at) const noexcept;
  bool holds(const state& s, instant at) const noexcept;
  state ahead_of(instant latest_known_past, const state& s) const noexcept;
  bool fits(const state& s, instant at, units cost) const noexcept;
  decision describe(const state& s, instant at, units cost, bool allowed) const noexcept;

  span window_;
  units limit_;
  span offset_;  // or first_request
  bool count_refused_;
};

}  // namespace weir::policies

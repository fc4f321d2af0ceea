#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/kernel_kind.hpp"
#include "policy/reservation.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// Every admitted request by its time, with a running total (modulo 2^52) instead of its cost: the
/// sum of a stretch of the log is one subtraction, so "what has left" and "when has enough left"
/// are binary searches. Requests of one time share an entry.
///
/// With a resolution, a request is entered at the end of its step, or at the newest entry's time if
/// that is later: written with another resolution, or before the clock stepped back. If the clock
/// is behind the newest entry (its step's beginning) by more than a window, the log becomes one
/// entry of now.
///
/// Reservations. A reservation is entered at its turn, and nothing else passes before that turn,
/// because it would count against the reservation. The state then knows the turn of the last
/// reservation, and when it was written: a clock behind that time is read as that time. Entries
/// that are in the window now are kept, though they will have left it by the last turn.
///
/// What is given back leaves the log, if the entry has at most 128 newer ones. If that empties the
/// newest entry, the entry before becomes the last (with a resolution, with its step's end as
/// turn), and the state keeps the time that had passed by then.
///
/// With count_refused, an entry weighs at most the limit, and entries are dropped if the newer ones
/// alone fill the limit: a flood cannot grow the log, and `used` stays below twice the limit.
class sliding_log {
 public:
  struct entry {
    instant time;
    std::int64_t total;  // running total up to and including this entry
    friend bool operator==(const entry&, const entry&) = default;
  };

  class state {
   public:
    bool empty() const noexcept { return first_ == entries_.size(); }

    /// The state as a row of numbers, and back. read() is false if the numbers are no state.
    void write(std::vector<std::int64_t>& out) const;
    bool read(std::span<const std::int64_t> numbers);

   private:
    friend class sliding_log;
    std::vector<entry> entries_;
    std::size_t first_ = 0;  // entries before it have been dropped
    std::int64_t base_ = 0;  // the running total before entries_[first_]
    reservations_ahead ahead_;
    // The last turn never goes back before this, because more than can be counted would have to be
    // kept.
    instant pinned_ = 0;
  };

  /// What the script replies: enough to answer the checks one by one.
  struct summary {
    units sum = 0;  // before the checks
    instant newest = 0;
    units sum_after = 0;  // after them
    // When there is room for the first refused check; 0 if none was refused, or there is room
    // already.
    instant passes_at = 0;
    reservations_ahead ahead;
  };

  /// The policy has been validated.
  explicit sliding_log(const weir::sliding_log& policy) noexcept;

  units ceiling() const noexcept { return std::min(limit_, max_units); }
  units limit() const noexcept { return limit_for_caller(limit_); }

  decision record(state& s, request_time now, units cost) const;
  decision fetch(const state& s, request_time now, units cost) const;
  /// Makes a state far ahead of the clock begin anew by the clock.
  void mend(state& s, instant clock) const {
    if (is_far_ahead(s, clock)) s = moved_to(s, clock);
  }
  bool is_far_ahead(const state& s, instant clock) const noexcept {
    return own_time(s) - clock > window_;
  }
  /// A time that had passed when the state was written, if this log wrote it.
  instant own_time(const state& s) const noexcept {
    if (s.ahead_.written > 0 || s.empty()) return s.ahead_.written;
    return s.entries_.back().time - resolution_;
  }
  units in_use(const state& s, instant) const noexcept {
    return s.empty() ? 0 : distance(s.base_, s.entries_.back().total);
  }
  /// Takes the request out of its entry, and changes the totals of the entries behind it. Does
  /// nothing if those are more than most_newer: the script writes all of them again.
  void give_back(state& s, instant clock, const ticket& t, units cost) const;

  /// The same policy without its limit: for charges.
  sliding_log endless() const noexcept;
  instant matters_until(const state& s) const noexcept {
    return std::max(s.ahead_.turn, s.empty() ? 0 : s.entries_.back().time + window_);
  }

  static bool is_empty(const state& s) noexcept { return s.empty(); }

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::window;
  static constexpr bool tells_state = false;
  bool counts_refused() const noexcept { return count_refused_; }

  // Its other half is sliding_log.lua, with sliding_log_settle.lua.
  static constexpr std::size_t script_constants = 5;  // arguments()
  static constexpr std::size_t reply_width = 6;
  static constexpr std::string_view key_suffix = "l";
  static std::string_view script() noexcept;
  static std::string_view settle_script() noexcept;
  using replay = summary;
  script_arguments arguments(units cost) const noexcept;
  void pack_common_constants(std::string& to, units cost) const {
    pack_numbers(to, {window_, limit_, resolution_, cost});
  }
  bool has_common_path() const noexcept { return !count_refused_ && limit_ != no_limit; }
  // A refused check that counts moves the time at which the next one would pass, so each needs its
  // own look.
  bool coalesces() const noexcept { return !count_refused_; }
  bool read_plain(std::string_view& text, std::span<std::int64_t> fields) const noexcept;
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;
  decision record(replay& r, request_time now, units cost) const noexcept;
  decision fetch(const replay& r, request_time now, units cost) const noexcept;

  friend bool operator==(const sliding_log&, const sliding_log&) = default;

 private:
  struct times {
    instant latest_known_past;  // the clock, or what the state knows to have passed
    instant at;                 // the time of the request
    instant turn;  // the earliest one that the request can get: not before the last reservation's
  };

  static constexpr std::int64_t most_newer = 128;
  static constexpr std::int64_t modulus = std::int64_t{1} << 52;  // of running totals

  static units distance(std::int64_t from, std::int64_t to) noexcept;
  static times times_of(const reservations_ahead& ahead, request_time now) noexcept;
  instant entry_time(instant at) const noexcept;
  state moved_to(const state& s, instant clock) const;
  std::size_t first_alive(const state& s, instant at) const noexcept;
  void append(state& s, instant at, units cost) const;
  void drop_before(state& s, std::size_t first) const;
  void drop_what_left(state& s, const times& t, std::size_t first, units cost) const;
  void step_back(state& s, instant latest_known_past) const;
  static std::int64_t base_of(const state& s, std::size_t first) noexcept;
  instant passes_at(const state& s, std::size_t first, std::int64_t base,
                    units need) const noexcept;
  decision describe(const times& t, units sum, instant newest, instant passes,
                    bool allowed) const noexcept;

  span window_;
  units limit_;
  span resolution_;
  bool count_refused_;
};

}  // namespace weir::policies

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include "policy/kernel_kind.hpp"
#include "policy/reservation.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// The kernel of token_bucket, gcra and leaky_bucket, which are one algorithm: a bucket of `burst`
/// units that drains at count / period, stored as the time at which it will be empty, GCRA's
/// theoretical arrival time (TAT; ITU-T I.371, virtual scheduling).
///
///     token bucket   tokens = burst - (TAT - now) / T        T = period / count, the time of one
///                    unit
///     leaky bucket   level  = (TAT - now) / T,   delay = TAT - now
///
/// T need not be whole microseconds: with T = interval / parts in lowest terms, a TAT is kept as
/// whole microseconds and a number of parts, so nothing is lost to rounding.
///
/// The clock. A TAT more than burst * T ahead of the clock was written before the clock stepped
/// back, or by a larger or slower bucket: nothing passes until it has come near enough. If it is
/// more than two burst * T ahead, the bucket counts as full, from now on.
///
/// Reservations. A reservation may move the TAT further than burst * T ahead. The state then knows
/// the turn of the last reservation, and when it was written: a clock behind that time is read as
/// that time, and the bucket counts as full if the clock is behind it by more than burst * T. A
/// turn is rounded up to a whole microsecond, but the bucket goes on from the exact time.
class meter {
 public:
  struct state {
    instant whole = 0;  // the TAT: whole + part / parts microseconds
    std::int64_t part = 0;
    reservations_ahead ahead = {};
    span returned = 0;  // what was given back of requests that others stood behind
    instant until = 0;  // until when that must be remembered: no receipt has a later TAT
    friend bool operator==(const state&, const state&) = default;
  };

  /// 1 <= count, period, burst; the caller has checked fits().
  meter(std::int64_t count, span period, units burst, bool leaky) noexcept;

  /// Whether burst * period / count stays below 2^51 us (71 years), so that every sum is exact.
  static bool fits(std::int64_t count, span period, units burst) noexcept;

  units ceiling() const noexcept { return burst_; }
  units limit() const noexcept { return burst_; }
  /// Whether the time of one unit is a whole number of microseconds.
  bool has_whole_units() const noexcept { return parts_ == 1; }
  /// Whether an admitted request has to wait until the bucket is empty.
  bool is_leaky() const noexcept { return leaky_; }

  decision record(state& s, request_time now, units cost) const noexcept {
    decision d;
    record_into(d, s, now, cost);
    return d;
  }
  /// record() into an empty decision: mostly, few of its fields change.
  void record_into(decision& d, state& s, request_time now, units cost) const noexcept {
    if (is_plain(s, now, cost)) {
      record_plain(d, s, now.clock, cost);
    } else {
      d = record_from(0, s, now, cost);
    }
  }
  /// As record(), but returns only whether the request passes. For a state that is a TAT alone, and
  /// a rate with whole units. 1 <= cost <= limit.
  bool record_plain(instant& tat, instant now, units cost) const noexcept;
  /// record() for a request that goes at `start`, because other tiers delay it until then: later
  /// requests wait for its end.
  decision record_from(instant start, state& s, request_time now, units cost) const noexcept;
  decision fetch(const state& s, request_time now, units cost) const noexcept;
  /// Makes a state far ahead of the clock begin anew by the clock.
  void mend(state& s, instant clock) const noexcept {
    if (is_far_ahead(s, clock)) s = seen_at(s, clock);
  }

  bool is_far_ahead(const state& s, instant clock) const noexcept {
    return own_time(s) - clock > tolerance_.whole;
  }
  /// A time that had passed when the state was written, if this bucket wrote it.
  instant own_time(const state& s) const noexcept {
    return s.ahead.written > 0 ? s.ahead.written : difference(s, tolerance_);
  }
  units in_use(const state& s, instant clock) const noexcept {
    const double ahead = static_cast<double>(s.whole - clock) * static_cast<double>(parts_);
    return static_cast<units>(std::ceil(ahead / static_cast<double>(interval_)));
  }

  /// Takes back a request. If nothing was counted after it, it is undone. Otherwise a leaky bucket
  /// gives nothing back, because a later request waits for this one to end; the other buckets give
  /// back as much as no later request needs:
  ///
  /// Without the request, the TAT would be at most the latest turn of later requests, plus their
  /// cost, which is at most TAT - end (docs/internals/kernels.md). So TAT - back is not too early
  /// if
  ///
  ///     back <= end - max(now, last turn)
  ///     end = max(TAT left behind - (returned since), time of the request + cost * T)
  void give_back(state& s, instant clock, const ticket& t, units cost) const noexcept;
  /// True if a request can have left `b` behind.
  bool could_leave(const receipt::bucket& b) const noexcept {
    return is_instant(b.whole) && b.part >= 0 && b.part < parts_ && is_count(b.returned);
  }
  /// Counts, if necessary beyond the burst: a debt of at most 2^51 us, which delays others as a
  /// reservation does.
  void charge(state& s, instant clock, units cost) const noexcept;
  /// Counts so much that at most `remaining` units are left.
  void lower(state& s, instant clock, units remaining) const noexcept;

  instant matters_until(const state& s) const noexcept { return std::max(rounded_up(s), s.until); }

  // See kernel_kind.hpp, and kernel.hpp.
  static constexpr auto kind = kernel_kind::bucket;
  static constexpr bool tells_state = true;
  bool counts_refused() const noexcept { return false; }

  // Its other half is meter.lua, with meter_settle.lua.
  static constexpr std::size_t script_constants = 5;  // arguments()
  static constexpr std::size_t reply_width = 5;
  static constexpr std::string_view key_suffix = "m";
  static std::string_view script() noexcept;
  static std::string_view settle_script() noexcept;
  using replay = state;
  script_arguments arguments(units cost) const noexcept;
  void pack_common_constants(std::string& to, units cost) const;
  bool has_common_path() const noexcept { return true; }
  bool coalesces() const noexcept { return true; }
  bool read_plain(std::string_view& text, std::span<std::int64_t> fields) const noexcept;
  static bool restore(std::span<const std::int64_t> fields, replay& out) noexcept;
  /// What the script would reply.
  std::array<std::int64_t, reply_width> fields(const state& s, instant clock) const noexcept;

  friend bool operator==(const meter&, const meter&) = default;

 private:
  struct verdict {
    instant latest_known_past;  // the clock, or what the state knows to have passed
    instant at;                 // the time of the request
    state base;                 // the TAT, not before the request
    state next;                 // the TAT if admitted
    instant turn;               // when a spaced request goes
    bool allowed;
  };

  /// fits() is true below it.
  static constexpr span longest_debt = span{1} << 51;

  static bool later(const state& a, const state& b) noexcept;
  static instant rounded_up(const state& s) noexcept { return s.whole + (s.part > 0 ? 1 : 0); }
  /// The earliest exact time that rounds up to that turn.
  state earliest(instant turn) const noexcept {
    return parts_ > 1 ? state{turn - 1, 1} : state{turn};
  }
  /// The first whole microsecond that is not before a - b.
  static instant difference(const state& a, const state& b) noexcept;

  /// True for most checks.
  bool is_plain(const state& s, request_time now, units cost) const noexcept {
    const bool is_tat_alone = (s.part | s.ahead.turn | s.returned | s.until) == 0;
    return parts_ == 1 && is_tat_alone && now.when == now.clock && cost <= burst_ &&
           s.whole - now.clock <= 2 * tolerance_.whole;
  }
  void record_plain(decision& d, state& s, instant now, units cost) const noexcept;
  state time_of(units cost) const noexcept;
  state plus(const state& a, const state& b) const noexcept;
  state minus(const state& a, const state& b) const noexcept;
  state remembered(state s, instant clock) const noexcept;
  state seen_at(const state& s, instant clock) const noexcept;
  state end_alone(const ticket& t, const state& step) const noexcept;
  void undo(state& s, const ticket& t, const state& step, instant has_passed) const noexcept;
  void release(state& s, const ticket& t, const state& step, instant has_passed) const noexcept;
  verdict judge(const state& s, request_time now, units cost) const noexcept;
  void admit(state& s, const verdict& v, instant turn) const noexcept;
  decision describe(const verdict& v, const state& after) const noexcept;

  std::int64_t parts_;  // T = interval_ / parts_
  span interval_;
  units burst_;
  state tolerance_;  // burst * T
  bool leaky_;       // leaky_bucket: tell the delay
};

inline bool meter::record_plain(instant& tat, instant now, units cost) const noexcept {
  const span burst = tolerance_.whole;
  const instant next = (tat > now ? tat : now) + cost * interval_;
  if (next <= now + burst) {
    tat = next;
    return true;
  }
  if (tat - now > 2 * burst) tat = now + burst;  // far ahead: the bucket is full from now on
  return false;
}

/// record_from() in few steps, for a state that is a TAT alone and not far ahead.
inline void meter::record_plain(decision& d, state& s, instant now, units cost) const noexcept {
  const span burst = tolerance_.whole;
  const instant base = std::max(s.whole, now);
  const instant next = base + cost * interval_;
  const bool allowed = next <= now + burst;
  const instant tat = allowed ? next : base;
  d.allowed = allowed;
  d.limit = burst_;
  d.remaining = std::max<instant>(0, now + burst - tat) / interval_;
  d.used = burst_ - d.remaining;
  d.reset_after = std::chrono::microseconds(tat - now);
  d.decided_at = to_time_point(now);
  if (allowed) {
    s.whole = next;
    if (leaky_) d.delay = std::chrono::microseconds(base - now);
    d.receipt.buckets[0].whole = next;
  } else {
    d.retry_after = std::chrono::microseconds(next - burst - now);
  }
}

}  // namespace weir::policies

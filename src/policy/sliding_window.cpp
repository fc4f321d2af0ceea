#include "policy/sliding_window.hpp"

#include <bit>

#include "policy/lua_sources.hpp"
#include "policy/stored_doubles.hpp"

namespace weir::policies {
namespace {

/// The script multiplies count * elapsed in two digits to this base, so that no product reaches
/// 2^53.
std::int64_t digit_base(span window) noexcept {
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>((std::int64_t{1} << 52) / window)));
}

}  // namespace

units sliding_window::most(span window) noexcept {
  const wide product = static_cast<wide>(max_exact / window) * digit_base(window);
  return product < max_units ? static_cast<units>(product) : max_units;
}

sliding_window::sliding_window(const weir::sliding_window& policy) noexcept
    : window_(policy.window.count()),
      limit_(policy.limit == unlimited ? no_limit : policy.limit),
      most_(most(window_)),
      count_refused_(policy.count_refused) {}

/// A time that has certainly passed.
instant sliding_window::latest_known_past(const state& s) const noexcept {
  return s.written > 0 ? s.written : aligned(s.start);
}

sliding_window::times sliding_window::times_of(const state& s, request_time now) const noexcept {
  times t;
  t.latest_known_past = std::max(now.clock, latest_known_past(s));
  t.at = std::max(now.when, t.latest_known_past);
  t.turn = std::max(t.at, last_turn(s));
  return t;
}

sliding_window::state sliding_window::seen_at(const state& s, instant clock) const noexcept {
  if (!is_far_ahead(s, clock)) return s;
  const span early = latest_known_past(s) - clock;
  const units all = std::min(
      add_up_to(std::min(s.current, most_), std::min(s.previous, most_), most_), limit_);
  const instant turn = last_turn(s) - early;
  if (turn > clock) return {turn, all, 0, clock, all};
  return {aligned(clock), all, 0};
}

sliding_window::state sliding_window::current(const state& s, instant at) const noexcept {
  const instant start = aligned(at);
  const instant last = aligned(s.start);
  // A longer window may bear smaller counts only.
  const units before = std::min(s.current, most_);
  if (start == last) return {start, before, std::min(s.previous, most_)};
  return {start, 0, start == last + window_ ? before : 0};
}

units sliding_window::used(const state& s, instant at) const noexcept {
  const span left = window_ - (at - s.start);
  return ceil_div(static_cast<wide>(s.previous) * left, window_) + s.current;
}

bool sliding_window::fits(const state& s, instant at, units cost) const noexcept {
  // Two saturated counters and a cost exceed no_limit.
  return limit_ == no_limit || used(s, at) + cost <= limit_;
}

/// When a refused request will pass, if nothing else comes.
instant sliding_window::passes_at(const state& s, units cost) const noexcept {
  // In this window: the previous window's weight has to fall to `room`.
  const units room = limit_ - s.current - cost;
  if (room >= 0) {
    const span left = floor_div(static_cast<wide>(room) * window_, s.previous);
    return s.start + window_ - left;
  }
  // In the next window, where the current counter weighs as the previous.
  const units next_room = limit_ - cost;
  if (s.current <= next_room) return s.start + window_;
  return s.start + 2 * window_ - floor_div(static_cast<wide>(next_room) * window_, s.current);
}

decision sliding_window::describe(const state& s, const times& t, units cost,
                                  bool allowed) const noexcept {
  const bool early = t.at < t.turn;
  decision d;
  d.allowed = allowed;
  d.limit = limit_for_caller(limit_);
  // Before the last turn nothing passes.
  d.used = early ? d.limit : used(s, t.at);
  d.remaining = early ? 0 : remaining_for_caller(limit_, d.used);
  if (!allowed) {
    const instant passes = early && fits(s, t.turn, cost) ? t.turn : passes_at(s, cost);
    d.retry_after = std::chrono::microseconds(passes - t.at);
  }
  const instant end = s.current > 0    ? s.start + 2 * window_
                      : s.previous > 0 ? s.start + window_
                                       : t.turn;
  d.reset_after = std::chrono::microseconds(end - t.at);
  d.decided_at = to_time_point(t.at);
  return d;
}

decision sliding_window::record(state& s, request_time now, units cost) const noexcept {
  mend(s, now.clock);
  const times t = times_of(s, now);
  state next = current(s, t.turn);
  const bool allowed = t.at == t.turn && fits(next, t.turn, cost);
  if (allowed || count_refused_) {
    const units at_last = last_turn(s) == t.turn ? std::min(s.at_last, next.current) : 0;
    next.current = add_up_to(next.current, cost, most_);
    s = next;
    if (t.turn > t.latest_known_past) {
      s.start = t.turn;
      s.written = t.latest_known_past;
      s.at_last = add_up_to(at_last, cost, most_);
    }
  }
  return describe(next, t, cost, allowed);
}

decision sliding_window::fetch(const state& s, request_time now, units cost) const noexcept {
  const state seen = seen_at(s, now.clock);
  const times t = times_of(seen, now);
  const state next = current(seen, t.turn);
  return describe(next, t, cost, t.at == t.turn && fits(next, t.turn, cost));
}

std::string_view sliding_window::script() noexcept { return lua::sliding_window_lua; }

script_arguments sliding_window::arguments(units cost) const noexcept {
  return {window_, limit_, digit_base(window_), most_, count_refused_ ? 1 : 0, cost};
}

bool sliding_window::read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept {
  // The last is the line of the grid until which the key stays.
  return take_doubles(text, 4, 3, fields);
}

bool sliding_window::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1], fields[2], fields[3], fields[4]};
  return is_instant(fields[0]) && is_count(fields[1]) && is_count(fields[2]) &&
         is_instant(fields[3]) && is_count(fields[4]);
}

}  // namespace weir::policies

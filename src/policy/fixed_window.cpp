#include "policy/fixed_window.hpp"

#include "policy/lua_sources.hpp"
#include "policy/stored_doubles.hpp"

namespace weir::policies {

fixed_window::fixed_window(const weir::fixed_window& policy) noexcept
    : window_(policy.window.count()),
      limit_(policy.limit == unlimited ? no_limit : policy.limit),
      offset_(policy.anchor == anchor::epoch ? policy.offset.count() : first_request),
      count_refused_(policy.count_refused) {}

/// The clock, or a later time that the state knows to have passed.
instant fixed_window::latest_known_past(const state& s, instant clock) const noexcept {
  return std::max(clock, s.written > 0 ? s.written : s.start);
}

fixed_window::state fixed_window::seen_at(const state& s, instant clock) const noexcept {
  if (!is_far_ahead(s, clock)) return s;
  const span ahead = latest_known_past(s, clock) - clock;
  const instant start = begin_of_window(s.start - ahead);
  return {start, s.count, start > clock ? clock : 0};
}

fixed_window::state fixed_window::current(const state& s, instant at) const noexcept {
  if (holds(s, at)) return s;
  return {begin_of_window(at), 0};
}

bool fixed_window::holds(const state& s, instant at) const noexcept {
  return s.is_open() && at < s.start + window_;
}

/// If the window no longer lies ahead, drops what matters only while it does.
fixed_window::state fixed_window::ahead_of(instant latest_known_past,
                                           const state& s) const noexcept {
  if (s.start <= latest_known_past) return {s.start, s.count};
  return {s.start, s.count, latest_known_past, s.start_before, s.count_before};
}

bool fixed_window::fits(const state& s, instant at, units cost) const noexcept {
  return at >= s.start && s.count + cost <= limit_;
}

decision fixed_window::describe(const state& s, instant at, units cost,
                                bool allowed) const noexcept {
  decision d;
  d.allowed = allowed;
  d.limit = limit_for_caller(limit_);
  // Before a window that was opened ahead, the present one is full.
  const bool early = at < s.start;
  d.used = early ? d.limit : s.count;
  d.remaining = early ? 0 : remaining_for_caller(limit_, s.count);
  const std::chrono::microseconds end(s.start + window_ - at);
  if (!allowed) {
    d.retry_after = early && s.count + cost <= limit_ ? std::chrono::microseconds(s.start - at)
                                                      : end;
  }
  if (s.is_open()) d.reset_after = end;
  d.decided_at = to_time_point(at);
  return d;
}

decision fixed_window::record(state& s, request_time now, units cost) const noexcept {
  mend(s, now.clock);
  const instant has_passed = latest_known_past(s, now.clock);
  const instant at = std::max(now.when, has_passed);
  state next = current(s, at);
  const bool allowed = fits(next, at, cost);
  if (allowed || count_refused_) {
    next.count = add_up_to(next.count, cost, max_units);
    next = ahead_of(has_passed, next);
    if (next.written > 0 && !holds(s, at)) {
      const bool lasts = holds(s, has_passed);
      next.start_before = lasts ? s.start : has_passed;
      next.count_before = lasts ? s.count : 0;
    }
    s = next;
  }
  return describe(next, at, cost, allowed);
}

decision fixed_window::fetch(const state& s, request_time now, units cost) const noexcept {
  const state seen = seen_at(s, now.clock);
  const instant at = std::max(now.when, latest_known_past(seen, now.clock));
  const state next = current(seen, at);
  return describe(next, at, cost, fits(next, at, cost));
}

std::string_view fixed_window::script() noexcept { return lua::fixed_window_lua; }

script_arguments fixed_window::arguments(units cost) const noexcept {
  return {window_, limit_, offset_, count_refused_ ? 1 : 0, cost};
}

bool fixed_window::read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept {
  // The last is the line of the grid until which the key stays.
  return take_doubles(text, 3, 2, fields);
}

bool fixed_window::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1], fields[2]};
  return is_instant(fields[0]) && is_count(fields[1]) && is_instant(fields[2]);
}

}  // namespace weir::policies

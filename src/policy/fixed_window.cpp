#include "policy/fixed_window.hpp"

#include "policy/lua_sources.hpp"

namespace weir::policies {

fixed_window::fixed_window(const weir::fixed_window& policy) noexcept
    : window_(policy.window.count()),
      limit_(policy.limit == unlimited ? no_limit : policy.limit),
      offset_(policy.anchor == anchor::epoch ? policy.offset.count() : -1),
      count_refused_(policy.count_refused) {}

instant fixed_window::begin_of_window(instant at) const noexcept {
  return offset_ < 0 ? at : offset_ + floor_div(at - offset_, window_) * window_;
}

fixed_window::state fixed_window::settled(const state& s, instant now) const noexcept {
  if (s.count == 0 || s.start - now <= window_) return s;
  return {begin_of_window(now), s.count};
}

fixed_window::state fixed_window::current(const state& s, instant at) const noexcept {
  if (s.count > 0 && at < s.start + window_) return s;
  return {begin_of_window(at), 0};
}

decision fixed_window::describe(const state& s, instant at, bool allowed) const noexcept {
  decision d;
  d.allowed = allowed;
  d.limit = limit_for_caller(limit_);
  d.used = s.count;
  d.remaining = remaining_for_caller(limit_, s.count);
  const std::chrono::microseconds end(s.start + window_ - at);
  if (!allowed) d.retry_after = end;
  if (s.count > 0) d.reset_after = end;
  d.at = to_time_point(at);
  return d;
}

decision fixed_window::record(state& s, instant now, units cost) const noexcept {
  s = settled(s, now);
  const instant at = s.count > 0 ? std::max(now, s.start) : now;
  state next = current(s, at);
  const bool allowed = next.count + cost <= limit_;
  if (allowed || count_refused_) {
    next.count = add_up_to(next.count, cost, max_units);
    s = next;
  }
  return describe(next, at, allowed);
}

decision fixed_window::fetch(const state& s, instant now, units cost) const noexcept {
  const state seen = settled(s, now);
  const instant at = seen.count > 0 ? std::max(now, seen.start) : now;
  const state next = current(seen, at);
  return describe(next, at, next.count + cost <= limit_);
}

std::string_view fixed_window::script() noexcept { return lua::fixed_window_lua; }

script_arguments fixed_window::arguments(units cost) const noexcept {
  return {window_, limit_, offset_, count_refused_ ? 1 : 0, cost};
}

bool fixed_window::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1]};
  return is_instant(fields[0]) && is_count(fields[1]);
}

}  // namespace weir::policies

#include "policy/lease_set.hpp"

#include <algorithm>
#include <string>

#include "policy/lua_sources.hpp"

namespace weir::policies {
namespace {

template <class Leases>
auto find(Leases& leases, std::int64_t base, std::int64_t number) {
  return std::ranges::find_if(
      leases, [&](const lease_set::lease& l) { return l.number == number && l.base == base; });
}

std::string name_of(const lease_set::lease& l) {
  return std::to_string(l.base) + ':' + std::to_string(l.number) + ':' + std::to_string(l.length);
}

/// The order of leases in a sorted set of Redis; leases of one end and length count as equal.
bool lapses_before(const lease_set::lease& a, const lease_set::lease& b) {
  if (a.until != b.until) return a.until < b.until;
  return a.length != b.length && name_of(a) < name_of(b);
}

}  // namespace

void lease_set::tidy(state& s, instant now) const {
  std::erase_if(s.leases, [&](const lease& l) { return l.until <= now; });
  const auto last = std::ranges::max_element(s.leases, lapses_before);
  if (last == s.leases.end() || last->until <= now + std::max(length_, last->length)) return;
  for (lease& l : s.leases) {
    // Looks only beyond this gate's length, as the script does, which finds these fast.
    if (l.until > now + length_) l.until = std::min(l.until, now + l.length);
  }
}

lease_set::summary lease_set::summary_of(const state& s, instant now, std::int64_t number) const {
  summary r;
  std::vector<instant> ends;
  for (const lease& l : s.leases) {
    if (l.until > now) ends.push_back(l.until);
  }
  r.in = static_cast<units>(ends.size());
  if (r.in >= limit_) {
    // Leases beyond the limit have to go before there is room.
    const auto first = ends.begin() + (r.in - limit_);
    std::nth_element(ends.begin(), first, ends.end());
    r.room_at = *first;
  }
  if (!ends.empty()) r.last = *std::max_element(ends.begin(), ends.end());
  const auto own = find(s.leases, base_, number);
  if (own != s.leases.end() && own->until > now) r.own = own->until;
  return r;
}

bool lease_set::passes(const summary& r) const noexcept {
  return act_ == act::enter ? r.in < limit_ && r.own == 0 : r.own > 0;
}

decision lease_set::describe(const summary& r, instant now, bool allowed) const noexcept {
  // A fetch does not tidy, so it may see ends that another clock has written.
  const auto left = [&](instant until) {
    return std::chrono::microseconds(std::clamp<span>(until - now, 0, longest));
  };
  decision d;
  d.allowed = allowed;
  d.limit = limit_;
  d.used = r.in;
  d.remaining = std::max<units>(0, limit_ - r.in);
  if (!allowed) d.retry_after = left(r.room_at);
  d.reset_after = left(r.last);
  d.decided_at = to_time_point(now);
  return d;
}

decision lease_set::record(replay& r, request_time m, std::int64_t) const noexcept {
  const instant now = m.clock;
  const bool allowed = passes(r);
  if (allowed && act_ == act::leave) {
    --r.in;
    r.own = 0;
    if (r.in == 0) r.last = 0;
  } else if (allowed) {
    if (act_ == act::enter) ++r.in;
    r.own = now + length_;
    r.last = std::max(r.last, r.own);
  }
  return describe(r, now, allowed);
}

decision lease_set::fetch(const replay& r, request_time m, std::int64_t) const noexcept {
  return describe(r, m.clock, passes(r));
}

decision lease_set::record(state& s, request_time m, std::int64_t number) const {
  const instant now = m.clock;
  tidy(s, now);
  summary r = summary_of(s, now, number);
  const decision d = record(r, now, number);
  if (!d.allowed) return d;
  const auto own = find(s.leases, base_, number);
  switch (act_) {
    case act::enter:
      s.leases.push_back({base_, number, length_, r.own});
      break;
    case act::renew:
      own->until = r.own;
      break;
    case act::leave:
      *own = s.leases.back();
      s.leases.pop_back();
      break;
  }
  return d;
}

decision lease_set::fetch(const state& s, request_time m, std::int64_t number) const {
  return fetch(summary_of(s, m.clock, number), m, number);
}

instant lease_set::matters_until(const state& s) const noexcept {
  instant last = 0;
  for (const lease& l : s.leases) last = std::max(last, l.until);
  return last;
}

std::string_view lease_set::script() noexcept { return lua::lease_set_lua; }

void lease_set::pack_constants(std::string& to, std::int64_t number) const {
  pack_number(to, limit_);
  pack_number(to, length_);
  pack_number(to, static_cast<std::int64_t>(act_));
  pack_text(to, base_);
  pack_number(to, number);
}

bool lease_set::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1], fields[2], fields[3]};
  return is_count(out.in) && is_instant(out.room_at) && is_instant(out.last) && is_instant(out.own);
}

}  // namespace weir::policies

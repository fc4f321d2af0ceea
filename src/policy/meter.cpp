#include "policy/meter.hpp"

#include <numeric>
#include <string_view>

#include "policy/lua_sources.hpp"

namespace weir::policies {
namespace {

bool later(const meter::state& a, const meter::state& b) noexcept {
  return a.whole != b.whole ? a.whole > b.whole : a.part > b.part;
}

instant rounded_up(const meter::state& s) noexcept { return s.whole + (s.part > 0 ? 1 : 0); }

/// The first whole microsecond that is not before a - b.
instant difference(const meter::state& a, const meter::state& b) noexcept {
  return a.whole - b.whole + (a.part > b.part ? 1 : 0);
}

}  // namespace

meter::meter(std::int64_t count, span period, units burst, bool spaced) noexcept
    : burst_(burst), spaced_(spaced) {
  const std::int64_t divisor = std::gcd(count, period);
  parts_ = count / divisor;
  interval_ = period / divisor;
  tolerance_ = time_of(burst);
}

bool meter::fits(std::int64_t count, span period, units burst) noexcept {
  return static_cast<wide>(burst) * period / count < (wide{1} << 51);
}

meter::state meter::time_of(units cost) const noexcept {
  const wide product = static_cast<wide>(cost) * interval_;
  return {static_cast<instant>(product / parts_), static_cast<std::int64_t>(product % parts_)};
}

meter::state meter::plus(state a, state b) const noexcept {
  state sum{a.whole + b.whole, a.part + b.part};
  if (sum.part >= parts_) {
    sum.part -= parts_;
    ++sum.whole;
  }
  return sum;
}

meter::state meter::settled(const state& s, instant now) const noexcept {
  const span ahead = difference(s, tolerance_) - now;
  return ahead > tolerance_.whole ? state{s.whole - ahead, s.part} : s;
}

meter::verdict meter::judge(const state& s, instant now, units cost) const noexcept {
  verdict v;
  v.at = std::max(now, difference(s, tolerance_));
  const state at{v.at, 0};
  v.base = later(s, at) ? s : at;
  v.next = plus(v.base, time_of(cost));
  v.allowed = !later(v.next, plus(at, tolerance_));
  return v;
}

decision meter::describe(const verdict& v, const state& after) const noexcept {
  const state at{v.at, 0};
  const state& tat = later(after, at) ? after : at;

  // Room left, in units: (at + burst * T - TAT) / T, in parts of a microsecond to stay exact.
  const state full = plus(at, tolerance_);
  const wide room = static_cast<wide>(full.whole - tat.whole) * parts_ + (full.part - tat.part);

  decision d;
  d.allowed = v.allowed;
  d.limit = burst_;
  d.remaining = room > 0 ? floor_div(room, interval_) : 0;
  d.used = burst_ - d.remaining;
  d.reset_after = std::chrono::microseconds(rounded_up(tat) - v.at);
  if (!v.allowed) {
    // The first whole microsecond t with next <= t + tolerance.
    d.retry_after = std::chrono::microseconds(difference(v.next, tolerance_) - v.at);
  } else if (spaced_) {
    d.delay = std::chrono::microseconds(rounded_up(v.base) - v.at);
  }
  d.at = to_time_point(v.at);
  return d;
}

decision meter::record(state& s, instant now, units cost) const noexcept {
  s = settled(s, now);
  const verdict v = judge(s, now, cost);
  if (v.allowed) s = v.next;
  return describe(v, s);
}

decision meter::fetch(const state& s, instant now, units cost) const noexcept {
  const state seen = settled(s, now);
  return describe(judge(seen, now, cost), seen);
}

std::string_view meter::script() noexcept { return lua::meter_lua; }

script_arguments meter::arguments(units cost) const noexcept {
  const state step = time_of(cost);
  return {tolerance_.whole, tolerance_.part, parts_, step.whole, step.part};
}

bool meter::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1]};
  return is_instant(fields[0]) && is_count(fields[1]);
}

}  // namespace weir::policies

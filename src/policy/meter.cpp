#include "policy/meter.hpp"

#include <numeric>
#include <string_view>

#include "policy/lua_sources.hpp"

namespace weir::policies {
namespace {

bool later(const meter::state& a, const meter::state& b) noexcept {
  return a.whole != b.whole ? a.whole > b.whole : a.part > b.part;
}

/// What fits() lies below.
constexpr span longest_debt = span{1} << 51;

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
  return static_cast<wide>(burst) * period / count < longest_debt;
}

meter::state meter::time_of(units cost) const noexcept {
  const wide product = static_cast<wide>(cost) * interval_;
  if (product / parts_ >= longest_debt) return {longest_debt};
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

meter::state meter::minus(const state& a, const state& b) const noexcept {
  const bool borrows = a.part < b.part;
  return {a.whole - b.whole - (borrows ? 1 : 0), a.part - b.part + (borrows ? parts_ : 0)};
}

/// A time that has certainly passed.
instant meter::passed(const state& s) const noexcept {
  return s.ahead.written > 0 ? s.ahead.written : difference(s, tolerance_);
}

meter::state meter::settled(const state& s, instant clock) const noexcept {
  const span early = passed(s) - clock;
  if (early <= tolerance_.whole) return s;
  const booking ahead{clock, s.ahead.turn - early};
  return {s.whole - early, s.part, ahead.after(clock), s.returned};
}

meter::verdict meter::judge(const state& s, moment now, units cost) const noexcept {
  verdict v;
  v.passed = std::max(now.clock, passed(s));
  v.at = std::max(now.when, v.passed);
  const state at{v.at};
  v.base = later(s, at) ? s : at;
  v.next = plus(v.base, time_of(cost));
  v.allowed = !later(v.next, plus(at, tolerance_));
  return v;
}

decision meter::describe(const verdict& v, const state& after) const noexcept {
  const state at{v.at};
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

decision meter::record(state& s, moment now, units cost) const noexcept {
  s = settled(s, now.clock);
  const verdict v = judge(s, now, cost);
  if (v.allowed) admit(s, v, v.at);
  return describe(v, s);
}

void meter::admit(state& s, const verdict& v, instant turn) const noexcept {
  const booking ahead{v.passed, std::max(s.ahead.turn, turn)};
  // Once the bucket would be empty even if nothing had been given back, no older ticket can hold anything.
  const bool starts_anew = rounded_up(s) + s.returned < v.at;
  s = {v.next.whole, v.next.part, ahead.after(v.passed), starts_anew ? 0 : s.returned};
}

decision meter::fetch(const state& s, moment now, units cost) const noexcept {
  const state seen = settled(s, now.clock);
  return describe(judge(seen, now, cost), seen);
}

instant meter::after(const decision& d) const noexcept {
  return (d.at + d.reset_after).time_since_epoch().count() - (parts_ > 1 ? 1 : 0);
}

span meter::unit() const noexcept {
  if (interval_ < parts_) return -1;  // less than a microsecond: what came later cannot be told
  return std::max<span>(parts_ > 1 ? 1 : 0, (interval_ - 1) / parts_);
}

void meter::give_back(state& s, instant clock, const ticket& t, units cost) const noexcept {
  const instant has_passed = std::max(clock, passed(s));
  if (has_passed - clock > tolerance_.whole)
    return;  // the clock was set back: these are not its turns
  const state step = time_of(cost);
  const instant after = std::max(t.after, (spaced_ ? t.turn : t.counted) + step.whole);
  const span grown = rounded_up(s) + s.returned - after;
  if (s.whole + s.returned < after) return;  // forgotten since
  // Of a faster rate, several may have come behind it in the time of one unit, and may have turns.
  constexpr span roundings = 3;
  const span of_others = grown > roundings ? grown : 0;
  const instant latest = roundings + std::max(spaced_ ? t.turn : t.counted,
                                              after - (spaced_ ? t.unit : tolerance_.whole));
  const bool is_last = t.alone && t.after > 0 && grown <= t.unit && s.ahead.turn <= latest &&
                       !(spaced_ && of_others > 0);
  // A later one waits for this one to end; and of several in a microsecond, nobody can tell which is the last.
  if (spaced_ && !(is_last && step.whole > 0)) return;
  if (is_last) {
    const instant least = std::max(has_passed, t.held);
    if (rounded_up(s) <= least) return;
    s.ahead.turn = std::min(s.ahead.turn, std::max(before(s, step), t.held));
    // As if it had never come: but a turn begins at a whole microsecond. What was there before is what let it in then.
    state rest = minus(s, step);
    state most = spaced_ ? state{t.turn} : minus(plus({t.counted}, tolerance_), step);
    most.whole += of_others;
    if (t.whole && later(rest, most)) rest = most;
    if (later({least}, rest)) rest = {least};
    s.whole = rest.whole;
    s.part = rest.part;
  } else {
    const span room = after - s.returned - std::max(has_passed, s.ahead.turn);
    if (room <= 0) return;
    // Whole microseconds, so that the sum stays what it was: by that others know whether they are the last.
    const span back = std::min(step.whole, room);
    s.whole -= back;
    s.returned += back;
  }
  s.ahead = s.ahead.after(has_passed);
  if (matters_until(s) <= clock) s = {};
}

/// The latest turn there may have been before the last one, of which `step` is the cost.
instant meter::before(const state& s, const state& step) const noexcept {
  const instant tat = rounded_up(s) + s.returned - step.whole;
  return tat - (spaced_ ? unit() : tolerance_.whole);
}

void meter::charge(state& s, instant clock, units cost) const noexcept {
  s = settled(s, clock);
  verdict v = judge(s, clock, cost);
  if (v.next.whole >= v.passed + longest_debt) v.next = {v.passed + longest_debt};
  admit(s, v, difference(v.next, tolerance_));
}

void meter::lower(state& s, instant clock, units remaining) const noexcept {
  const state seen = settled(s, clock);
  verdict v = judge(seen, clock, 1);
  const state left = time_of(remaining);
  v.next = minus(plus({v.passed}, tolerance_), left);
  if (!later(v.next, v.base)) return;
  s = seen;
  admit(s, v, 0);
}

std::string_view meter::settle_script() noexcept { return lua::meter_settle_lua; }

std::string_view meter::script() noexcept { return lua::meter_lua; }

script_arguments meter::arguments(units cost) const noexcept {
  const state step = time_of(cost);
  return {tolerance_.whole, tolerance_.part, parts_, step.whole, step.part};
}

bool meter::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1], {fields[2], fields[3]}};
  return is_instant(fields[0]) && is_count(fields[1]) && is_instant(fields[2]) &&
         is_instant(fields[3]);
}

}  // namespace weir::policies

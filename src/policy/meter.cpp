#include "policy/meter.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "policy/lua_sources.hpp"

namespace weir::policies {
namespace {

bool later(const meter::state& a, const meter::state& b) noexcept {
  return a.whole != b.whole ? a.whole > b.whole : a.part > b.part;
}

/// fits() is true below it.
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

meter::state meter::plus(const state& a, const state& b) const noexcept {
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

bool meter::is_far_ahead(const state& s, instant clock) const noexcept {
  return passed(s) - clock > tolerance_.whole;
}

/// Forgets what was given back, once no receipt can meet it.
meter::state meter::remembered(state s, instant clock) noexcept {
  if (s.until <= clock) s.returned = s.until = 0;
  return s;
}

meter::state meter::settled(const state& s, instant clock) const noexcept {
  state seen = remembered(s, clock);
  if (!is_far_ahead(s, clock)) return seen;
  const span early = passed(s) - clock;
  seen.whole -= early;
  seen.ahead = booking{clock, s.ahead.turn - early}.after(clock);
  // As if given back: a receipt from before knows a TAT that lies so much further ahead.
  seen.returned = add_up_to(seen.returned, early, max_exact);
  seen.until = std::max(clock + 2 * tolerance_.whole, rounded_up(seen));
  return seen;
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
  d.decided_at = to_time_point(v.at);
  return d;
}

decision meter::record(state& s, moment now, units cost) const noexcept {
  return record_from(0, s, now, cost);
}

decision meter::record_from(instant start, state& s, moment now, units cost) const noexcept {
  state seen = settled(s, now.clock);
  verdict v = judge(seen, now, cost);
  const bool waits = rounded_up(v.base) < start;
  if (waits) {
    v.base = {start};
    v.next = plus(v.base, time_of(cost));
  }
  if (v.allowed) admit(seen, v, waits ? start : v.at);
  if (v.allowed || is_far_ahead(s, now.clock)) s = seen;
  decision d = describe(v, seen);
  if (v.allowed) d.receipt.buckets[0] = {seen.whole, seen.part, seen.returned};
  return d;
}

void meter::admit(state& s, const verdict& v, instant turn) const noexcept {
  s.whole = v.next.whole;
  s.part = v.next.part;
  s.ahead = booking{v.passed, std::max(s.ahead.turn, turn)}.after(v.passed);
  if (s.returned > 0) s.until = std::max(s.until, rounded_up(s));
}

decision meter::fetch(const state& s, moment now, units cost) const noexcept {
  const state seen = settled(s, now.clock);
  return describe(judge(seen, now, cost), seen);
}

void meter::give_back(state& s, instant clock, const ticket& t, units cost) const noexcept {
  // If the clock was set back, the receipt's times are not this clock's.
  if (t.left.whole == 0 || is_far_ahead(s, clock)) return;
  const instant has_passed = std::max(clock, passed(s));
  const state found = remembered(s, clock);
  state seen = found;
  const span since = seen.returned - t.left.returned;
  // A sum that is full knows no more.
  if (rounded_up(seen) <= has_passed || since < 0 || seen.returned == max_exact) return;
  const bool is_last = seen.whole + since == t.left.whole && seen.part == t.left.part;
  if (is_last && !(spaced_ && since > 0)) {
    undo(seen, t, time_of(cost), has_passed);
  } else if (!spaced_) {
    release(seen, t, time_of(cost), has_passed);
  }
  if (seen != found) s = matters_until(seen) + grace <= clock ? state{} : seen;
}

/// Undoes the last request: puts back the state before it, less what others got back since. If that
/// state is not known, subtracts the cost.
void meter::undo(state& s, const ticket& t, const state& step, instant has_passed) const noexcept {
  state rest = minus(s, step);
  instant last_turn = s.ahead.turn;
  state before;
  if (t.found.size() == reply_width && restore(t.found, before)) {
    before.whole -= s.returned - t.left.returned;
    // If the reservation found a state too far ahead, and moved it, that one is later.
    if (!later(before, s)) {
      rest = before;
      last_turn = before.ahead.turn;
    }
  }
  const state least{std::max(has_passed, last_turn)};
  if (later(least, rest)) rest = least;
  if (!later(s, rest)) return;  // after a charge, the last turn may be later by a part
  s.whole = rest.whole;
  s.part = rest.part;
  s.ahead = booking{has_passed, last_turn}.after(has_passed);
}

/// Gives back the part of any other request that no later request needs.
void meter::release(state& s, const ticket& t, const state& step,
                    instant has_passed) const noexcept {
  const span since = s.returned - t.left.returned;
  const state left{t.left.whole, t.left.part};
  // A TAT that has not come so far is not that of the receipt.
  if (later(left, {s.whole + since, s.part})) return;
  const state room = minus(left, {since + std::max(has_passed, s.ahead.turn)});
  if (!later(room, {})) return;
  const state& back = later(room, step) ? step : room;
  const state rest = minus(s, back);
  s.until = std::max(s.until, rounded_up(s));
  // Rounded up: then less comes back of the others.
  s.returned = add_up_to(s.returned, rounded_up(back), max_exact);
  s.whole = rest.whole;
  s.part = rest.part;
  s.ahead = s.ahead.after(has_passed);
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

std::string_view meter::record_script() noexcept { return lua::meter_record_lua; }

script_arguments meter::record_arguments(units cost) const noexcept {
  const state step = time_of(cost);
  if (parts_ == 1) return {step.whole, tolerance_.whole};
  return {0, tolerance_.whole, tolerance_.part, parts_, step.whole, step.part};
}

bool meter::read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept {
  constexpr std::string_view absent = "0000000000000000";
  if (text.size() < absent.size()) return false;
  const std::string_view own = text.substr(0, absent.size());
  text.remove_prefix(own.size());
  std::fill(fields.begin(), fields.end(), 0);
  if (own == absent) return true;
  const char* const end = own.data() + own.size();
  const auto read = std::from_chars(own.data(), end, fields[0]);
  if (read.ptr == end && own.front() != '0' && is_instant(fields[0])) return true;
  // A refused check passes on any text that Lua takes for a number, or dashes. Other text did not
  // come from the script.
  constexpr std::string_view of_numbers = "0123456789+-.abcdefABCDEFxXpP \t\n\v\f\r";
  fields[0] = foreign;
  return own.find_first_not_of(of_numbers) == own.npos;
}

std::array<std::int64_t, meter::reply_width> meter::fields(const state& s,
                                                           instant clock) const noexcept {
  return {s.whole, s.part, s.ahead.written, s.ahead.turn, remembered(s, clock).returned};
}

bool meter::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  // The script has forgotten what is to be forgotten.
  out = {fields[0], fields[1], {fields[2], fields[3]}, fields[4], fields[4] > 0 ? max_exact : 0};
  return is_instant(fields[0]) && is_count(fields[1]) && is_instant(fields[2]) &&
         is_instant(fields[3]) && is_count(fields[4]);
}

}  // namespace weir::policies

#include <algorithm>

#include "policy/lua_sources.hpp"
#include "policy/meter.hpp"

// How a bucket gives back and charges; meter_settle.lua does the same.
namespace weir::policies {
namespace {

/// Reservations ahead of a bucket with fewer units in use. A clock behind is read as `written`, so
/// less time is known to have passed: at that time the bucket is full.
reservations_ahead fewer_ahead(const meter& of, const meter::state& s, instant last_turn,
                               instant has_passed) noexcept {
  if (last_turn <= has_passed) return {};
  const instant full = std::max<instant>(1, of.own_time({s.whole, s.part}));
  return {std::min(has_passed, full), last_turn};
}

}  // namespace

void meter::give_back(state& s, instant clock, const ticket& t, units cost) const noexcept {
  // If the clock was set back, the receipt's times are not this clock's.
  if (t.left.whole == 0 || is_far_ahead(s, clock)) return;
  const instant has_passed = std::max(clock, s.ahead.written);
  const state found = remembered(s, clock);
  state seen = found;
  const span since = seen.returned - t.left.returned;
  // A sum that is full knows no more.
  if (rounded_up(seen) <= has_passed || since < 0 || seen.returned == max_exact) return;
  const bool is_last = seen.whole + since == t.left.whole && seen.part == t.left.part;
  if (is_last && !(leaky_ && since > 0)) {
    undo(seen, t, time_of(cost), has_passed);
  } else if (!leaky_) {
    release(seen, t, time_of(cost), has_passed);
  }
  if (seen != found) s = matters_until(seen) + grace <= clock ? state{} : seen;
}

/// Undoes the last request: restores the state before it, less what was given back of other
/// requests since. If that state is not known, subtracts the cost.
void meter::undo(state& s, const ticket& t, const state& step, instant has_passed) const noexcept {
  state rest = minus(s, step);
  instant last_turn = s.ahead.turn, written = 0;
  state before;
  if (t.found.size() == reply_width && restore(t.found, before)) {
    before.whole -= s.returned - t.left.returned;
    // If the reservation moved a state that was too far ahead, the state before is later.
    if (!later(before, s)) {
      rest = before;
      last_turn = before.ahead.turn;
      // Exact only if nothing else was given back since.
      if (s.returned == t.left.returned) written = before.ahead.written;
    }
  }
  // The exact last turn may lie up to a microsecond before.
  const instant least = std::max(has_passed, last_turn);
  if (rounded_up(rest) < least) rest = {least};
  if (!later(s, rest)) return;  // after a charge, the last turn may be later by a part
  s.whole = rest.whole;
  s.part = rest.part;
  s.ahead = fewer_ahead(*this, s, last_turn, has_passed);
  if (s.ahead.turn > 0 && written > 0) s.ahead.written = std::min(written, has_passed);
}

/// When the request would end if nothing had come before it.
meter::state meter::end_alone(const ticket& t, const state& step) const noexcept {
  const state left{t.left.whole, t.left.part};
  const state end = plus({t.counted}, step);
  // A reservation's turn is rounded up.
  return later(end, left) || !t.found.empty() ? plus(earliest(t.counted), step) : end;
}

/// Gives back the part of any other request that no later request needs. The request ends where it
/// ended when it was counted, less what was given back since; but not before its own time and cost.
void meter::release(state& s, const ticket& t, const state& step,
                    instant has_passed) const noexcept {
  const span since = s.returned - t.left.returned;
  const state left{t.left.whole, t.left.part};
  // The receipt belongs to another TAT if this one never came so far.
  if (later(left, {s.whole + since, s.part})) return;
  const state moved = minus(left, {since}), alone = end_alone(t, step);
  const state& own = later(alone, moved) ? alone : moved;
  const state& end = later(own, s) ? s : own;
  const state room = minus(end, {std::max(has_passed, s.ahead.turn)});
  if (!later(room, {})) return;
  const state& back = later(room, step) ? step : room;
  const state rest = minus(s, back);
  s.until = std::max(s.until, rounded_up(s));
  // Rounded up: then less is given back of other requests.
  s.returned = add_up_to(s.returned, rounded_up(back), max_exact);
  s.whole = rest.whole;
  s.part = rest.part;
  s.ahead = fewer_ahead(*this, s, s.ahead.turn, has_passed);
}

void meter::charge(state& s, instant clock, units cost) const noexcept {
  s = seen_at(s, clock);
  verdict v = judge(s, clock, cost);
  if (v.next.whole >= v.latest_known_past + longest_debt)
    v.next = {v.latest_known_past + longest_debt};
  admit(s, v, difference(v.next, tolerance_));
}

void meter::lower(state& s, instant clock, units remaining) const noexcept {
  const state seen = seen_at(s, clock);
  verdict v = judge(seen, clock, 1);
  const state left = time_of(remaining);
  v.next = minus(plus({v.latest_known_past}, tolerance_), left);
  if (!later(v.next, v.base)) return;
  s = seen;
  admit(s, v, 0);
}

std::string_view meter::settle_script() noexcept { return lua::meter_settle_lua; }

}  // namespace weir::policies

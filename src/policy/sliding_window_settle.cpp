#include <algorithm>

#include "policy/lua_sources.hpp"
#include "policy/sliding_window.hpp"

// How a sliding window gives back and charges; sliding_window_settle.lua does the same.
namespace weir::policies {

void sliding_window::give_back(state& s, instant clock, const ticket& t,
                               units cost) const noexcept {
  if (is_far_ahead(s, clock)) return;     // the clock was set back: these are not its windows
  if (matters_until(s) <= clock) return;  // a longer window of the key may still count it
  const instant has_passed = std::max(clock, latest_known_past(s));
  const instant turn = last_turn(s);
  const instant start = aligned(s.start);
  const instant own = aligned(t.counted);
  s.current = std::min(s.current, most_);
  s.previous = std::min(s.previous, most_);
  if (own == start) s.current -= std::min(cost, s.current);
  if (own + window_ == start) s.previous -= std::min(cost, s.previous);
  if (t.counted == turn) s.at_last -= std::min(cost, s.at_last);
  if (turn > has_passed) step_back(s, t);
  if (last_turn(s) > has_passed) {
    s.written = has_passed;
  } else {
    s = {aligned(s.start), s.current, s.previous};
  }
  // A longer window of the key may still count what is over here.
  if (is_empty(s) && matters_until(s) + grace <= clock) s = {};
}

/// If no reservation is left at the last turn, an earlier turn becomes the last.
void sliding_window::step_back(state& s, const ticket& t) const noexcept {
  const instant turn = last_turn(s);
  const instant start = aligned(s.start);
  const instant own = aligned(t.counted);
  state found;
  const bool is_known = !t.found.empty() && restore(t.found, found);
  if (s.current == 0) {
    // The request was the first in its window, and no later window has a reservation either.
    const bool none_left = own == start || (own + window_ == start && s.previous == 0);
    if (is_known && none_left && aligned(found.start) < own) {
      if (own == start && aligned(found.start) + window_ == start) {
        found.current = std::min(found.current, s.previous);
        found.at_last = std::min(found.at_last, found.current);
      }
      s = found;
    } else {
      s.start = start;
      s.at_last = 0;
    }
  } else if (is_known && t.counted == turn && s.at_last == 0 && aligned(found.start) == start &&
             last_turn(found) < turn) {
    s.start = found.start;
    s.written = found.written;
    s.at_last = std::min(found.at_last, s.current);
  }
}

sliding_window sliding_window::endless() const noexcept {
  sliding_window other(*this);
  other.limit_ = no_limit;
  return other;
}

std::string_view sliding_window::settle_script() noexcept { return lua::sliding_window_settle_lua; }

}  // namespace weir::policies

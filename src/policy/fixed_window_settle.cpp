#include <algorithm>

#include "policy/fixed_window.hpp"
#include "policy/lua_sources.hpp"

// How a fixed window gives back and charges; fixed_window_settle.lua does the same.
namespace weir::policies {

void fixed_window::give_back(state& s, instant clock, const ticket& t, units cost) const noexcept {
  if (s.count == 0) return;
  if (is_far_ahead(s, clock) || clock >= s.start + window_) return;
  const instant has_passed = latest_known_past(s, clock);
  const auto is_in = [&](instant start) {
    return t.counted >= start && t.counted < start + window_;
  };
  const bool is_ahead = s.start > has_passed;
  if (is_in(s.start)) {
    s.count -= std::min(cost, s.count);
    if (s.count == 0 && is_ahead) {
      // No reservation is left in the last window: the window before it is the last.
      state found;
      if (s.start_before > 0) {
        s = {s.start_before, s.count_before};
      } else if (!t.found.empty() && restore(t.found, found) && found.start < s.start) {
        s = found;
      }
    }
  } else if (is_ahead && s.start_before > 0 && is_in(s.start_before)) {
    s.count_before -= std::min(cost, s.count_before);
  }
  s = ahead_of(has_passed, s);
  // A longer window of the key may still count what is over here.
  if (is_empty(s) && s.start + grace <= clock) s = {};
}

fixed_window fixed_window::endless() const noexcept {
  fixed_window other(*this);
  other.limit_ = no_limit;
  return other;
}

std::string_view fixed_window::settle_script() noexcept { return lua::fixed_window_settle_lua; }

}  // namespace weir::policies

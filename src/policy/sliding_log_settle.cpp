#include <algorithm>

#include "policy/lua_sources.hpp"
#include "policy/sliding_log.hpp"

// How a sliding log gives back and charges; sliding_log_settle.lua does the same.
namespace weir::policies {

void sliding_log::give_back(state& s, instant clock, const ticket& t, units cost) const {
  if (is_far_ahead(s, clock)) return;  // the receipt's time is not this clock's
  const instant time = entry_time(t.counted);
  const auto first = s.entries_.begin() + static_cast<std::ptrdiff_t>(s.first_);
  const auto found = std::partition_point(first, s.entries_.end(),
                                          [&](const entry& e) { return e.time < time; });
  if (found == s.entries_.end() || found->time != time) return;
  if (s.entries_.end() - found > most_newer + 1) return;
  const instant has_passed = times_of(s.ahead_, clock).latest_known_past;
  if (time <= has_passed - window_) return;  // a longer window of the key may still count it
  const std::int64_t before = found == first ? s.base_ : found[-1].total;
  const units weight = distance(before, found->total);
  const units back = std::min(cost, weight);
  for (auto e = found; e != s.entries_.end(); ++e) e->total = distance(back, e->total);
  if (back < weight) return;
  const bool is_newest = found + 1 == s.entries_.end();
  s.entries_.erase(found);
  if (is_newest) step_back(s, has_passed);
}

/// The newest entry has gone: an earlier turn becomes the last, and the state keeps the time that
/// has passed.
void sliding_log::step_back(state& s, instant latest_known_past) const {
  if (s.ahead_.turn > latest_known_past && s.pinned_ > latest_known_past) return;
  instant newest = 0;
  if (!s.empty()) newest = s.entries_.back().time - (resolution_ > 0 ? 1 : 0);
  s.ahead_ = {latest_known_past, std::max(latest_known_past, std::min(s.ahead_.turn, newest))};
  s.pinned_ = 0;
}

sliding_log sliding_log::endless() const noexcept {
  sliding_log other(*this);
  other.limit_ = no_limit;
  return other;
}

std::string_view sliding_log::settle_script() noexcept { return lua::sliding_log_settle_lua; }

}  // namespace weir::policies

#include "policy/cool_down.hpp"

#include "policy/lua_sources.hpp"

namespace weir::policies {

decision cool_down::record(state& s, moment now, units cost) const noexcept {
  if (pause_ > 0) {
    if (s.until - now.clock > longest_pause) s.until = now.clock;
    s.until = std::max(s.until, now.clock + pause_);
  }
  return fetch(s, now, cost);
}

decision cool_down::fetch(const state& s, moment now, units) const noexcept {
  decision d;
  d.limit = d.remaining = unlimited;
  d.decided_at = to_time_point(now.when);
  d.allowed = s.until <= now.when || s.until - now.clock > longest_pause;
  if (!d.allowed) {
    d.cooling_down = true;
    d.remaining = 0;
    d.retry_after = d.reset_after = std::chrono::microseconds(s.until - now.when);
  }
  return d;
}

std::string_view cool_down::script() noexcept { return lua::cool_down_lua; }

bool cool_down::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0]};
  return is_instant(fields[0]);
}

}  // namespace weir::policies

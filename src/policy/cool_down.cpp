#include "policy/cool_down.hpp"

#include <charconv>

#include "policy/lua_sources.hpp"

namespace weir::policies {

decision cool_down::record(state& s, request_time now, units cost) const noexcept {
  if (!s.has_effect(now.clock)) s = {};
  if (longest_guess_ > 0) {
    if (s.until <= now.clock) guess(s, now.clock);
  } else if (duration_ > 0) {
    const instant end = std::max(now.clock, s.begin()) + duration_;
    if (end > s.until) s = {end, duration_};
  }
  return fetch(s, now, cost);
}

/// The last cool-down has ended.
void cool_down::guess(state& s, instant clock) const noexcept {
  if (duration_ == 0) return void(s = {});
  const bool still_refuses = s.is_guess() && clock <= s.until + s.length();
  const span length = std::clamp(still_refuses ? 2 * s.length() : 0, duration_, longest_guess_);
  s = {clock + length, length + guess_mark};
}

decision cool_down::fetch(const state& s, request_time now, units) const noexcept {
  decision d;
  d.limit = d.remaining = unlimited;
  d.decided_at = to_time_point(now.when);
  d.allowed = s.until <= now.when || !s.has_effect(now.clock);
  if (!d.allowed) {
    d.cooling_down = true;
    d.remaining = 0;
    d.retry_after = std::chrono::microseconds(s.left(now.when));
    d.reset_after = std::chrono::microseconds(s.until - now.when);
  }
  return d;
}

std::string_view cool_down::script() noexcept { return lua::cool_down_lua; }

bool cool_down::read_plain(std::string_view& text, std::span<std::int64_t> fields) noexcept {
  constexpr std::size_t digits = 16;
  for (std::int64_t& field : fields.first<reply_width>()) {
    if (text.size() < digits) return false;
    const char* const end = text.data() + digits;
    const bool has_sign = text.front() == '-';  // which from_chars() would read
    if (has_sign || std::from_chars(text.data(), end, field).ptr != end) return false;
    text.remove_prefix(digits);
  }
  return true;
}

bool cool_down::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1]};
  return is_instant(out.until) && is_count(out.marked_length);
}

}  // namespace weir::policies

#include <iterator>
#include <string>
#include <string_view>

#include "text/duration_text.hpp"
#include "weir/decision.hpp"
#include "weir/error.hpp"
#include "weir/event.hpp"
#include "weir/stats.hpp"

namespace weir {

using text::duration_text;
using text::units_text;

namespace {

std::string why_refused(const decision& d) {
  if (d.failure != error{}) return "the store failed";
  if (d.cooling_down) return "a cool-down";
  if (d.tier >= 0) return "tier " + std::to_string(d.tier);
  if (d.used > d.limit) return "more than the limit is in use";
  return d.remaining > 0 ? "the cost exceeds what remains" : "the limit is used up";
}

}  // namespace

std::string_view to_string(event_kind what) noexcept {
  constexpr std::string_view names[] = {"connected",         "connection_lost", "failed_over",
                                        "circuit_opened",    "circuit_closed",  "cool_down_begun",
                                        "cool_down_clamped", "lease_lost"};
  const auto i = static_cast<std::size_t>(what);
  return i < std::size(names) ? names[i] : std::string_view();
}

std::string_view to_string(connection_state state) noexcept {
  constexpr std::string_view names[] = {"connecting", "ready", "pausing", "closing", "closed"};
  const auto i = static_cast<std::size_t>(state);
  return i < std::size(names) ? names[i] : std::string_view();
}

std::string to_string(const decision& d) {
  std::string text(d.allowed ? "allowed" : "refused (" + why_refused(d) + ')');
  const auto add = [&](std::string_view name, std::string_view value) {
    text.append(" ").append(name).append("=").append(value);
  };
  if (d.source != source::store) add("source", to_string(d.source));
  if (d.failure != error{}) add("failure", name_of(d.failure));
  if (d.cooling_down) add("cooling_down", "true");
  if (d.clamped) add("clamped", "true");
  if (d.tier >= 0) add("tier", std::to_string(d.tier));
  add("limit", units_text(d.limit));
  add("used", std::to_string(d.used));
  add("remaining", units_text(d.remaining));
  if (d.retry_after.count() != 0) add("retry_after", duration_text(d.retry_after));
  add("reset_after", duration_text(d.reset_after));
  if (d.delay.count() != 0) add("delay", duration_text(d.delay));
  return text;
}

}  // namespace weir

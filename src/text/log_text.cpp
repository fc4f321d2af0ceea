#include <iterator>
#include <string>
#include <string_view>
#include <variant>

#include "text/duration_text.hpp"
#include "weir/error.hpp"
#include "weir/event.hpp"
#include "weir/policy.hpp"
#include "weir/stats.hpp"

namespace weir {
namespace {

std::string units_text(std::int64_t n) { return n == unlimited ? "unlimited" : std::to_string(n); }

std::string duration_text(std::chrono::microseconds d) {
  const auto [count, unit] = text::scale(d);
  return std::to_string(count) + unit;
}

/// Builds "name{.member = value, ...}".
class initializer {
 public:
  explicit initializer(std::string_view name) : out_(std::string(name) + '{') {}

  initializer& member(std::string_view name, std::string_view value) {
    if (out_.back() != '{') out_ += ", ";
    out_.append(".").append(name).append(" = ").append(value);
    return *this;
  }
  initializer& if_set(std::string_view name, std::chrono::microseconds value) {
    return value.count() == 0 ? *this : member(name, duration_text(value));
  }
  initializer& if_set(std::string_view name, bool value) {
    return value ? member(name, "true") : *this;
  }
  std::string done() && { return std::move(out_) + '}'; }

 private:
  std::string out_;
};

std::string text_of(const fixed_window& p) {
  initializer text("fixed_window");
  text.member("limit", units_text(p.limit)).member("window", duration_text(p.window));
  if (p.anchor == anchor::epoch) text.member("anchor", "epoch");
  text.if_set("offset", p.offset).if_set("count_refused", p.count_refused);
  return std::move(text).done();
}
std::string text_of(const sliding_log& p) {
  initializer text("sliding_log");
  text.member("limit", units_text(p.limit)).member("window", duration_text(p.window));
  text.if_set("resolution", p.resolution).if_set("count_refused", p.count_refused);
  return std::move(text).done();
}
std::string text_of(const sliding_window& p) {
  initializer text("sliding_window");
  text.member("limit", units_text(p.limit)).member("window", duration_text(p.window));
  text.if_set("count_refused", p.count_refused);
  return std::move(text).done();
}
std::string text_of(const token_bucket& p) {
  initializer text("token_bucket");
  text.member("capacity", units_text(p.capacity)).member("refill", to_string(p.refill));
  return std::move(text).done();
}
std::string text_of(const gcra& p) {
  initializer text("gcra");
  text.member("rate", to_string(p.rate)).member("burst", units_text(p.burst));
  return std::move(text).done();
}
std::string text_of(const leaky_bucket& p) {
  initializer text("leaky_bucket");
  text.member("capacity", units_text(p.capacity)).member("leak", to_string(p.leak));
  return std::move(text).done();
}

std::string why_refused(const decision& d) {
  if (d.failure != error{}) return "the store failed";
  if (d.cooling_down) return "a cool-down";
  if (d.tier >= 0) return "tier " + std::to_string(d.tier);
  if (d.used > d.limit) return "more than the limit is in use";
  return d.remaining > 0 ? "the cost exceeds what remains" : "the limit is used up";
}

}  // namespace

std::string to_string(const policy& p) {
  return std::visit([](const auto& one) { return text_of(one); }, p);
}

std::string to_string(const tiers& all) {
  std::string text("tiers{");
  for (const policy& p : all) text.append(&p == all.begin() ? "" : ", ").append(to_string(p));
  return text + '}';
}

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

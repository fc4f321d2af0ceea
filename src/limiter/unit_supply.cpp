#include "limiter/unit_supply.hpp"

#include <algorithm>
#include <utility>

#include "policy/arithmetic.hpp"
#include "policy/require_valid.hpp"

namespace weir::detail {
namespace {

using std::chrono::microseconds;

/// What supply_rules need of a policy.
struct traits_of_policy {
  std::int64_t limit = 0;  // 0: the policy cannot have local units
  rate drain = {};         // of a bucket
  microseconds window{0};

  explicit traits_of_policy(const fixed_window& p) noexcept
      : limit(p.count_refused ? 0 : p.limit), window(p.window) {}
  explicit traits_of_policy(const token_bucket& p) noexcept : limit(p.capacity), drain(p.refill) {}
  explicit traits_of_policy(const gcra& p) noexcept : limit(p.burst), drain(p.rate) {}
  template <class Other>
  explicit traits_of_policy(const Other&) noexcept {}
};

}  // namespace

supply_rules supply_rules::of(const tiers& policies, std::int64_t most) {
  const auto traits = std::visit([](const auto& p) { return traits_of_policy(p); }, policies[0]);
  policies::require_valid(
      policies.size() == 1 && traits.limit > 0,
      "local units: the policy must be one fixed_window, token_bucket or gcra, without "
      "count_refused");
  policies::require_valid(
      most >= 1 && most <= max_units && most <= traits.limit,
      "local units: local_units must be between 1 and the policy's limit, or 0 for none");
  microseconds life{0};
  if (traits.drain.count > 0) {
    const auto period = policies::wide{traits.drain.period.count()};
    life = microseconds(policies::floor_div(period * most, traits.drain.count));
    life = std::max(life, microseconds{1});  // 0 would stand for a window
  }
  const microseconds pace = (traits.window.count() > 0 ? traits.window : life) / 4;
  return {most, life, std::clamp<microseconds>(pace, std::chrono::milliseconds{1}, longest_pace)};
}

/// If units end unspent, the supply was too large.
void unit_supply::expire(time now) noexcept {
  if (left_ == 0 || now < until_) return;
  left_ = 0;
  size_ = std::max<std::int64_t>(1, size_ / 2);
}

std::optional<decision> unit_supply::spend(std::int64_t cost, time now) {
  was_used_ = true;
  expire(now);
  is_too_large_ = cost > left_ && cost > std::max<std::int64_t>(1, rules_.most / 8);
  if (cost > left_) {
    if (!is_too_large_) short_of_ = std::max(short_of_, cost);
    return std::nullopt;
  }
  left_ -= cost;
  decision d = answer_;
  const auto passed = std::chrono::floor<microseconds>(std::max(now - sent_, time::duration{}));
  d.source = source::local_units;
  d.used = std::max<std::int64_t>(0, d.used - left_);
  if (d.remaining != unlimited) d.remaining = std::min(d.remaining + left_, d.limit);
  d.reset_after = std::max(d.reset_after - passed, microseconds{0});
  d.decided_at += passed;
  d.receipt = {};
  return d;
}

std::int64_t unit_supply::begin_take(time now) {
  expire(now);
  const std::int64_t short_of = std::exchange(short_of_, 0);
  if (is_taking_ || is_too_large_ || (left_ > size_ / 2 && left_ >= short_of)) return 0;
  if (left_ == 0 && remaining_ == 0) return 0;
  const std::int64_t half = remaining_ / 2 + remaining_ % 2;
  std::int64_t size = std::max(size_, short_of);
  if (began_ && now < *began_ + 2 * rules_.pace) size = std::min(2 * size, rules_.most);
  const std::int64_t wanted = size - left_, units = std::min(wanted, half);
  // A small part is not worth a call: while the limit is used up, all checks go to the store.
  if (units <= 0 || units < wanted / 8) return 0;
  size_ = size;
  began_ = now;
  is_taking_ = true;
  return units;
}

void unit_supply::taken(std::int64_t units, const decision& answer, time sent, time now) {
  is_taking_ = false;
  remaining_ = answer.remaining;
  if (std::exchange(is_void_, false) || !answer.allowed) return;
  expire(now);
  // The store decided at `sent` or later, so the units end here no later than there.
  const bool is_bucket = rules_.life.count() > 0;
  const time until = sent + (is_bucket ? rules_.life : answer.reset_after);
  // Units of another window do not count in this one. The end differs also if the store's clock has
  // stepped, or another process has reset the subject.
  const auto end = [](const decision& d) { return d.decided_at + d.reset_after; };
  if (!is_bucket && end(answer) != end(answer_)) left_ = 0;
  left_ += units;
  units_ = units;
  sent_ = sent;
  answer_ = answer;
  until_ = until;
}

/// No further take until the store has answered a check.
void unit_supply::failed() noexcept {
  is_taking_ = is_void_ = false;
  size_ = 1;
  remaining_ = 0;
}

void unit_supply::forget(time now) noexcept {
  expire(now);
  left_ = 0;
  is_void_ = is_taking_;
}

bool unit_supply::was_used() noexcept { return std::exchange(was_used_, false); }

unit_supply::rest unit_supply::give_up(time now) {
  expire(now);
  const std::int64_t all = std::exchange(left_, 0);
  return {rules_.life.count() > 0 ? std::min(all, units_) : all, answer_};
}

}  // namespace weir::detail

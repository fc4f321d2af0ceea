#include "limiter/validation.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "policy/tier_set.hpp"

namespace weir::detail {
namespace {

/// Validates a joint check: all keys in one slot, no key twice, no limiter with count_refused.
error validate_together(const check& c) {
  bool fits = true;
  std::size_t tiers = 0;
  for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view) {
    fits = fits && limiter.store == c.limiter->store && !limiter.counts_refused;
    tiers += limiter.tiers.size();
  });
  if (!fits || tiers > policies::max_tiers) return error::cannot_combine;
  std::vector<std::string> keys;
  for_each_tier(c, [&](const limiter_spec& limiter, std::string_view subject, std::int64_t,
                       std::size_t tier) {
    // A check only reads cool-downs, and limiters of one resource and subject share one: a repeated
    // key is no mistake.
    if (policies::kind_of(limiter.tiers[tier]) == policies::kernel_kind::cool_down) return;
    limiter.append_key(keys.emplace_back(), subject, tier);
    fits = fits && hash_tag(keys.back()) == hash_tag(keys.front());
    // Two subjects share a bucket only by chance: whether a call works must not depend on that.
    fits = fits && (limiter.buckets == 0 || subject == c.subject.view());
  });
  std::sort(keys.begin(), keys.end());
  fits = fits && std::adjacent_find(keys.begin(), keys.end()) == keys.end();
  return fits ? error{} : error::cannot_combine;
}

bool all_can_settle(const check& c) {
  bool all = true;
  for_each_limiter(c, [&](const limiter_spec& l, std::string_view) { all = all && l.can_settle; });
  return all;
}

/// False for times that no decision of weir has. The store computes from them how long it keeps the
/// marker, and the caller may have changed the decision.
bool has_times_of_ours(const decision& d) noexcept {
  const std::int64_t at = d.decided_at.time_since_epoch().count();
  const auto is_ahead = [at](std::chrono::microseconds by) {
    return by.count() >= 0 && by.count() <= policies::max_exact - at;
  };
  return policies::is_instant(at) && is_ahead(d.reset_after) && is_ahead(d.delay) &&
         policies::is_instant(d.receipt.counted_at);
}

/// Likewise for the receipt's costs. They are 0 in a joint_decision that was made of a decision.
bool has_costs_of_ours(const check& c) {
  const auto is_cost = [](std::int64_t cost) { return cost >= 1 && cost <= max_units; };
  bool has = is_cost(as<settle_request>(c).about.receipt.cost);
  for (std::size_t i = 0; i < c.further().size(); ++i) {
    has = has && is_cost(c.further_taken()->costs[i]);
  }
  return has;
}

/// Likewise for its buckets: the store would write wrong ones into the shared state.
bool has_buckets_of_ours(const check& c) {
  std::vector<const policies::kernel*> kernels;
  for_each_tier(c, [&](const limiter_spec& limiter, std::string_view, std::int64_t,
                       std::size_t tier) { kernels.push_back(&limiter.tiers[tier]); });
  return policies::could_leave(kernels, tickets_of(c));
}

error validate_settlement(const check& c) {
  const settle_request& asked = as<settle_request>(c);
  const auto validate_term = [](const limiter_spec& l, std::string_view subject,
                                std::int64_t actual) {
    const error e = validate(l, subject, 1);
    return e == error{} && (actual < 0 || actual > max_units) ? error::invalid_cost : e;
  };
  const error own = validate_term(*c.limiter, c.subject.view(), c.units);
  if (own != error{}) return own;
  for (const term& t : c.further()) {
    if (const error e = validate_term(*t.limiter, t.subject.view(), t.units); e != error{})
      return e;
  }
  if (c.further().size() >= receipt::most_limiters) return error::cannot_settle;
  if (const receipt& r = asked.about.receipt; r.id != 0) {  // 0: the decision took no units
    const bool can = all_can_settle(c) && r.origin == origin_of(c) && has_costs_of_ours(c) &&
                     has_times_of_ours(asked.about) && has_buckets_of_ours(c);
    if (!can) return error::cannot_settle;
  }
  return c.further().empty() ? error{} : validate_together(c);
}

/// Validates a check that counts, looks or enters. `cost` has to fit its own limiter.
error validate_request(const check& c, std::int64_t cost) {
  if (const error e = validate(*c.limiter, c.subject.view(), cost); e != error{}) return e;
  for (const term& t : c.further()) {
    if (const error e = validate(*t.limiter, t.subject.view(), t.units); e != error{}) return e;
  }
  if (c.traits.waits && !all_can_settle(c)) return error::cannot_wait;
  return c.further().empty() ? error{} : validate_together(c);
}

bool has_negative_duration(const check& c) {
  if (c.traits.waits && as<acquire_request>(c).max_wait.count() < 0) return true;
  return c.timeout.count() < 0 || (cools_down(c) && c.units < 0);
}

}  // namespace

error validate(const check& c) {
  if (has_negative_duration(c)) return error::invalid_duration;
  if (settles(c) && !lowers(c)) return validate_settlement(c);
  if (c.traits.may_fail_over) return validate_request(c, c.units);
  if (c.kind == check_kind::lease) return validate_request(c, 1);
  const bool needs_cool_downs = cools_down(c) || lowers(c);
  if (needs_cool_downs && !c.limiter->has_cool_down) return error::cool_downs_disabled;
  return validate(*c.limiter, c.subject.view(), 1);
}

}  // namespace weir::detail

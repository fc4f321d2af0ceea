#include "limiter/failure_policy.hpp"

#include <algorithm>
#include <vector>

#include "check/store_backend.hpp"
#include "limiter/limiter_impl.hpp"
#include "limiter/local_fallback.hpp"

namespace weir::detail {
namespace {

/// One limiter of a joint check that is answered here.
struct share {
  local_fallback* local;  // null: the limiter lets all pass (open)
  std::string_view subject;
  std::int64_t cost;
  std::int16_t first_tier;  // its number in the decision
  decision answer;
};

std::vector<share> shares_of(const check& c) {
  std::vector<share> shares;
  std::size_t tier = 0;
  const auto add = [&](const limiter_spec& limiter, std::string_view subject, std::int64_t cost) {
    local_fallback* const local = impl_of(limiter).fallback.get();
    shares.push_back({local, subject, cost, static_cast<std::int16_t>(tier), {}});
    decision& d = shares.back().answer;
    if (local != nullptr) {
      d = local->fetch(subject, cost);
    } else {
      d = without_store(true);
      d.remaining = d.limit = unlimited;
    }
    // The cool-down tier has no number in a decision, and the fallback has none.
    tier += limiter.tiers.size() - (limiter.has_cool_down ? 1 : 0);
  };
  add(*c.limiter, c.subject.view(), c.units);
  for (const term& t : c.further()) add(*t.limiter, t.subject.view(), t.units);
  return shares;
}

/// Answers a joint check from the fallback of each limiter that has one. Unlike in a store this is
/// not atomic: because of a call in between, a later limiter may refuse what earlier ones have
/// counted. The decision is allowed only if all of them have counted.
decision from_local_shares(const check& c) {
  std::vector<share> shares = shares_of(c);
  const bool allowed = std::all_of(shares.begin(), shares.end(),
                                   [](const share& s) { return s.answer.allowed; });
  std::vector<decision> each;
  for (share& s : shares) {
    if (!c.traits.looks_only && s.local != nullptr) {
      if (allowed) {
        s.answer = s.local->record(s.subject, s.cost);
      } else if (!s.answer.allowed) {
        s.local->note_refusal(s.subject, s.cost);
      }
    }
    each.push_back(s.answer);
  }
  decision d = policies::combined(each);
  if (!d.allowed) {
    const auto by = static_cast<std::size_t>(d.tier);
    d.tier = static_cast<std::int16_t>(shares[by].first_tier +
                                       std::max<std::int16_t>(0, each[by].tier));
  }
  return d;
}

decision from_local_share(const check& c) {
  local_fallback& local = *impl_of(*c.limiter).fallback;
  const std::string_view subject = c.subject.view();
  const std::int64_t cost = c.units;
  if (c.traits.looks_only) return local.fetch(subject, cost);
  if (is_record(c)) return local.record(subject, cost);
  return local.acquire(subject, cost, as<acquire_request>(c).max_wait);
}

/// The failure policy of a check that has one; for a joint check, the strictest of its limiters.
on_failure failure_policy_of(const check& c) {
  for (const on_failure f : {on_failure::closed, on_failure::fallback}) {
    bool is_there = false;
    for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view) {
      is_there = is_there || limiter.failure == f;
    });
    if (is_there) return f;
  }
  return on_failure::open;
}

}  // namespace

void apply_failure_policy(check& c) {
  if (!c.ec || !has_failure_policy(c) || !is_store_failure(c.ec)) return;
  const on_failure policy = failure_policy_of(c);
  if (policy == on_failure::fallback) {
    c.answer = c.further().empty() ? from_local_share(c) : from_local_shares(c);
  } else {
    c.answer = without_store(policy == on_failure::open);
    c.answer.limit = c.limiter->nominal_limit;
  }
  c.answer.failure = static_cast<error>(c.ec.value());
  c.ec = {};  // last: without memory for a decision, the error stays
}

}  // namespace weir::detail

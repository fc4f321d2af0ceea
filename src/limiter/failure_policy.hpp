#pragma once

#include <string_view>
#include <vector>

#include "memory/shard.hpp"
#include "weir/detail/check.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

/// One process's share of a policy: limit, capacity, burst and rate divided by `clients`, at least
/// one unit each.
weir::policy share_of(const weir::policy& policy, std::int64_t clients);

/// Counts a limiter's policy in this process, at this process's share, while the store fails.
class local_fallback {
 public:
  local_fallback(const weir::tiers& tiers, const limiter_options& options);

  decision record(std::string_view subject, std::int64_t cost);
  decision fetch(std::string_view subject, std::int64_t cost);
  decision acquire(std::string_view subject, std::int64_t cost, std::chrono::microseconds max_wait);

 private:
  std::vector<memory::shard::place> places_of(std::string_view subject, std::int64_t cost) const;

  std::vector<policies::kernel> tiers_;
  policies::units ceiling_;
  memory::shard subjects_;
};

/// The failure policy of a check; for a joint check, the strictest of its limiters.
on_failure failure_policy_of(const check& c);

/// Replaces a store failure by the decision of the check's failure policy, except for `raise`. Call
/// it before the check is finished.
void apply_failure_policy(check& c);

}  // namespace weir::detail

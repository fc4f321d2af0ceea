#pragma once

#include <string_view>
#include <vector>

#include "memory/shard.hpp"
#include "weir/detail/check.hpp"
#include "weir/limiter_options.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

/// One client's part of a policy that `clients` share: limit, capacity, burst and rate divided, but
/// at least one unit.
weir::policy share_of(const weir::policy& policy, std::int64_t clients);

/// What a limiter falls back on: its policy, at this process's share, counted here.
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

/// What decides if the store cannot: of several limiters, the strictest.
on_failure failure_policy_of(const check& c);

/// Turns a store failure into what the check's limiter wants of it. Call it before the check is
/// finished.
void apply_failure_policy(check& c);

}  // namespace weir::detail

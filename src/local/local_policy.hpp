#pragma once

#include <boost/system/system_error.hpp>

#include "policy/arithmetic.hpp"
#include "weir/error.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

// What the limiters without a store do with their policy.

inline const tiers& as_tiers(const tiers& policy) { return policy; }
inline tiers as_tiers(const policy& policy) { return tiers(policy); }

/// Throws boost::system::system_error with error::invalid_cost or error::cost_exceeds_limit.
inline void require_cost(policies::units cost, policies::units ceiling) {
  if (cost >= 1 && cost <= ceiling) return;
  throw boost::system::system_error(cost < 1 || cost > max_units ? error::invalid_cost
                                                                 : error::cost_exceeds_limit);
}

}  // namespace weir::detail

#pragma once

#include "weir/detail/check.hpp"
#include "weir/limiter_options.hpp"

namespace weir::detail {

/// The failure policy of a check; for a joint check, the strictest of its limiters.
on_failure failure_policy_of(const check& c);

/// Replaces a store failure by the decision of the check's failure policy, except for `raise`. Call
/// it before the check is finished.
void apply_failure_policy(check& c);

}  // namespace weir::detail

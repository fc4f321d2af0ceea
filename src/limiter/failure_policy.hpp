#pragma once

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Replaces a store failure by the decision of the check's failure policy, except for `raise`. Call
/// it before the check is finished.
void apply_failure_policy(check& c);

}  // namespace weir::detail

#pragma once

#include "weir/detail/check.hpp"

namespace weir::detail {

/// What is done to every result on its way from a store to its caller: the limiter's failure policy, and a little more for
/// those whom a cool-down holds back. Call it once, before the check is finished. True if the caller has a turn that is
/// still ahead, and no line to sleep in; see sleepers.
bool conclude(check& c);

}  // namespace weir::detail

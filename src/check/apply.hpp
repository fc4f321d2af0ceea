#pragma once

#include <span>

#include "policy/tier_set.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// A tier of a check whose state this process holds.
using held_tier = policies::tier<policies::any_state>;

/// Runs the check on the states of its tiers, at one instant of the clock, and fills in its answer.
/// `tiers` are in the order of for_each_tier(), each with its limiter's own kernel and a state that
/// fits it. `is_first` false: the store has done this settlement or give-back before, and does
/// nothing now. A reset is the store's own: this function does nothing for it.
void apply(check& c, std::span<const held_tier> tiers, policies::instant now, bool is_first = true);

}  // namespace weir::detail

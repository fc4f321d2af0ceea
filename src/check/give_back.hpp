#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "weir/detail/check.hpp"

namespace weir::detail {

// Detached checks have no caller, and free themselves when their store has finished them.

/// Replaces a sent acquire whose deadline has passed. If the store answers with a reservation, the
/// replacement gives it back.
check& stand_in_for(const check& sent);

/// Makes a check that gives back the units of `reservation`. The caller of this function starts it.
/// `told`, when the store closes: a check that is finished after the give-back, with store_closed,
/// or with outcome_unknown if the give-back failed. It may be `reservation` itself.
check& make_give_back(const check& reservation, check* told = nullptr);
/// The same for some of the units that a record has counted.
check& make_give_back(const std::shared_ptr<const limiter_spec>& limiter, const short_text& subject,
                      const decision& counted, std::int64_t units);

/// The arguments of a further request for what `caller` asks, with another max_wait.
joint_check_of<acquire_request>::arguments acquire_like(const check& caller,
                                                        std::chrono::microseconds max_wait);

}  // namespace weir::detail

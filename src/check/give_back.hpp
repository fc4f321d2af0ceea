#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weir/detail/check.hpp"

namespace weir::detail {

// Detached checks have no caller, and free themselves when their store has finished them.

/// Takes the place of a sent acquire whose caller has left or whose deadline has passed. The answer
/// goes to the waiting room of the acquire.
check& stand_in_for(const check& sent);

/// Units that a decision has taken, and that go back.
struct taken_units {
  std::shared_ptr<const limiter_spec> limiter;
  short_text subject;
  std::int64_t units;
  joint_decision about;
  std::vector<term> further = {};
  std::vector<std::int64_t> found = {};  // see acquire_request
};

/// Makes a check that gives them back. The caller of this function starts it. `caller`, when the
/// store closes: a check that is finished after the give-back, with store_closed, or with
/// outcome_unknown if the give-back failed.
check& make_give_back(taken_units what, check* caller = nullptr);

}  // namespace weir::detail

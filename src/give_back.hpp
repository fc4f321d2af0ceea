#pragma once

#include <memory>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Checks for which nobody waits. They end their own lives when their store is done with them.

/// Takes the place of an acquire that was sent, and whose caller has gone: if the store says that it was booked, it is given
/// back.
check& stand_in_for(const check& sent);

/// Not started yet: takes back what `booked` holds.
check& make_give_back(const check& booked);

}  // namespace weir::detail

#pragma once

#include <memory>
#include <vector>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// Checks for which nobody waits. They end their own lives when their store is done with them.

/// Takes the place of an acquire that was sent, and whose caller has gone: if the store says that
/// it was booked, it is given back.
check& stand_in_for(const check& sent);

/// Not started yet: takes back what `booked` holds.
check& make_give_back(const check& booked);

/// A store that is closing still takes these.
inline bool gives_back(const check& c) noexcept {
  return c.kind == check_kind::give_back || c.kind == check_kind::leave;
}

/// A turn that goes back because the store closes, and its caller, which may be the same check.
struct returned_reservation {
  const check* booked;
  check* caller;
};

/// Has the store take these back, the last turn first. When it has, the caller is told
/// store_closed; when that cannot be known, outcome_unknown. All are of one store.
void give_back_and_tell(std::vector<returned_reservation> turns);

}  // namespace weir::detail

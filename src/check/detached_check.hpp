#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weir/detail/check.hpp"

namespace weir::detail {

// Detached checks have no caller. They free themselves when their store has finished them.

/// Replaces a sent acquire whose caller has left. If the store answers with a reservation, the
/// replacement gives it back.
check& stand_in_for(const check& sent);

/// Makes a check that gives back the units of `reservation`. The caller of this function starts it.
check& make_give_back(const check& reservation);
/// The same for a part of what a record has counted.
check& make_give_back(const std::shared_ptr<const limiter_spec>& limiter, const short_text& subject,
                      const decision& counted, std::int64_t units);

/// True for a check that gives units back: a closing store still accepts it.
inline bool gives_back(const check& c) noexcept {
  return c.kind == check_kind::give_back || c.kind == check_kind::leave;
}

/// A reservation to give back because the store closes, and the caller's check: null if there is
/// none, or the same object.
struct returned_reservation {
  const check* reservation;
  check* caller;
};

/// Gives reservations of one store back, the last one first. Each caller then gets store_closed, or
/// outcome_unknown if the give-back failed.
void give_back_and_tell(std::vector<returned_reservation> turns);

}  // namespace weir::detail

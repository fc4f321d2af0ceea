// pending_checks: callers of acquire() that leave while the store may make a reservation for them.
#include <boost/asio/error.hpp>
#include <utility>

#include "link/pending_checks.hpp"

namespace weir::detail {

bool pending_checks::replace(check& c, check& successor) {
  const check_stage stage = flight_of(c).stage;
  if (stage == check_stage::done || stage == check_stage::idle) return false;
  if (stage != check_stage::waiting) put_in_place_of(c, successor);
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
  return stage != check_stage::waiting;
}

/// The store may make a reservation for a sent acquire. Its queue waits for the answer, without a
/// deadline, and gives the reservation back.
void pending_checks::detach(check& c) {
  flight_of(c).is_detached = true;
  deadline_wheel::remove(c);
}

/// Gives the place of a sent acquire to `other`, which is detached.
void pending_checks::put_in_place_of(check& c, check& other) noexcept {
  const in_flight& flight = flight_of(c);
  flight_of(other).is_stand_in = true;
  flight_of(other).stage = flight.stage;
  flight_of(other).position = flight.position;
  flight_of(other).resends = flight.resends;
  // The answer is there if it only waits for memcached to store it.
  other.answer = c.answer;
  as<acquire_request>(other).found = std::move(as<acquire_request>(c).found);
  c.line.swap_nodes(other.line);
  pending_ += weight_of(other);
}

}  // namespace weir::detail

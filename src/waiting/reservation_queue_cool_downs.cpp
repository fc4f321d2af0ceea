// What cool-downs do to the waiters of acquire().
#include <algorithm>
#include <iterator>
#include <utility>

#include "waiting/reservation_queue.hpp"

namespace weir::waiting {

void reservation_queue::cool_down(time until, time now, orders& out) {
  cool_down_until_ = std::max(cool_down_until_, until);
  postpone(now, out);
  settle_event(now, out);
}

/// Gives the reservations inside the cool-down back and makes requests for others: the store knows
/// what fits behind the cool-down, and refuses the waiters for which that is too late. A
/// reservation that was requested with the cool-down known, or made by the fallback, is postponed
/// to its end; if that is too late, the waiter is refused here.
void reservation_queue::postpone(time now, orders& out) {
  while (!reservations_.empty() && reservations_.begin()->due() < cool_down_until_ &&
         now < cool_down_until_) {
    reservation_request& reservation = *reservations_.begin();
    waiter& w = *reservation.owner;
    const bool is_of_store = reservation.answer.source != source::fallback;
    const bool is_known = reservation.known_cool_down + rules_.same_end >= cool_down_until_;
    if (is_of_store && !is_known) {
      request_again(reservation, now, out);
      continue;
    }
    if (cool_down_until_ > w.latest) {
      // Not withdraw(), which gives back the last reservation: that may lie behind the cool-down.
      if (is_of_store) returns_.push_back(w.reservation);
      remove(reservation);
      tell(w, reservation.refusal_for(w, now, cool_down_until_), out);
      continue;
    }
    remove(reservation);
    reservation.postponed_by += cool_down_until_ - reservation.due();
    reservation.due_at = cool_down_until_;
    insert(reservation);
  }
}

/// Gives a reservation back and makes a request for its owner; or, if the owner can use the
/// reservation of the last waiter in rank, the owner gets that one and the request is for the last
/// waiter.
void reservation_queue::request_again(reservation_request& reservation, time now, orders& out) {
  waiter& owner = *reservation.owner;
  waiter& last = *std::prev(with_reservation_.upper_bound(owner.cost(), order::of_cost()));
  if (&last != &owner && last.reservation->due() <= owner.latest) exchange(last, owner);
  waiter& w = *reservation.owner;
  remove(reservation);
  reservation.owner = nullptr;
  w.by_cost.unlink();
  returns_.push_back(std::move(w.reservation));
  request_for(w, now, out);
  w.reservation->flight.replaces = true;
}

}  // namespace weir::waiting

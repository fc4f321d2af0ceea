// What cool-downs do to the waiters of acquire().
#include <algorithm>
#include <iterator>
#include <utility>

#include "waiting/waiter_line.hpp"

namespace weir::waiting {

void waiter_line::cool_down(time until, time now, orders& out) {
  note_cool_down(until);
  postpone(now, out);
  settle_event(now, out);
}

/// Gives the reservations inside the cool-down back and asks for others: the store knows what fits
/// behind the cool-down, and refuses the waiters for which that is too late. A reservation that was
/// asked for with the cool-down known, or made by the fallback, is postponed to its end; if that is
/// too late, the waiter is refused here.
void waiter_line::postpone(time now, orders& out) {
  while (!reservations_.empty() && reservations_.begin()->held.due < cool_down_until_ &&
         now < cool_down_until_) {
    waiter& w = *reservations_.begin();
    reservation& one = w.held;
    const bool is_known = one.cool_downs == cool_downs_ ||
                          one.named_cool_down + rules_.same_end >= cool_down_until_;
    if (one.is_of_store() && !is_known) {
      request_again(w, now, out);
    } else if (cool_down_until_ > w.latest) {
      const decision refused = one.refusal(w.max_wait, now, cool_down_until_);
      // Not withdraw(), which gives back the last reservation: that may lie behind the cool-down.
      if (one.is_of_store()) returns_.push_back({one, w.cost()});
      tell(*w.caller, refused, out);
    } else {
      remove(w);
      one.postponed_by += cool_down_until_ - one.due;
      one.due = cool_down_until_;
      insert(w);
    }
  }
}

/// Gives a reservation back, and its owner asks for another; or, if the owner can use the
/// reservation of the last waiter in rank, the owner gets that one, and the last waiter asks.
void waiter_line::request_again(waiter& owner, time now, orders& out) {
  returns_.push_back({owner.held, owner.cost()});
  waiter& last = *std::prev(with_reservation_.upper_bound(owner.cost(), order::of_cost_and_rank()));
  const bool passes_on = &last != &owner && last.held.due <= owner.latest;
  if (passes_on) exchange(last, owner);
  waiter& asks = passes_on ? last : owner;
  remove(asks);
  ask_again(asks, true, now, out);
}

}  // namespace weir::waiting

// The reservations of a line: when each is due, who gets it, and which goes back.
#include <algorithm>
#include <iterator>
#include <utility>

#include "waiting/waiter_line.hpp"

namespace weir::waiting {

/// Sets when a reservation is due. Answers may be late, but a later reservation must not be due
/// before an earlier one, and not many at once. So each is due after the one before it by at least
/// three quarters of the store's gap between the two, until the line has caught up. This postpones
/// none by more than the one before may be late, and none beyond `latest`, the end of max_wait.
/// Reservations of the store and of the fallback are kept apart, because their clocks may differ by
/// hours.
void waiter_line::keep_order(reservation& one, time latest, time sent, time now) const noexcept {
  const time reported = one.due;
  const auto is_before = [&](const waiter& other) {
    return other.held.is_of_store() == one.is_of_store() &&
           other.held.reserved_time() <= one.reserved_time();
  };
  // Mostly the last one is before it. After a reset, all others may be behind it.
  auto last = reservations_.rbegin();
  int looks = 64;
  while (last != reservations_.rend() && !is_before(*last) && --looks > 0) ++last;
  if (last != reservations_.rend() && looks > 0) {
    const reservation& before = last->held;
    const auto gap = one.reserved_time() - before.reserved_time();
    const time due = before.due - std::chrono::duration_cast<time::duration>(before.postponed_by);
    const time behind = std::min(due + (gap - gap / 4), reported + before.late_by);
    one.due = std::max(reported, std::min(std::max(due, behind), latest));
  }
  one.late_by = one.due - reported + (now - sent);
}

/// The earliest reservation that is about to go back and that such a caller can use, of the last
/// 64. While callers leave and others come, what a caller has left would be given back behind
/// checks that are under way, and a small bucket or a log would lose it.
std::vector<returned>::iterator waiter_line::find_return(std::int64_t cost, time latest,
                                                         time now) noexcept {
  auto best = returns_.end();
  if (closed_) return best;
  const auto looks = std::min<std::ptrdiff_t>(64, std::ssize(returns_));
  for (auto it = returns_.end() - looks; it != returns_.end(); ++it) {
    const reservation& one = it->held;
    // Those whose time has passed could all go at once; the store has forgotten those that were
    // made before a reset.
    const bool fits = it->cost == cost && one.due >= now && one.due <= latest &&
                      one.due >= cool_down_until_ && one.forgotten == forgotten_;
    if (fits && (best == returns_.end() || one.due < best->held.due)) best = it;
  }
  return best;
}

void waiter_line::take_return(waiter& w, std::vector<returned>::iterator which, time now) noexcept {
  w.held = std::move(which->held);
  returns_.erase(which);
  w.reserved_at = now;
  if (!w.by_rank.is_linked()) let_in(w);
  insert(w);
}

void waiter_line::withdraw(waiter& w) {
  if (!w.has_reservation()) return;  // between a failure and the next request
  waiter& last = *last_of_cost(w.cost());
  // The fallback has no give-back. First, because it may throw.
  if (last.held.is_of_store()) returns_.push_back({last.held, last.cost()});
  if (&last != &w) exchange(w, last);
  remove(w);
}

void waiter_line::complete_due(time now, orders& out) noexcept {
  while (!reservations_.empty() && reservations_.begin()->held.due <= now) {
    waiter& owner = *reservations_.begin();
    // The first in rank whose own reservation the owner can use, among the first 64.
    auto first = with_reservation_.lower_bound(owner.cost(), order::of_cost_and_rank());
    int looks = 64;
    while (&*first != &owner && first->held.due > owner.latest && --looks > 0) ++first;
    waiter& next = looks > 0 ? *first : owner;
    if (&next != &owner) exchange(next, owner);
    tell(*next.caller, next.held.decision_since(next.reserved_at), out);
  }
}

void waiter_line::exchange(waiter& a, waiter& b) noexcept {
  remove(a);
  remove(b);
  std::swap(a.held, b.held);
  insert(a);
  insert(b);
}

void waiter_line::insert(waiter& w) noexcept {
  reservations_.insert(w);
  reservations_by_cost_.insert(w);
  with_reservation_.insert(w);
}

void waiter_line::remove(waiter& w) noexcept {
  w.by_due.unlink();
  w.by_cost_and_due.unlink();
  w.by_cost_and_rank.unlink();
}

waiter* waiter_line::last_of_cost(std::int64_t cost) noexcept {
  const auto behind = reservations_by_cost_.upper_bound(cost, order::of_cost_and_due());
  if (behind == reservations_by_cost_.begin()) return nullptr;
  waiter& last = *std::prev(behind);
  return last.cost() == cost ? &last : nullptr;
}

}  // namespace weir::waiting

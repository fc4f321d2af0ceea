#include "waiting/reservation_queue.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "check/store_backend.hpp"

namespace weir::waiting {

using detail::cancel_scope;
using detail::check;
using detail::check_list;
using detail::check_stage;

namespace {

/// True for a failure that may pass and counted nothing: the request is worth repeating.
bool is_worth_repeating(const error_code& ec) {
  if (ec != condition::not_counted) return false;
  for (const error lasting :
       {error::store_closed, error::overloaded, error::store_full, error::authentication_failed,
        error::permission_denied, error::command_missing, error::invalid_database,
        error::out_of_memory, error::server_misconfigured, error::wrong_type, error::script_missing,
        error::server_error, error::server_is_cluster, error::server_is_not_cluster,
        error::server_is_sentinel, error::cross_slot, error::newer_state, error::state_too_large}) {
    if (ec == lasting) return false;
  }
  return true;
}

}  // namespace

void reservation_queue::arrive(check& c, std::uint64_t arrival, time now, orders& out) {
  const auto& asked = detail::as<detail::acquire_request>(c);
  auto& w = *new waiter(c, rank(now, arrival, asked.priority, rules_.priority_aging),
                        now + asked.max_wait);
  c.flight.queued = &w;
  try {
    if (has_room()) {
      enter(w, now, out);
    } else {
      overflow(w, now, out);
    }
  } catch (...) {  // out of memory
    c.flight.queued = nullptr;
    delete &w;
    throw;
  }
  settle_event(now, out);
}

void reservation_queue::arrive_answered(check& c, const request_ptr& request, std::uint64_t arrival,
                                        time came, time now, orders& out) {
  const auto& asked = detail::as<detail::acquire_request>(c);
  auto& w = *new waiter(c, rank(came, arrival, asked.priority, rules_.priority_aging),
                        came + asked.max_wait);
  c.flight.queued = &w;
  w.reservation = request;
  request->owner = &w;
  request->forgotten = forgotten_;
  let_in(w);
  expect_answer();
  answered(*request, now, out);
}

void reservation_queue::overflow(waiter& w, time now, orders& out) {
  const bool drops = rules_.overflow == on_overflow::drop_lowest_priority && !waiting_.empty() &&
                     w.order < waiting_.rbegin()->order;
  if (!drops) return tell(w, error::overloaded, out);
  waiter& last = *waiting_.rbegin();
  withdraw(last, out);
  tell(last, error::overloaded, out);
  enter(w, now, out);  // takes the reservation of the last one, if that is of use
}

void reservation_queue::enter(waiter& w, time now, orders& out) {
  reserve_for(w, now, out);  // first, because it may throw
  let_in(w);
}

void reservation_queue::let_in(waiter& w) noexcept {
  ++waiting_count_;
  waiting_.insert(w);
}

/// The end of each event. Completes due reservations.
///
/// Then gives reservations back: at once if a request is to be started, which must reach the store
/// after them; else when no answer is due, because the store takes a reservation back whole only if
/// none stands behind it, and a cancelled request may still become one.
void reservation_queue::settle_event(time now, orders& out) {
  do {
    complete_due(now, out);
    if (unstarted_requests_ == 0 && has_answers_due()) return;
    exchange_returns();
  } while (!reservations_.empty() && reservations_.begin()->due() <= now);
  for (request_ptr& reservation : returns_) {
    out.returns.emplace_back(std::move(reservation), nullptr);
  }
  returns_.clear();
}

/// Exchanges each reservation that goes back for a waiter's later one, if there is one: the store
/// has made it since, or the first one was made for a cancelled request. "Later" is by the store's
/// clock, because answers may have been late. No waiter can use a reservation that a cool-down
/// covers.
void reservation_queue::exchange_returns() noexcept {
  for (request_ptr& reservation : returns_) {
    reservation_request* const last = last_of_cost(reservation->units);
    if (last == nullptr || last->answer.source == source::fallback) continue;
    if (reservation->reserved_time() >= last->reserved_time()) continue;
    if (reservation->due() < cool_down_until_) continue;
    remove(*last);
    if (last->due() < reservation->due()) {
      reservation->due_at = last->due();
      reservation->postponed_by = last->postponed_by;
    }
    insert(*reservation);
    reservation->owner = std::exchange(last->owner, nullptr);
    reservation->cancelled.reset();
    reservation.swap(reservation->owner->reservation);
  }
}

void reservation_queue::leave(check& c, cancel_scope scope, time now, orders& out) {
  waiter& w = static_cast<waiter&>(*c.flight.queued);
  if (scope == cancel_scope::only_unsent && w.reservation != nullptr) {
    // Only the store knows whether the request was sent; if not, it answers operation_aborted.
    // A request that has become a reservation was sent.
    if (w.reservation->is_reserved) return;
    return cancel_request(w, scope, out);
  }
  withdraw(w, out);
  tell(w, boost::asio::error::operation_aborted, out);
  settle_event(now, out);
}

void reservation_queue::answered(reservation_request& request, time now, orders& out) {
  --pending_requests_;
  take_answer(request, now, out);
  settle_event(now, out);
}

void reservation_queue::on_time(time now, orders& out) {
  while (!to_repeat_.empty() && to_repeat_.front().repeat_at <= now) {
    waiter& w = to_repeat_.front();
    to_repeat_.pop_front();
    reserve_for(w, now, out);
  }
  settle_event(now, out);
}

void reservation_queue::close(orders& out) {
  closed_ = true;
  if (has_answers_due()) return;
  while (!waiting_.empty()) {
    waiter& w = *waiting_.begin();
    check& c = *w.caller;
    withdraw(w, out);
    tell(w, error::store_closed, out);
    if (returns_.empty()) continue;  // the store holds no reservation for this waiter
    c.line.unlink();
    out.returns.emplace_back(std::move(returns_.back()), &c);
    returns_.pop_back();
  }
}

reservation_queue::time reservation_queue::wakeup() const {
  time next = reservations_.empty() ? time::max() : reservations_.begin()->due();
  if (!to_repeat_.empty()) next = std::min(next, to_repeat_.front().repeat_at);
  return next;
}

// ---- reservations

/// While callers leave and others come, what a caller has left would be given back behind requests
/// that are under way, and a small bucket or a log would lose it.
void reservation_queue::reserve_for(waiter& w, time now, orders& out) {
  if (!take_return(w, now)) request_for(w, now, out);
}

/// Gives the waiter the earliest reservation that was to go back and that it can use, of the last
/// 64.
bool reservation_queue::take_return(waiter& w, time now) noexcept {
  if (closed_) return false;
  auto best = returns_.end();
  const auto looks = std::min<std::ptrdiff_t>(64, std::ssize(returns_));
  for (auto it = returns_.end() - looks; it != returns_.end(); ++it) {
    const reservation_request& one = **it;
    // Those whose time has passed could all go at once; the store has forgotten those that were
    // made before a reset.
    const bool fits = one.units == w.cost() && one.due() >= now && one.due() <= w.latest &&
                      one.due() >= cool_down_until_ && one.forgotten == forgotten_;
    if (fits && (best == returns_.end() || one.due() < (*best)->due())) best = it;
  }
  if (best == returns_.end()) return false;
  w.reservation = std::move(*best);
  returns_.erase(best);
  w.reservation->owner = &w;
  w.reservation->cancelled.reset();
  insert(*w.reservation);
  w.reserved_at = now;
  with_reservation_.insert(w);
  return true;
}

void reservation_queue::request_for(waiter& w, time now, orders& out) {
  out.starts.push_back(std::make_shared<reservation_request>(
      *w.caller, max_wait_left(w.request().max_wait, w.latest, now)));
  w.reservation = out.starts.back();
  w.reservation->owner = &w;
  w.reservation->flight.sent = now;  // a store that sends notes a later time
  w.reservation->known_cool_down = cool_down_until_;
  w.reservation->forgotten = forgotten_;
  ++pending_requests_;
  ++unstarted_requests_;
}

void reservation_queue::exchange(waiter& a, waiter& b) noexcept {
  std::swap(a.reservation, b.reservation);
  a.reservation->owner = &a;
  b.reservation->owner = &b;
}

void reservation_queue::insert(reservation_request& reservation) noexcept {
  reservations_.insert(reservation);
  reservations_by_cost_.insert(reservation);
}

void reservation_queue::remove(reservation_request& reservation) noexcept {
  reservation.by_time.unlink();
  reservation.by_cost.unlink();
}

reservation_request* reservation_queue::last_of_cost(std::int64_t cost) noexcept {
  const auto behind = reservations_by_cost_.upper_bound(cost, order::of_cost_and_time());
  if (behind == reservations_by_cost_.begin()) return nullptr;
  reservation_request& last = *std::prev(behind);
  return last.units == cost ? &last : nullptr;
}

void reservation_queue::withdraw(waiter& w, orders& out) {
  if (w.reservation == nullptr) return;  // between a failed request and the next
  if (!w.reservation->is_reserved) {
    w.reservation->owner = nullptr;
    return cancel_request(w, cancel_scope::any, out);
  }
  reservation_request& last = *last_of_cost(w.cost());
  if (last.owner != &w) exchange(w, *last.owner);
  // The fallback has no give-back. Before remove(), because it may throw.
  if (last.answer.source != source::fallback) returns_.push_back(w.reservation);
  remove(last);
}

void reservation_queue::cancel_request(waiter& w, cancel_scope scope, orders& out) {
  w.reservation->cancelled = scope;
  out.cancels.emplace_back(w.reservation, scope);
}

void reservation_queue::take_answer(reservation_request& request, time now, orders& out) {
  request.is_reserved = !request.ec && request.answer.allowed;
  request.due_at = now + request.answer.delay;
  request.number = ++reservations_made_;
  waiter* const w = request.owner;
  time until{};  // the end of the cool-down that the answer names
  if (request.asked.cool_down_left.count() > 0 && request.forgotten == forgotten_) {
    until = now + request.asked.cool_down_left;
  }
  request.known_cool_down = std::max(request.known_cool_down, until);
  // The reservation lies behind the cool-down, also if that lasts longer than is told.
  if (until != time{} && request.is_reserved)
    request.known_cool_down = std::max(request.known_cool_down, request.due_at);
  if (w == nullptr) {
    if (request.is_reserved && request.answer.source != source::fallback) {
      keep_order(request, time::max(), now);  // a waiter may get it in exchange
      returns_.push_back(request.shared_from_this());
    }
    return;
  }
  cool_down_until_ = std::max(cool_down_until_, until);
  if (request.ec) {
    take_failure(*w, request, now, out);
  } else if (!request.answer.allowed) {
    tell(*w, with_whole_max_wait(request.answer, w->request(), request.asked), out);
  } else {
    keep_order(request, w->latest, now);
    insert(request);
    // A request for another reservation carries what is left of max_wait, rounded down.
    if (w->reserved_at == time::min()) w->latest = now + request.asked.max_wait;
    w->reserved_at = now;
    with_reservation_.insert(*w);
  }
  postpone(now, out);
}

/// Sets when a reservation is due. Answers may be late, but a later reservation must not be due
/// before an earlier one, and not many at once. So each is due after the one before it by at least
/// three quarters of the store's gap between the two, until the queue has caught up. This postpones
/// none by more than the one before may be late, and none beyond `latest`, the end of max_wait.
/// Reservations of the store and of the fallback are kept apart, because their clocks may differ by
/// hours.
void reservation_queue::keep_order(reservation_request& request, time latest, time now) {
  const time reported = request.due_at;
  const auto is_before = [&](const reservation_request& other) {
    const bool is_of_one_clock = (other.answer.source == source::fallback) ==
                                 (request.answer.source == source::fallback);
    return is_of_one_clock && other.reserved_time() <= request.reserved_time();
  };
  // Mostly the last one is before it. After a reset, all others may be behind it.
  auto last = reservations_.rbegin();
  int looks = 64;
  while (last != reservations_.rend() && !is_before(*last) && --looks > 0) ++last;
  if (last != reservations_.rend() && looks > 0) {
    const auto gap = request.reserved_time() - last->reserved_time();
    const time due = last->due() - std::chrono::duration_cast<time::duration>(last->postponed_by);
    const time behind = std::min(due + (gap - gap / 4), reported + last->late_by);
    request.due_at = std::max(reported, std::min(std::max(due, behind), latest));
  }
  request.late_by = request.due_at - reported + (now - request.flight.sent);
}

void reservation_queue::take_failure(waiter& w, reservation_request& request, time now,
                                     orders& out) {
  const bool is_cancelled = request.cancelled ||
                            request.ec == boost::asio::error::operation_aborted;
  if (!is_cancelled && is_worth_repeating(request.ec) && now + rules_.retry_interval <= w.latest) {
    request.owner = nullptr;
    w.reservation.reset();
    w.repeat_at = now + rules_.retry_interval;
    to_repeat_.push_back(w);
  } else {
    tell(w, request.ec, out);
  }
}

void reservation_queue::complete_due(time now, orders& out) {
  while (!reservations_.empty() && reservations_.begin()->due() <= now) {
    reservation_request& reservation = *reservations_.begin();
    waiter& owner = *reservation.owner;
    // The first in rank whose own reservation the owner can use, among the first 64.
    auto first = with_reservation_.lower_bound(reservation.units, order::of_cost());
    int looks = 64;
    while (&*first != &owner && first->reservation->due() > owner.latest && --looks > 0) ++first;
    if (&*first != &owner && looks > 0) exchange(*first, owner);
    waiter& next = *reservation.owner;
    remove(reservation);
    if (auto* const taken = next.caller->further_taken()) *taken = *reservation.further_taken();
    tell(next, reservation.decision_for(next), out);
  }
}

// ---- results

void reservation_queue::tell(waiter& w, const decision& answer, orders& out) {
  w.caller->answer = answer;
  finish(w, out);
}

void reservation_queue::tell(waiter& w, error_code ec, orders& out) {
  w.caller->ec = ec;
  finish(w, out);
}

void reservation_queue::finish(waiter& w, orders& out) {
  if (w.by_rank.is_linked()) --waiting_count_;
  if (w.reservation != nullptr) w.reservation->owner = nullptr;
  check& c = *w.caller;
  c.flight.queued = nullptr;
  // The store may read the stage of a check that it has finished (a late cancel), without the
  // queue's mutex. So the queue does not write the same value again.
  if (c.flight.stage != check_stage::done) c.flight.stage = check_stage::done;
  out.told.push_back(c);
  delete &w;
}

void reservation_queue::abandon(orders& out) {
  while (!waiting_.empty()) finish(*waiting_.begin(), out);
  for (request_ptr& reservation : returns_) {
    out.returns.emplace_back(std::move(reservation), nullptr);
  }
  returns_.clear();
}

}  // namespace weir::waiting

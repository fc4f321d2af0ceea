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

using std::chrono::microseconds;

/// The time left of the waiter's max_wait. After waiting outside it is rounded down by at most
/// 1/64 of max_wait, so that waiters admitted together make equal requests, which coalesce.
microseconds patience_left(const waiter& w, check::steady_time now) {
  const microseconds whole = w.caller->max_wait;
  const auto left = std::chrono::floor<microseconds>(w.latest - now);
  if (left >= whole) return whole;
  const microseconds step = std::max(microseconds{1}, whole / 64);
  return std::max(microseconds{0}, left - left % step);
}

/// The decision that the waiter `w` gets for this reservation. It may have been booked for another
/// waiter, so `decided_at` and `delay` are moved to the time at which `w` got a reservation.
decision as_told_to(const waiter& w, const reservation_request& turn) {
  decision d = turn.answer;
  const time_point begins = d.decided_at + d.delay, idle = d.decided_at + d.reset_after;
  const auto waited = std::chrono::floor<microseconds>(turn.due() - turn.put_off - w.heard);
  d.delay = std::max(microseconds{0}, waited);
  d.decided_at = begins - d.delay;
  d.reset_after = std::max(microseconds{0}, idle - d.decided_at);
  return d;
}

/// The refusal of a waiter whose max_wait ends before the cool-down does.
decision refusal_in_pause(const waiter& w, const reservation_request& turn, check::steady_time now,
                          check::steady_time until) {
  decision d = turn.answer;
  d.decided_at = turn.turn() - std::chrono::floor<microseconds>(turn.due() - turn.put_off - now);
  d.allowed = false;
  d.cooling_down = true;
  d.remaining = 0;
  d.delay = d.reset_after = {};
  d.receipt = {};
  const auto pause = std::chrono::ceil<microseconds>(until - now);
  d.retry_after = std::max(microseconds{1}, pause - w.caller->max_wait);
  return d;
}

/// True for a store failure that may pass and counted nothing: the request is worth repeating.
bool is_passing(const error_code& ec) {
  if (!detail::is_store_failure(ec) || ec != condition::not_counted) return false;
  for (const error lasting :
       {error::overloaded, error::store_full, error::authentication_failed,
        error::permission_denied, error::invalid_database, error::out_of_memory,
        error::server_misconfigured, error::wrong_type, error::script_missing, error::server_error,
        error::tls_failed, error::server_is_cluster, error::server_is_sentinel}) {
    if (ec == lasting) return false;
  }
  return true;
}

}  // namespace

void reservation_queue::arrive(check& c, std::uint64_t arrival, time now, orders& o) {
  auto& w = *new waiter(c, rank(now, arrival, c.priority, rules_.priority_aging), now + c.max_wait);
  c.place = &w;
  if (inside_count_ < rules_.max_waiting) {
    let_in(w);
    ask_for(w, now, o);
  } else {
    overflow(w, now, o);
  }
  fill_up(now, o);
}

void reservation_queue::overflow(waiter& w, time now, orders& o) {
  switch (rules_.overflow) {
    case on_overflow::refuse_new:
      break;
    case on_overflow::drop_oldest:
      return replace(inside_by_arrival_.front(), w, now, o);
    case on_overflow::drop_lowest_priority: {
      waiter& last = *inside_.rbegin();
      if (w.goes < last.goes) return replace(last, w, now, o);
      break;
    }
    case on_overflow::block:
      if (outside_count_ >= max_outside) break;
      w.stands = waiter::where::outside;
      ++outside_count_;
      outside_.insert(w);
      outside_by_patience_.insert(w);
      return;
  }
  tell(w, error::overloaded, o);
}

void reservation_queue::replace(waiter& dropped, waiter& newcomer, time now, orders& o) {
  const bool has_place = take_over(dropped, newcomer, now);
  if (!has_place) withdraw(dropped, o);
  tell(dropped, error::overloaded, o);
  let_in(newcomer);
  if (!has_place) ask_for(newcomer, now, o);
}

void reservation_queue::let_in(waiter& w) {
  w.stands = waiter::where::inside;
  ++inside_count_;
  inside_.insert(w);
  inside_by_arrival_.push_back(w);
}

/// Moves waiters from outside to inside while there is room, and completes due reservations, which
/// makes more room.
void reservation_queue::fill_up(time now, orders& o) {
  do {
    while (inside_count_ < rules_.max_waiting && outside_count_ > 0) {
      waiter& w = *outside_.begin();
      --outside_count_;
      w.by_rank.unlink();
      w.by_patience.unlink();
      let_in(w);
      ask_for(w, now, o);
    }
    hand_out_turns(now, o);
  } while (inside_count_ < rules_.max_waiting && outside_count_ > 0);
}

void reservation_queue::leave(check& c, cancel_scope scope, time now, orders& o) {
  waiter& w = *c.place;
  if (scope == cancel_scope::only_unsent && w.asked != nullptr) {
    // Only the store knows whether the request was sent; if not, it answers operation_aborted.
    // A booked reservation was sent.
    if (w.asked->is_turn) return;
    w.asked->is_unwanted = true;
    o.cancels.emplace_back(w.asked, scope);
    return;
  }
  withdraw(w, o);
  tell(w, boost::asio::error::operation_aborted, o);
  fill_up(now, o);
}

void reservation_queue::answered(reservation_request& a, time now, orders& o) {
  --asks_out_;
  hear(a, now, o);
  fill_up(now, o);
}

void reservation_queue::on_time(time now, orders& o) {
  while (!outside_by_patience_.empty() && outside_by_patience_.begin()->latest <= now) {
    tell(*outside_by_patience_.begin(), error::overloaded, o);
  }
  while (!unanswered_.empty() && unanswered_.front().again <= now) {
    waiter& w = unanswered_.front();
    unanswered_.pop_front();
    ask_for(w, now, o);
  }
  fill_up(now, o);
}

void reservation_queue::close(orders& o) {
  while (!outside_.empty()) tell(*outside_.begin(), error::store_closed, o);
  while (asks_out_ == 0 && !inside_.empty()) {
    waiter& w = *inside_.begin();
    check& c = *w.caller;
    const std::size_t before = o.returns.size();
    withdraw(w, o);
    tell(w, error::store_closed, o);
    if (o.returns.size() == before) continue;  // the store holds no reservation for this waiter
    c.line.unlink();
    o.closing.emplace_back(std::move(o.returns.back()), &c);
    o.returns.pop_back();
  }
}

reservation_queue::time reservation_queue::wakeup() const {
  time next = turns_.empty() ? time::max() : turns_.begin()->due();
  if (!unanswered_.empty()) next = std::min(next, unanswered_.front().again);
  if (!outside_by_patience_.empty()) next = std::min(next, outside_by_patience_.begin()->latest);
  return next;
}

// ---- reservations

void reservation_queue::ask_for(waiter& w, time now, orders& o) {
  o.starts.push_back(reservation_request::make(w, patience_left(w, now)));
  ++asks_out_;
}

void reservation_queue::exchange(waiter& a, waiter& b) noexcept {
  std::swap(a.asked, b.asked);
  a.asked->for_whom = &a;
  b.asked->for_whom = &b;
}

void reservation_queue::withdraw(waiter& w, orders& o) {
  if (w.asked == nullptr) return;  // outside, or between a failed request and the next
  if (!w.asked->is_turn) {
    w.asked->for_whom = nullptr;
    o.cancels.emplace_back(w.asked, cancel_scope::any);
    return;
  }
  const auto of_this_cost = turns_by_cost_.upper_bound(w.cost(), order::of_cost_and_time());
  reservation_request& last = *std::prev(of_this_cost);
  if (last.for_whom != &w) exchange(w, *last.for_whom);
  last.by_time.unlink();
  last.by_cost.unlink();
  // The fallback keeps its reservation: it has no give-back.
  if (last.answer.source != source::fallback) o.returns.push_back(w.asked);
}

bool reservation_queue::take_over(waiter& from, waiter& newcomer, time now) {
  if (from.asked == nullptr || from.cost() != newcomer.cost()) return false;
  reservation_request& a = *from.asked;
  if (a.is_unwanted) return false;
  if (a.is_turn) {
    if (a.due() > newcomer.latest) return false;
    newcomer.heard = now;
    with_turns_.insert(newcomer);
  } else {
    if (a.max_wait != newcomer.caller->max_wait) return false;
    a.is_inherited = true;
  }
  newcomer.asked = std::move(from.asked);
  newcomer.asked->for_whom = &newcomer;
  return true;
}

void reservation_queue::hear(reservation_request& a, time now, orders& o) {
  waiter* const w = a.for_whom;
  if (w == nullptr) {
    const bool holds = !a.ec && a.answer.allowed && a.answer.source != source::fallback;
    if (holds) o.returns.push_back(a.shared_from_this());
    return;
  }
  if (a.pause.count() > 0) held_until_ = std::max(held_until_, now + a.pause);
  if (a.ec) {
    hear_failure(*w, a, now, o);
  } else if (!a.answer.allowed) {
    // The request carried a little less than max_wait; the caller's next one may carry all of it.
    const microseconds less = w->caller->max_wait - a.max_wait;
    a.answer.retry_after = std::max(microseconds{1}, a.answer.retry_after - less);
    tell(*w, a.answer, o);
  } else {
    a.is_turn = true;
    a.deadline = now + a.answer.delay;
    // A late answer must not make a later reservation due before this one.
    if (!turns_.empty() && turns_.rbegin()->turn() <= a.turn()) {
      const reservation_request& last = *turns_.rbegin();
      a.deadline = std::max(a.deadline, last.due() - last.put_off);
    }
    a.number = ++turns_heard_;
    turns_.insert(a);
    turns_by_cost_.insert(a);
    w->heard = now;
    w->latest = now + a.max_wait;
    with_turns_.insert(*w);
  }
  put_off(now, o);
}

void reservation_queue::hear_failure(waiter& w, reservation_request& a, time now, orders& o) {
  const bool is_cancelled = a.is_unwanted || a.ec == boost::asio::error::operation_aborted;
  if (a.is_inherited && a.ec != boost::asio::error::operation_aborted) {
    // The failed request had the deadline of the dropped waiter; this waiter gets its own request.
    a.for_whom = nullptr;
    ask_for(w, now, o);
  } else if (!is_cancelled && is_passing(a.ec) && now + rules_.retry_interval <= w.latest) {
    a.for_whom = nullptr;
    w.asked.reset();
    w.again = now + rules_.retry_interval;
    unanswered_.push_back(w);
  } else {
    tell(w, a.ec, o);
  }
}

void reservation_queue::hold(time until, time now, orders& o) {
  held_until_ = std::max(held_until_, until);
  put_off(now, o);
  fill_up(now, o);
}

/// Postpones reservations inside the cool-down to its end. If that is beyond the waiter's max_wait,
/// refuses the waiter and gives a reservation back.
void reservation_queue::put_off(time now, orders& o) {
  while (!turns_.empty() && turns_.begin()->due() < held_until_ && now < held_until_) {
    reservation_request& turn = *turns_.begin();
    waiter& w = *turn.for_whom;
    if (held_until_ > w.latest) {
      const decision d = refusal_in_pause(w, turn, now, held_until_);
      withdraw(w, o);
      tell(w, d, o);
      continue;
    }
    turn.by_time.unlink();
    turn.by_cost.unlink();
    turn.put_off += held_until_ - turn.due();
    turn.deadline = held_until_;
    turns_.insert(turn);
    turns_by_cost_.insert(turn);
  }
}

void reservation_queue::hand_out_turns(time now, orders& o) {
  while (!turns_.empty() && turns_.begin()->due() <= now) {
    reservation_request& turn = *turns_.begin();
    waiter& owner = *turn.for_whom;
    waiter& first = *with_turns_.lower_bound(turn.cost, order::of_cost());
    if (&first != &owner && first.asked->due() <= owner.latest) exchange(first, owner);
    waiter& goes = *turn.for_whom;
    turn.by_time.unlink();
    turn.by_cost.unlink();
    tell(goes, as_told_to(goes, turn), o);
  }
}

// ---- results

void reservation_queue::tell(waiter& w, const decision& answer, orders& o) {
  w.caller->answer = answer;
  finish(w, o);
}

void reservation_queue::tell(waiter& w, error_code ec, orders& o) {
  w.caller->ec = ec;
  finish(w, o);
}

void reservation_queue::finish(waiter& w, orders& o) {
  if (w.stands == waiter::where::inside) --inside_count_;
  if (w.stands == waiter::where::outside) --outside_count_;
  if (w.asked != nullptr) w.asked->for_whom = nullptr;
  check& c = *w.caller;
  c.place = nullptr;
  c.stage = check_stage::done;
  o.told.push_back(c);
  delete &w;
}

void reservation_queue::abandon(check_list& dropped) {
  orders o;
  while (!inside_.empty()) finish(*inside_.begin(), o);
  while (!outside_.empty()) finish(*outside_.begin(), o);
  dropped.splice(dropped.end(), o.told);
}

}  // namespace weir::waiting

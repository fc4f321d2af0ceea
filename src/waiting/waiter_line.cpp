#include "waiting/waiter_line.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <iterator>
#include <utility>

namespace weir::waiting {

using boost::asio::error::operation_aborted;
using detail::acquire_request;
using detail::as;
using detail::cancel_scope;
using detail::check;
using detail::check_stage;
using detail::room_note;

namespace {

/// True for a failure that may pass and counted nothing: it is worth asking again.
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

/// When the caller came, without what makes its number differ from others'.
waiter::time came(const check& c) noexcept {
  const std::chrono::nanoseconds number(as<acquire_request>(c).arrival);
  return waiter::time{std::chrono::floor<std::chrono::microseconds>(number)};
}

rank rank_of(const check& c, const line_rules& rules) noexcept {
  const auto& asked = as<acquire_request>(c);
  return {came(c), asked.arrival, asked.priority, rules.priority_aging};
}

/// Null if the store has not answered it yet for the first time.
waiter* waiter_of(const check& c) noexcept { return static_cast<waiter*>(c.flight.room.waiter); }

}  // namespace

void waiter_line::arrive(check& c, std::uint64_t arrival, time now, orders& out) {
  auto& asked = as<acquire_request>(c);
  asked.arrival = arrival;
  const bool drops = rules_.overflow == on_overflow::drop_lowest_priority && !waiting_.empty() &&
                     rank_of(c, rules_) < waiting_.rbegin()->order;
  const bool comes = has_room() || drops;
  if (comes && !has_room()) drop_last(out);
  if (!comes) {
    tell(c, error::overloaded, out);
  } else if (const auto back = find_return(c.units, now + asked.max_wait, now);
             back != returns_.end()) {
    take_return(waiter_for(c), back, now);
  } else {
    ask(c, out);
  }
  settle_event(now, out);
}

/// Drops the last waiter in rank.
void waiter_line::drop_last(orders& out) {
  waiter& last = *waiting_.rbegin();
  withdraw(last);
  tell(*last.caller, error::overloaded, out);
}

void waiter_line::let_in(waiter& w) noexcept {
  ++waiting_count_;
  waiting_.insert(w);
  w.caller->flight.room.place = room_note::waits;
}

void waiter_line::let_out(waiter& w) noexcept {
  if (!w.by_rank.is_linked()) return;
  --waiting_count_;
  w.by_rank.unlink();
}

/// The end of each event. Completes due reservations.
///
/// Then gives reservations back: at once if a check is to be started, which must reach the store
/// after them; else when no answer is due, because the store takes a reservation back whole only if
/// none stands behind it, and a cancelled check may still reserve.
void waiter_line::settle_event(time now, orders& out) {
  do {
    complete_due(now, out);
    if (unstarted_ == 0 && due_.all > 0) return;
    exchange_returns();
  } while (!reservations_.empty() && reservations_.begin()->held.due <= now);
  if (out.returns.empty()) return out.returns.swap(returns_);
  out.returns.insert(out.returns.end(), std::make_move_iterator(returns_.begin()),
                     std::make_move_iterator(returns_.end()));
  returns_.clear();
}

/// Exchanges each reservation that goes back for a waiter's later one, if there is one: the store
/// has made it since, or the first one was made for a cancelled check. "Later" is by the store's
/// clock, because answers may have been late. No waiter can use a reservation that a cool-down
/// covers.
void waiter_line::exchange_returns() noexcept {
  for (returned& one : returns_) {
    waiter* const last = last_of_cost(one.cost);
    if (last == nullptr || !last->held.is_of_store()) continue;
    if (one.held.reserved_time() >= last->held.reserved_time()) continue;
    if (one.held.due < cool_down_until_) continue;
    remove(*last);
    if (last->held.due < one.held.due) {
      one.held.due = last->held.due;
      one.held.postponed_by = last->held.postponed_by;
    }
    std::swap(one.held, last->held);
    insert(*last);
  }
}

void waiter_line::leave(check& c, cancel_scope scope, time now, orders& out) {
  if (c.flight.room.place == room_note::held) {
    --due_.all;
    --unstarted_;
  } else if (waiter& w = *waiter_of(c); w.has_reservation()) {
    if (scope == cancel_scope::only_unsent) return;
    withdraw(w);
  }
  tell(c, operation_aborted, out);
  settle_event(now, out);
}

void waiter_line::answered(check& c, time cool_down, time now, orders& out) {
  due_.finished(c);
  note_cool_down(cool_down);
  if (!c.flight.is_detached) {
    take_answer(c, now, out);
  } else if (!c.ec && c.answer.allowed && c.answer.source != source::fallback) {
    returns_.reserve(returns_.size() + 1);  // may throw, before the number is taken
    reservation one = reservation_of(c, now);
    keep_order(one, time::max(), sent_at(c), now);  // a waiter may get it in exchange
    returns_.push_back({std::move(one), c.units});
  }
  postpone(now, out);
  settle_event(now, out);
}

void waiter_line::on_time(time now, orders& out) {
  while (!to_repeat_.empty() && to_repeat_.front().repeat_at <= now) {
    waiter& w = to_repeat_.front();
    to_repeat_.pop_front();
    if (const auto back = find_return(w.cost(), w.latest, now); back != returns_.end()) {
      take_return(w, back, now);
    } else {
      ask_again(w, false, now, out);
    }
  }
  settle_event(now, out);
}

void waiter_line::close(orders& out) {
  closed_ = true;
  if (due_.all > 0) return;
  out.returns.reserve(out.returns.size() + waiting_count_);  // what follows must not throw half-way
  while (!waiting_.empty()) {
    waiter& w = *waiting_.begin();
    check& c = *w.caller;
    withdraw(w);
    tell(c, error::store_closed, out);
    if (returns_.empty()) continue;  // the store holds no reservation for this waiter
    c.line.unlink();
    returns_.back().caller = &c;
    out.returns.push_back(std::move(returns_.back()));
    returns_.pop_back();
  }
}

waiter_line::time waiter_line::wakeup() const {
  time next = reservations_.empty() ? time::max() : reservations_.begin()->held.due;
  if (!to_repeat_.empty()) next = std::min(next, to_repeat_.front().repeat_at);
  return next;
}

// ---- checks that go to the store, and come from there

void waiter_line::ask(check& c, orders& out) noexcept {
  ++due_.all;
  stamp(c);
  ++unstarted_;
  c.flight.room.place = room_note::held;
  out.starts.push_back(c);
}

void waiter_line::ask_again(waiter& w, bool replaces, time now, orders& out) noexcept {
  check& c = *w.caller;
  // A cancellation of the sent check may still be under way, and reads its stage.
  if (c.flight.room.wish != room_note::stays) return tell(c, operation_aborted, out);
  let_out(w);
  asking_again_.push_back(w);
  auto& asked = as<acquire_request>(c);
  asked.max_wait = max_wait_left(w.max_wait, w.latest, now);
  asked.cool_down_left = {};
  asked.found.clear();
  c.answer = {};
  make_idle(c);
  c.flight.replaces = replaces;
  c.flight.sent = now;  // a store that sends notes a later time
  ask(c, out);
}

void waiter_line::take_answer(check& c, time now, orders& out) {
  waiter* const known = waiter_of(c);
  if (known != nullptr) known->by_event.unlink();
  auto& asked = as<acquire_request>(c);
  if (asked.forgotten != forgotten_) asked.cool_down_left = {};  // a reset has ended it
  if (asked.cool_down_left.count() > 0) note_cool_down(now + asked.cool_down_left);
  if (c.ec) return take_failure(c, now, out);
  const bool has_left = c.flight.room.wish == room_note::leaves;
  if (!c.answer.allowed) {
    const auto whole = known != nullptr ? known->max_wait : asked.max_wait;
    return tell(c, with_whole_max_wait(c.answer, whole - asked.max_wait), out);
  }
  if (has_left && c.answer.delay.count() == 0) return finish(c, out);
  waiter& w = waiter_for(c);
  w.held = reservation_of(c, now);
  keep_order(w.held, w.latest, std::max(came(c), sent_at(c)), now);
  // A later request carries what is left of max_wait, rounded down.
  if (w.reserved_at == time::min()) w.latest = now + asked.max_wait;
  w.reserved_at = now;
  let_in(w);
  insert(w);
  if (has_left) {
    withdraw(w);
    tell(c, operation_aborted, out);
  } else if (waiting_count_ > rules_.max_waiting) {
    drop_last(out);
  }
}

void waiter_line::take_failure(check& c, time now, orders& out) {
  const waiter* const known = waiter_of(c);
  const time latest = known != nullptr ? known->latest : came(c) + as<acquire_request>(c).max_wait;
  if (c.flight.room.wish == room_note::stays && is_worth_repeating(c.ec) &&
      now + rules_.retry_interval <= latest) {
    waiter& w = waiter_for(c);
    w.repeat_at = now + rules_.retry_interval;
    let_in(w);
    to_repeat_.push_back(w);
    if (waiting_count_ > rules_.max_waiting) drop_last(out);
  } else {
    tell(c, c.flight.room.wish == room_note::leaves ? operation_aborted : c.ec, out);
  }
}

/// Two answers may put the end of one cool-down a little apart.
void waiter_line::note_cool_down(time until) noexcept {
  if (until > cool_down_begun_ + rules_.same_end) {
    cool_down_begun_ = until;
    ++cool_downs_;
  }
  cool_down_until_ = std::max(cool_down_until_, until);
}

/// Notes in a check that is about to start what is known of cool-downs.
void waiter_line::stamp(check& c) const noexcept {
  auto& asked = as<acquire_request>(c);
  asked.cool_downs = cool_downs_;
  asked.forgotten = forgotten_;
}

reservation waiter_line::reservation_of(check& c, time now) noexcept {
  auto& asked = as<acquire_request>(c);
  reservation one;
  one.answer = c.answer;
  if (const further_receipt* const taken = c.further_taken()) one.answer.further = *taken;
  one.found = std::move(asked.found);
  one.due = now + c.answer.delay;
  one.number = ++reservations_made_;
  one.cool_downs = asked.cool_downs;
  one.forgotten = asked.forgotten;
  // It lies behind the cool-down, also if that lasts longer than is told.
  if (asked.cool_down_left.count() > 0 && asked.forgotten == forgotten_) {
    one.named_cool_down = std::max(now + asked.cool_down_left, one.due);
  }
  return one;
}

/// The waiter of the check, which is made if there is none.
waiter& waiter_line::waiter_for(check& c) {
  if (waiter* const known = waiter_of(c)) return *known;
  const auto longest = as<acquire_request>(c).max_wait;
  auto* const made = new waiter(c, rank_of(c, rules_), came(c) + longest, longest);
  c.flight.room.waiter = made;
  return *made;
}

// ---- results

void waiter_line::tell(check& c, const joint_decision& answer, orders& out) noexcept {
  c.ec = {};
  c.answer = answer;
  if (further_receipt* const taken = c.further_taken()) *taken = answer.further;
  finish(c, out);
}

void waiter_line::tell(check& c, error_code ec, orders& out) noexcept {
  c.ec = ec;
  c.answer = {};
  finish(c, out);
}

void waiter_line::finish(check& c, orders& out) noexcept {
  if (waiter* const w = waiter_of(c)) {
    let_out(*w);
    delete w;  // unlinks the rest
  }
  c.flight.room = {};
  // A cancellation that comes too late may be reading the stage.
  if (c.flight.stage != check_stage::done) c.flight.stage = check_stage::done;
  out.completed.push_back(c);
}

void waiter_line::abandon(orders& out) noexcept {
  while (!waiting_.empty()) finish(*waiting_.begin()->caller, out);
  while (!asking_again_.empty()) delete &asking_again_.front();
  returns_.clear();
}

}  // namespace weir::waiting

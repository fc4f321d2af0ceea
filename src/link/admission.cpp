#include "link/admission.hpp"

#include <boost/asio/error.hpp>
#include <new>
#include <utility>

#include "check/give_back.hpp"

namespace weir::detail {

error admission::why_not_wait(const check& c, time now) noexcept {
  if (!may_end_at_once(c)) return {};
  // If the server has become a replica, a new connection comes soon.
  const bool is_away = !connected_ && suspicion_ != error{} && suspicion_ != error::read_only;
  if (is_away) return suspicion_;
  if (breaker_.lets_through(now)) return {};
  return step_ != error{} ? step_ : error::circuit_open;
}

void admission::cancel(check& c, cancel_scope scope) {
  const check_stage stage = c.flight.stage;
  // A room may be about to start it.
  if (stage == check_stage::done || stage == check_stage::idle) return;
  if (stage != check_stage::waiting) {
    if (scope == cancel_scope::only_unsent) return;
    if (c.traits.waits && !leave_stand_in(c)) return;
  }
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
}

void admission::unsend(check& c) {
  c.flight.stage = check_stage::waiting;
  if (c.flight.is_detached && c.traits.waits) {
    c.ec = boost::asio::error::operation_aborted;  // nobody waits, and nothing was reserved
    finish(c);
  } else if (closed_ && !c.traits.gives_back) {
    finish(c, error::store_closed);
  }
}

void admission::finish(check& c) {
  release(c);
  c.flight.stage = check_stage::done;
  if (c.ec) c.answer = {};
  done_.push_back(c);
}

void admission::finish(check& c, error e) {
  c.ec = e;
  finish(c);
}

void admission::fail_sent(check_list& list, error reason, time now) {
  while (!list.empty()) {
    breaker_.failed(now, now);
    finish(list.front(), reason);
  }
}

/// Ends a check whose deadline has passed.
void admission::end_late(check& c) {
  const in_flight& flight = c.flight;
  if (flight.stage != check_stage::waiting) {
    c.ec = error::no_reply;
  } else if (!c.ec) {  // else: why it came back
    // A short wait tells nothing of the attempt that is under way.
    const bool has_waited = 2 * timeout_of(c, timeout_) >= timeout_;
    const error attempt = step_ != error{} && has_waited ? step_ : error::timed_out;
    c.ec = suspicion_ != error{} ? suspicion_ : attempt;
  }
  // Without memory, nothing gives the reservation back; but the check ends.
  if (c.traits.waits && flight.stage != check_stage::waiting) leave_stand_in(c);
  finish(c);
}

void admission::expire_checks(time now, bool is_quiet, time::duration late) {
  wheel_.expire(now, [=, this](check& c) {
    if (put_off(c, now, late, timeout_)) return wheel_.add(c);
    const time since = c.flight.deadline - timeout_of(c, timeout_);
    if (shows_failure(c, since, is_quiet)) breaker_.failed(since, now);
    end_late(c);
  });
}

/// True if the expiry of a check that came at `since` shows that the store has failed. A store that
/// has answered other checks since then is only slow, and an unsent check on an idle connection was
/// never asked of the store.
bool admission::shows_failure(const check& c, time since, bool is_quiet) const noexcept {
  const bool was_never_asked = connected_ && is_quiet && c.flight.stage == check_stage::waiting;
  return !was_never_asked && last_answer_ < since;
}

void admission::begin_connection() noexcept {
  connected_ = true;
  suspicion_ = step_ = {};
  if (!closed_) refusal_ = {};
  breaker_.reconnected();
}

bool admission::begin_close() noexcept {
  if (std::exchange(closed_, true)) return false;
  refusal_ = error::store_closed;
  return true;
}

void admission::close_unsent(check_list& list) {
  finish_if(list, error::store_closed, [](const check& c) { return !c.traits.gives_back; });
}

void admission::close_sent(check_list& list) {
  finish_if(list, error::outcome_unknown,
            [](const check& c) { return !c.traits.gives_back && !c.traits.waits; });
}

/// Gives the place of a sent acquire to a detached check. False without memory.
bool admission::leave_stand_in(check& c) noexcept {
  in_flight& flight = c.flight;
  check* made = nullptr;
  try {
    made = &stand_in_for(c);
  } catch (const std::bad_alloc&) {
    return false;
  }
  in_flight& its = made->flight;
  its.is_stand_in = flight.left_stand_in = true;
  its.stage = flight.stage;
  its.position = flight.position;
  its.resends = flight.resends;
  its.sent = flight.sent;
  // The answer is there if it only waits for memcached to store it.
  made->answer = c.answer;
  if (const further_receipt* const taken = c.further_taken()) *made->further_taken() = *taken;
  as<acquire_request>(*made).found = std::move(as<acquire_request>(c).found);
  c.line.swap_nodes(made->line);
  pending_ += weight_of(*made);
  return true;
}

}  // namespace weir::detail

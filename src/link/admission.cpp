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
  if (stage == check_stage::done) return;
  if (stage != check_stage::waiting) {
    if (scope == cancel_scope::only_unsent) return;
    // The store may make a reservation for a sent acquire. Its queue waits for the answer, without
    // a deadline, and gives the reservation back.
    if (c.traits.waits) {
      c.flight.is_detached = true;
      return deadline_wheel::remove(c);
    }
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
  if (c.traits.waits && flight.stage != check_stage::waiting) {
    try {
      put_in_place_of(c, stand_in_for(c));
    } catch (const std::bad_alloc&) {
      // Nothing gives the reservation back. The checks that expire with this one still end.
    }
  }
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

// ---- callers of acquire() that leave while the store may make a reservation for them

bool admission::replace(check& c, check& successor) {
  const check_stage stage = c.flight.stage;
  if (stage == check_stage::done || stage == check_stage::idle) return false;
  if (stage != check_stage::waiting) put_in_place_of(c, successor);
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
  return stage != check_stage::waiting;
}

/// Gives the place of a sent acquire to `other`, which is detached.
void admission::put_in_place_of(check& c, check& other) noexcept {
  const in_flight& flight = c.flight;
  other.flight.is_stand_in = true;
  other.flight.stage = flight.stage;
  other.flight.position = flight.position;
  other.flight.resends = flight.resends;
  // The answer is there if it only waits for memcached to store it.
  other.answer = c.answer;
  as<acquire_request>(other).found = std::move(as<acquire_request>(c).found);
  c.line.swap_nodes(other.line);
  pending_ += weight_of(other);
}

}  // namespace weir::detail

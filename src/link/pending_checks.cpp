#include "link/pending_checks.hpp"

#include <boost/asio/error.hpp>
#include <new>
#include <utility>

#include "check/give_back.hpp"

namespace weir::detail {

error pending_checks::why_not_wait(const check& c, time now) noexcept {
  if (!may_end_at_once(c)) return {};
  // If the server has become a replica, a new connection comes soon.
  const bool is_away = !connected_ && suspicion_ != error{} && suspicion_ != error::read_only;
  if (is_away) return suspicion_;
  if (breaker_.lets_through(now)) return {};
  return step_ != error{} ? step_ : error::circuit_open;
}

void pending_checks::cancel(check& c, cancel_scope scope) {
  const check_stage stage = flight_of(c).stage;
  if (stage == check_stage::done) return;
  if (stage != check_stage::waiting) {
    if (scope == cancel_scope::only_unsent) return;
    if (c.traits.waits) return detach(c);
  }
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
}

void pending_checks::unsend(check& c) {
  flight_of(c).stage = check_stage::waiting;
  if (flight_of(c).is_detached && c.traits.waits) {
    c.ec = boost::asio::error::operation_aborted;  // nobody waits, and nothing was reserved
    finish(c);
  } else if (closed_ && !c.traits.gives_back) {
    finish(c, error::store_closed);
  }
}

void pending_checks::finish(check& c) {
  release(c);
  flight_of(c).stage = check_stage::done;
  if (c.ec) c.answer = {};
  done_.push_back(c);
}

void pending_checks::finish(check& c, error e) {
  c.ec = e;
  finish(c);
}

void pending_checks::fail_sent(check_list& list, error reason, time now) {
  while (!list.empty()) {
    breaker_.failed(now, now);
    finish(list.front(), reason);
  }
}

/// Ends a check whose deadline has passed.
void pending_checks::end_late(check& c) {
  const in_flight& flight = flight_of(c);
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

void pending_checks::expire_checks(time now, bool is_quiet, time::duration late) {
  wheel_.expire(now, [=, this](check& c) {
    if (put_off(c, now, late, timeout_)) return wheel_.add(c);
    const time since = flight_of(c).deadline - timeout_of(c, timeout_);
    if (shows_failure(c, since, is_quiet)) breaker_.failed(since, now);
    end_late(c);
  });
}

/// True if the expiry of a check that came at `since` shows that the store has failed. A store that
/// has answered other checks since then is only slow, and an unsent check on an idle connection was
/// never asked of the store.
bool pending_checks::shows_failure(const check& c, time since, bool is_quiet) const noexcept {
  const bool was_never_asked = connected_ && is_quiet && flight_of(c).stage == check_stage::waiting;
  return !was_never_asked && last_answer_ < since;
}

void pending_checks::begin_connection() noexcept {
  connected_ = true;
  suspicion_ = step_ = {};
  if (!closed_) refusal_ = {};
  breaker_.reconnected();
}

bool pending_checks::begin_close() noexcept {
  if (std::exchange(closed_, true)) return false;
  refusal_ = error::store_closed;
  return true;
}

void pending_checks::close_unsent(check_list& list) {
  finish_if(list, error::store_closed, [](const check& c) { return !c.traits.gives_back; });
}

void pending_checks::close_sent(check_list& list) {
  finish_if(list, error::outcome_unknown,
            [](const check& c) { return !c.traits.gives_back && !c.traits.waits; });
}

}  // namespace weir::detail

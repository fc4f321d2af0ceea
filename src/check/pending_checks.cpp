#include "check/pending_checks.hpp"

#include <boost/asio/error.hpp>
#include <new>
#include <utility>

#include "check/detached_check.hpp"

namespace weir::detail {

void pending_checks::cancel(check& c, cancel_scope scope) {
  const check_stage stage = flight_of(c).stage;
  if (stage == check_stage::done) return;
  if (stage != check_stage::waiting) {
    if (scope == cancel_scope::only_unsent) return;
    if (c.kind == check_kind::acquire) return detach(c);
  }
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
}

bool pending_checks::replace(check& c, check& successor) {
  const check_stage stage = flight_of(c).stage;
  if (stage == check_stage::done || stage == check_stage::idle) return false;
  if (stage != check_stage::waiting) put_in_place_of(c, successor);
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
  return stage != check_stage::waiting;
}

/// The store may reserve something for a sent acquire. Its queue waits for the answer, without a
/// deadline, and gives that back. It waits for no replicas.
void pending_checks::detach(check& c) {
  flight_of(c).is_detached = true;
  deadline_wheel::remove(c);
  if (flight_of(c).stage == check_stage::counted) finish(c);
}

void pending_checks::unsend(check& c) {
  flight_of(c).stage = check_stage::waiting;
  if (is_given_up(c)) {
    c.ec = boost::asio::error::operation_aborted;  // nothing was reserved
    finish(c);
  } else if (closed_ && !gives_back(c)) {
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
    if (!is_overlooked(list.front())) breaker_.failed(now, now);
    finish(list.front(), reason);
  }
}

/// Gives the place of a sent acquire to another one, which is detached.
void pending_checks::put_in_place_of(check& c, check& other) noexcept {
  const in_flight& flight = flight_of(c);
  flight_of(other).is_stand_in = true;
  flight_of(other).stage = flight.stage;
  flight_of(other).position = flight.position;
  flight_of(other).resends = flight.resends;
  // There already if it waits for the server to store it, or for replicas.
  other.answer = c.answer;
  as<acquire_request>(other).found = std::move(as<acquire_request>(c).found);
  flight_of(c).line.swap_nodes(flight_of(other).line);
  pending_ += weight_of(other);
  if (flight.stage == check_stage::counted) finish(other);
}

/// Ends a check whose deadline has passed.
void pending_checks::end_late(check& c) {
  const in_flight& flight = flight_of(c);
  if (flight.stage == check_stage::counted) {
    c.ec = error::not_replicated;
  } else if (flight.stage != check_stage::waiting) {
    c.ec = error::no_reply;
  } else if (!c.ec) {  // else: why it came back
    c.ec = suspicion_ != error{} ? suspicion_ : error::timed_out;
  }
  if (c.kind == check_kind::acquire && flight.stage != check_stage::waiting) {
    try {
      put_in_place_of(c, stand_in_for(c));
    } catch (const std::bad_alloc&) {
      // Nothing gives the reservation back. The checks that expire with this one still end.
    }
  }
  finish(c);
}

void pending_checks::expire_checks(time now, bool is_quiet) {
  wheel_.expire(now, [this, now, is_quiet](check& c) {
    const time since = flight_of(c).deadline - timeout_of(c, timeout_);
    if (shows_failure(c, since, is_quiet)) breaker_.failed(since, now);
    end_late(c);
  });
}

/// True if the expiry of a check that came at `since` shows that the store has failed. A store that
/// has answered other checks since then is slow; and a check may expire before an idle connection
/// could take it.
bool pending_checks::shows_failure(const check& c, time since, bool is_quiet) const noexcept {
  if (is_overlooked(c)) return false;
  const bool was_never_asked = flight_of(c).stage == check_stage::waiting && is_quiet;
  return !connected_ || (!was_never_asked && last_answer_ < since);
}

void pending_checks::begin_connection() noexcept {
  connected_ = true;
  suspicion_ = {};
  if (!closed_) refusal_ = {};
  breaker_.succeeded();
}

bool pending_checks::begin_close() noexcept {
  if (std::exchange(closed_, true)) return false;
  refusal_ = error::store_closed;
  return true;
}

void pending_checks::close_unsent(check_list& list) {
  finish_if(list, error::store_closed, [](const check& c) { return !gives_back(c); });
}

void pending_checks::close_sent(check_list& list) {
  finish_if(list, error::outcome_unknown,
            [](const check& c) { return !gives_back(c) && c.kind != check_kind::acquire; });
}

}  // namespace weir::detail

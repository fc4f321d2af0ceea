#include "waiting/sleepers.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>

#include "check/check_list.hpp"
#include "check/delivery_batch.hpp"
#include "check/limiter_spec.hpp"

namespace weir::waiting {

namespace asio = boost::asio;
using detail::acquire_request;
using detail::cancel_scope;
using detail::check;
using detail::check_list;
using detail::delivery_batch;
using detail::limiter_spec;
using detail::returned_reservation;
using detail::term;

bool sleepers::add(check& c) {
  const std::lock_guard lock(mutex_);
  if (closed_ && !flight_of(c).left_early) {
    if (c.answer.source == source::fallback) {
      c.ec = error::store_closed;
      return false;
    }
    added_after_close_.push_back({&c, &c});
    return true;
  }
  if (flight_of(c).left_early || sleepers_.size() >= max_sleepers_) {
    return_reservation(c, flight_of(c).left_early ? error_code(asio::error::operation_aborted)
                                                  : error::overloaded);
    return false;
  }
  flight_of(c).deadline = std::chrono::steady_clock::now() + c.answer.delay;
  detail::as<acquire_request>(c)
      .max_wait -= c.answer.delay;  // left for cool-downs at the reserved time
  agenda_.put(sleepers_.try_emplace(&c, c).first->second, flight_of(c).deadline);
  arm();
  return true;
}

void sleepers::cancel(check& c, cancel_scope scope) {
  if (scope == cancel_scope::only_unsent) return;  // its reservation is booked
  const std::lock_guard lock(mutex_);
  if (sleepers_.erase(&c) == 0) {
    flight_of(c).left_early = true;
    return;
  }
  arm();
  return_reservation(c, asio::error::operation_aborted);
  check_list done;
  done.push_back(c);
  delivery_batch::post(executor_, std::move(done));
}

check& sleepers::remove(sleeper& s) {
  check& c = s.caller;
  sleepers_.erase(&c);
  return c;
}

void sleepers::return_reservation(check& c, error_code why) {
  c.ec = why;
  if (c.answer.source == source::fallback) return;  // the fallback has no give-back
  const check* const booked[] = {&c};
  returns_.add(executor_, booked);
  c.answer.receipt = {};  // the whole reservation goes back: nothing is left to settle
}

/// Called when the reservation is due. True if a known cool-down postpones the check to its end. If
/// that end is beyond max_wait, the check is refused and its reservation given back.
bool sleepers::postpone(check& c, time now) {
  time until{};
  const auto look = [&](const limiter_spec& l, std::string_view subject) {
    if (l.has_cool_down) until = std::max(until, l.cool_down_until(subject));
  };
  look(*c.limiter, c.subject.view());
  for (const term& t : c.further()) look(*t.limiter, t.subject.view());
  if (until <= now) return false;
  const auto longer = std::chrono::ceil<std::chrono::microseconds>(until - flight_of(c).deadline);
  std::chrono::microseconds& left = detail::as<acquire_request>(c).max_wait;
  if (longer <= left) {
    flight_of(c).deadline = until;
    left -= longer;
    return true;
  }
  return_reservation(c, {});
  decision& d = c.answer;
  d.decided_at += d.delay;
  d.allowed = false;
  d.cooling_down = true;
  d.remaining = 0;
  d.delay = d.reset_after = {};
  d.retry_after = std::chrono::ceil<std::chrono::microseconds>(until - now);
  return false;
}

void sleepers::arm() {
  alarm_.start(executor_);
  alarm_.set(agenda_.next(), [self = shared_from_this()] { self->on_timer(); });
}

void sleepers::on_timer() {
  check_list due;
  {
    const std::lock_guard lock(mutex_);
    alarm_.rang();
    const time now = std::chrono::steady_clock::now();
    while (sleeper* s = agenda_.first_due(now)) {
      if (postpone(s->caller, now)) {
        agenda_.put(*s, flight_of(s->caller).deadline);
      } else {
        due.push_back(remove(*s));
      }
    }
    arm();
  }
  delivery_batch::post(executor_, std::move(due));
}

void sleepers::close() {
  returns_.send();
  std::vector<returned_reservation> reservations;
  check_list told;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    alarm_.stop();
    while (sleeper* s = agenda_.first_due(time::max())) {
      check& c = remove(*s);
      if (c.answer.source == source::fallback) {
        c.ec = error::store_closed;
        told.push_back(c);
      } else {
        reservations.push_back({&c, &c});
      }
    }
  }
  delivery_batch::post(executor_, std::move(told));
  give_back_and_tell(std::move(reservations));
}

void sleepers::give_back() {
  std::vector<returned_reservation> reservations;
  {
    const std::lock_guard lock(mutex_);
    reservations.swap(added_after_close_);
  }
  give_back_and_tell(std::move(reservations));
}

void sleepers::context_shut_down() noexcept {
  check_list dropped;
  {
    const std::lock_guard lock(mutex_);
    while (sleeper* s = agenda_.first_due(time::max())) dropped.push_back(remove(*s));
    for (const returned_reservation& t : added_after_close_) dropped.push_back(*t.caller);
    added_after_close_.clear();
    alarm_.stop();
    executor_ = {};
  }
  discard(std::move(dropped));
}

}  // namespace weir::waiting

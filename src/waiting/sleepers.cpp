#include "waiting/sleepers.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <functional>

#include "check/check_list.hpp"
#include "check/delivery_batch.hpp"
#include "check/jitter.hpp"
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

namespace {

using std::chrono::microseconds;

/// Calls f(limiter, subject) for each limiter of the check that has cool-downs.
template <class F>
void for_each_cooled(const check& c, F&& f) {
  if (c.limiter->has_cool_down) f(*c.limiter, c.subject.view());
  for (const term& t : c.further()) {
    if (t.limiter->has_cool_down) f(*t.limiter, t.subject.view());
  }
}

std::size_t hash_of(std::string_view subject) noexcept {
  return std::hash<std::string_view>{}(subject);
}

}  // namespace

sleepers::sleeper::sleeper(check& c, time now) noexcept
    : caller(c),
      reserved(now + c.answer.delay),
      latest(now + detail::as<acquire_request>(c).max_wait) {}

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
  sleeper& s = sleepers_.try_emplace(&c, c, std::chrono::steady_clock::now()).first->second;
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.insert({{&limiter, hash_of(subject)}, &s});
  });
  agenda_.put(s, s.reserved);
  arm();
  return true;
}

void sleepers::cancel(check& c, cancel_scope scope) {
  if (scope == cancel_scope::only_unsent) return;  // its reservation is booked
  const std::lock_guard lock(mutex_);
  const auto found = sleepers_.find(&c);
  if (found == sleepers_.end()) {
    flight_of(c).left_early = true;
    return;
  }
  remove(found->second);
  arm();
  return_reservation(c, asio::error::operation_aborted);
  check_list done;
  done.push_back(c);
  delivery_batch::post(executor_, std::move(done));
}

check& sleepers::remove(sleeper& s) {
  check& c = s.caller;
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.erase({{&limiter, hash_of(subject)}, &s});
  });
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

/// Postpones the check to the end of a known cool-down in which its reservation lies. False if that
/// end is beyond max_wait: the check is then refused and its reservation given back.
bool sleepers::obey_cool_downs(sleeper& s, time now) {
  time until{};
  for_each_cooled(s.caller, [&](const limiter_spec& limiter, std::string_view subject) {
    until = std::max(until, limiter.cool_down_until(subject));
  });
  if (until <= now || until <= s.due) return true;
  if (until > s.latest) {
    refuse(s, now, until);
    return false;
  }
  agenda_.put(s, until);
  return true;
}

void sleepers::refuse(sleeper& s, time now, time until) {
  check& c = s.caller;
  return_reservation(c, {});
  decision& d = c.answer;
  d.decided_at += d.delay - std::chrono::floor<microseconds>(s.reserved - now);
  d.allowed = false;
  d.cooling_down = true;
  d.remaining = 0;
  d.delay = d.reset_after = {};
  const auto pause = std::chrono::ceil<microseconds>(until - now);
  d.retry_after = std::max(microseconds{1}, pause - detail::as<acquire_request>(c).max_wait);
  d.retry_after += detail::jitter(d.retry_after);
}

void sleepers::cool_down_began(const limiter_spec& limiter, std::string_view subject) {
  check_list refused;
  {
    const std::lock_guard lock(mutex_);
    const time now = std::chrono::steady_clock::now();
    const cooled key{&limiter, hash_of(subject)};
    std::vector<sleeper*> concerned;  // apart, because remove() erases from the set
    for (auto it = by_cooled_.lower_bound({key, nullptr}); it != by_cooled_.end(); ++it) {
      if (it->first != key) break;
      concerned.push_back(it->second);
    }
    for (sleeper* s : concerned) {
      if (!obey_cool_downs(*s, now)) refused.push_back(remove(*s));
    }
    if (!refused.empty()) arm();
  }
  delivery_batch::post(executor_, std::move(refused));
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
      if (!obey_cool_downs(*s, now) || s->due <= now) due.push_back(remove(*s));
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

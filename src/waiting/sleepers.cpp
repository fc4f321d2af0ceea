#include "waiting/sleepers.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <functional>

#include "check/delivery_batch.hpp"
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"
#include "waiting/max_wait.hpp"

namespace weir::waiting {

namespace asio = boost::asio;
using detail::acquire_request;
using detail::cancel_scope;
using detail::check;
using detail::check_list;
using detail::delivery;
using detail::delivery_batch;
using detail::for_each_limiter;
using detail::limiter_spec;
using detail::returned_reservation;
using detail::term;

namespace {

using std::chrono::microseconds;

/// Calls f(limiter, subject) for each limiter of the check that has cool-downs.
template <class F>
void for_each_cooled(const check& c, F&& f) {
  for_each_limiter(c, [&](const limiter_spec& limiter, std::string_view subject) {
    if (limiter.has_cool_down) f(limiter, subject);
  });
}

std::size_t hash_of(std::string_view subject) noexcept {
  return std::hash<std::string_view>{}(subject);
}

/// The end of the last cool-down that is known of the check's limiters; zero: none.
check::steady_time cool_down_of(const check& c) {
  check::steady_time until{};
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    until = std::max(until, limiter.cool_down_until(subject));
  });
  return until;
}

bool from_fallback(const check& c) noexcept { return c.answer.source == source::fallback; }

}  // namespace

/// The request for a new reservation in place of one that a cool-down covers. The mutex of the
/// sleepers guards its members.
class sleepers::replacement final : public detail::joint_check_of<acquire_request> {
 public:
  replacement(std::shared_ptr<sleepers> maker, sleeper& s, microseconds max_wait)
      : joint_check_of(
            std::shared_ptr(s.caller.limiter),
            {{.subject = s.caller.subject,
              .timeout = s.caller.timeout,
              .asked = {.cost = detail::as<acquire_request>(s.caller).cost, .max_wait = max_wait}},
             {s.caller.further().begin(), s.caller.further().end()}}),
        owner(&s),
        maker_(std::move(maker)) {
    flight_of(*this).is_internal = true;
    flight_of(*this).replaces = true;
  }

  void finish(delivery how) override {
    const std::shared_ptr<replacement> last = std::move(self);
    if (how == delivery::discard) return maker_->dropped(*this);
    maker_->replaced(*this);
  }

  sleeper* owner;                     // null: its caller has left
  std::shared_ptr<replacement> self;  // keeps it alive while the store has it

 private:
  const std::shared_ptr<sleepers> maker_;
};

sleepers::sleeper::sleeper(check& c, std::uint64_t number, time now) noexcept
    : caller(c), arrival(number), latest(now + detail::as<acquire_request>(c).max_wait) {
  reserve(now, detail::as<acquire_request>(c));
}

bool sleepers::sleeper::goes_before(const sleeper& other) const noexcept {
  return reserved != other.reserved ? reserved < other.reserved : arrival < other.arrival;
}

void sleepers::sleeper::reserve(time now, const acquire_request& asked) noexcept {
  reserved = now + caller.answer.delay;
  if (asked.cool_down_left.count() > 0)
    known_cool_down = std::max(known_cool_down, now + asked.cool_down_left);
}

bool sleepers::add(check& c) {
  const std::lock_guard lock(mutex_);
  if (closed_ && !flight_of(c).left_early) {
    if (from_fallback(c)) {
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
  const time now = std::chrono::steady_clock::now();
  sleeper& s = sleepers_.try_emplace(&c, c, ++arrivals_, now).first->second;
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.insert({{&limiter, hash_of(subject)}, &s});
  });
  agenda_.put(s, s.reserved);
  results out;
  obey_cool_downs(s, now, out);  // one may have begun since the store's answer
  send(out);
  return true;
}

void sleepers::cancel(check& c, cancel_scope scope) {
  if (scope == cancel_scope::only_unsent) return;  // it has its reservation
  const std::lock_guard lock(mutex_);
  const auto found = sleepers_.find(&c);
  if (found == sleepers_.end()) {
    flight_of(c).left_early = true;
    return;
  }
  const bool is_replacing = found->second.replacing != nullptr;
  remove(found->second);
  arm();
  if (is_replacing) {
    c.ec = asio::error::operation_aborted;  // a new reservation goes back when it comes
  } else {
    return_reservation(c, asio::error::operation_aborted);
  }
  check_list done;
  done.push_back(c);
  delivery_batch::post(executor_, std::move(done));
}

check& sleepers::remove(sleeper& s) {
  check& c = s.caller;
  if (s.replacing != nullptr) s.replacing->owner = nullptr;
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.erase({{&limiter, hash_of(subject)}, &s});
  });
  sleepers_.erase(&c);
  return c;
}

void sleepers::return_reservation(check& c, error_code why) {
  c.ec = why;
  if (from_fallback(c)) return;  // the fallback has no give-back
  const check* const one[] = {&c};
  returns_.add(executor_, one);
  c.answer.receipt = {};  // the whole reservation goes back: nothing is left to settle
}

/// For a check whose reservation lies in a known cool-down. If all such checks went at its end,
/// more would pass there than the policies allow. So each gets another reservation. One that was
/// requested with the cool-down known, or made by the fallback, is only postponed to the end. True
/// if the reservation stays as it is.
bool sleepers::obey_cool_downs(sleeper& s, time now, results& out) {
  const time until = cool_down_of(s.caller);
  if (until <= now || until <= s.due) return true;
  if (until > s.latest) {
    refuse(s, now, until);
    out.done.push_back(remove(s));
  } else if (s.known_cool_down + same_end < until && !from_fallback(s.caller)) {
    replace(s, now, out);
  } else {
    agenda_.put(s, until);
  }
  return false;
}

void sleepers::refuse(sleeper& s, time now, time until) {
  check& c = s.caller;
  return_reservation(c, {});
  decision& d = c.answer;
  d.decided_at += d.delay - std::chrono::floor<microseconds>(s.reserved - now);
  refuse_in_cool_down(d, std::chrono::ceil<microseconds>(until - now),
                      detail::as<acquire_request>(c).max_wait);
}

void sleepers::replace(sleeper& s, time now, results& out) {
  const auto whole = detail::as<acquire_request>(s.caller).max_wait;
  auto made = std::make_shared<replacement>(shared_from_this(), s,
                                            max_wait_left(whole, s.latest, now));
  s.replacing = made.get();
  s.known_cool_down = cool_down_of(s.caller);
  agenda_.put(s, time::max());
  out.replacements.push_back(std::move(made));
  ++replacements_;
}

/// Gives the reservations back that are to be replaced, then requests the new ones: otherwise the
/// store would place those behind the old ones. Delivers what is done.
void sleepers::send(results& out) {
  if (!out.replacements.empty()) {
    std::vector<const check*> covered;
    for (const auto& r : out.replacements) covered.push_back(&r->owner->caller);
    returns_.add(executor_, covered, [self = shared_from_this(), replacements = out.replacements] {
      self->start(replacements);
    });
    // Nothing is left to settle for a caller that leaves meanwhile.
    for (const auto& r : out.replacements) r->owner->caller.answer.receipt = {};
  }
  arm();
  delivery_batch::post(executor_, std::move(out.done));
}

void sleepers::start(const std::vector<std::shared_ptr<replacement>>& replacements) {
  std::vector<check*> wanted;
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& r : replacements) {
      if (r->owner == nullptr) {
        let_go = count_off_replacement();
      } else {
        r->self = r;
        wanted.push_back(r.get());
      }
    }
  }
  if (wanted.empty()) return;
  const auto store = replacements.front()->limiter->store;
  store->start_all(wanted);
}

/// The result is the caller's to release, outside the mutex.
std::shared_ptr<void> sleepers::count_off_replacement() {
  return --replacements_ == 0 ? std::move(keep_alive_) : nullptr;
}

void sleepers::replaced(replacement& r) {
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    results out;
    take_answer(r, std::chrono::steady_clock::now(), out);
    send(out);
    if (!closed_) {
      count_off_replacement();
      return;
    }
  }
  give_back();
  {
    const std::lock_guard lock(mutex_);
    let_go = count_off_replacement();
  }
  // Another thread may be sending the batch. A closing store stays until all of it is sent.
  returns_.close([] {}, let_go);
}

/// Called when the context is being destroyed, before context_shut_down() or after it.
void sleepers::dropped(replacement& r) noexcept {
  const std::lock_guard lock(mutex_);
  if (r.owner != nullptr) r.owner->replacing = nullptr;
}

void sleepers::take_answer(replacement& r, time now, results& out) {
  const bool is_reserved = !r.ec && r.answer.allowed;
  if (r.owner == nullptr) {
    if (is_reserved) return_reservation(r, {});
    return;
  }
  sleeper& s = *r.owner;
  check& c = s.caller;
  s.replacing = nullptr;
  c.ec = r.ec;
  c.answer = r.answer;
  if (!is_reserved) {
    if (!c.ec) {
      c.answer = with_whole_max_wait(c.answer, detail::as<acquire_request>(c), r.asked);
    }
    out.done.push_back(remove(s));
    return;
  }
  detail::as<acquire_request>(c).found = std::move(r.asked.found);
  s.reserve(now, r.asked);
  if (closed_ && from_fallback(c)) {
    c.ec = error::store_closed;
    out.done.push_back(remove(s));
  } else if (closed_) {
    remove(s);
    added_after_close_.push_back({&c, &c});
  } else {
    agenda_.put(s, s.reserved);
    obey_cool_downs(s, now, out);
  }
}

void sleepers::cool_down_began(const limiter_spec& limiter, std::string_view subject) {
  const std::lock_guard lock(mutex_);
  const cooled key{&limiter, hash_of(subject)};
  std::vector<sleeper*> concerned;  // apart, because remove() erases from the set
  for (auto it = by_cooled_.lower_bound({key, nullptr}); it != by_cooled_.end(); ++it) {
    if (it->first != key) break;
    if (it->second->replacing == nullptr) concerned.push_back(it->second);
  }
  // In the order of their reservations. The new ones keep it, because those behind a replaced one
  // are replaced, too.
  std::sort(concerned.begin(), concerned.end(),
            [](const sleeper* a, const sleeper* b) { return a->goes_before(*b); });
  const time now = std::chrono::steady_clock::now();
  results out;
  for (sleeper* s : concerned) {
    const bool stays = obey_cool_downs(*s, now, out);
    if (stays && !out.replacements.empty() && !from_fallback(s->caller)) replace(*s, now, out);
  }
  send(out);
}

void sleepers::arm() {
  alarm_.start(executor_);
  alarm_.set(agenda_.next(), [self = shared_from_this()] { self->on_timer(); });
}

void sleepers::on_timer() {
  const std::lock_guard lock(mutex_);
  alarm_.rang();
  const time now = std::chrono::steady_clock::now();
  results out;
  while (sleeper* s = agenda_.first_due(now)) {
    if (obey_cool_downs(*s, now, out)) out.done.push_back(remove(*s));
  }
  send(out);
}

void sleepers::close(const std::shared_ptr<void>& keep_alive) {
  std::vector<returned_reservation> reservations;
  check_list told;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    alarm_.stop();
    if (replacements_ > 0) keep_alive_ = keep_alive;
    while (sleeper* s = agenda_.first_due(time::max())) {
      check& c = remove(*s);
      if (from_fallback(c)) {
        c.ec = error::store_closed;
        told.push_back(c);
      } else {
        reservations.push_back({&c, &c});
      }
    }
  }
  delivery_batch::post(executor_, std::move(told));
  returns_.close([reservations] { give_back_and_tell(reservations); }, keep_alive);
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
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    while (!sleepers_.empty()) dropped.push_back(remove(sleepers_.begin()->second));
    let_go = std::move(keep_alive_);
    for (const returned_reservation& t : added_after_close_) dropped.push_back(*t.caller);
    added_after_close_.clear();
    alarm_.stop();
    executor_ = {};
  }
  discard(std::move(dropped));
}

}  // namespace weir::waiting

#include "waiting/sleepers.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "check/delivery_batch.hpp"
#include "check/detached_check.hpp"
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

std::size_t tag_of(const check& c) {
  std::string key;
  c.limiter->append_key(key, c.subject.view(), 0);
  return hash_of(detail::hash_tag(key));
}

bool from_fallback(const check& c) noexcept { return c.answer.source == source::fallback; }

}  // namespace

/// A request to the store for a reservation. The mutex of the sleepers guards its members.
class sleepers::request final : public detail::joint_check_of<acquire_request> {
 public:
  request(std::shared_ptr<sleepers> maker, sleeper& s, microseconds max_wait)
      : joint_check_of(
            std::shared_ptr(s.caller.limiter),
            {{.subject = s.caller.subject,
              .timeout = s.caller.timeout,
              .asked = {.cost = detail::as<acquire_request>(s.caller).cost, .max_wait = max_wait}},
             {s.caller.further().begin(), s.caller.further().end()}}),
        owner(&s),
        stands_in(s.stands_in),
        maker_(std::move(maker)) {
    flight_of(*this).is_internal = true;
  }

  void finish(delivery how) override {
    const request_ptr last = std::move(self);
    if (how == delivery::discard) return maker_->dropped(*this);
    maker_->answered(*this);
  }

  sleeper* owner;  // null: its caller has left
  line& stands_in;
  bool is_first = true;     // no reservation of its caller went back
  bool is_started = false;  // the store knows it
  std::optional<cancel_scope> cancelled;
  request_ptr self;  // keeps it alive while the store has it

 private:
  const std::shared_ptr<sleepers> maker_;
};

bool sleepers::sleeper::goes_before(const sleeper& other) const noexcept {
  return reserved != other.reserved ? reserved < other.reserved : arrival < other.arrival;
}

void sleepers::sleeper::reserve(time now, const acquire_request& asked) noexcept {
  reserved = now + caller.answer.delay;
  if (asked.cool_down_left.count() > 0)
    known_cool_down = std::max(known_cool_down, now + asked.cool_down_left);
}

// ---- callers and the store, on any thread

void sleepers::arrive(check& c) {
  results out;
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    is_late = !executor_;
    if (!is_late) {
      if (closed_ || sleepers_.size() >= max_sleepers_) {
        c.ec = closed_ ? error::store_closed : error::overloaded;
        out.done.push_back(c);
      } else {
        sleeper& s = add(c);
        make_request(s, detail::as<acquire_request>(c).max_wait, out);
      }
      conclude(out);
    }
  }
  if (is_late) return c.finish(delivery::discard);
  if (out.starts.empty()) return;
  // Behind what another thread may be giving back.
  returns_.send_before(
      [self = shared_from_this(), starts = std::move(out.starts)] { self->start(starts); });
}

void sleepers::cancel(check& c, cancel_scope scope) {
  request_ptr pending;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sleepers_.find(&c);
    if (found == sleepers_.end()) return;  // the result is on its way to the caller
    pending = found->second.pending;
    if (scope == cancel_scope::only_unsent) {
      if (pending == nullptr || !pending->is_first) return;  // it got a reservation
    } else {
      results out;
      if (pending == nullptr) give_back(c, found->second.stands_in);
      out.done.push_back(remove(found->second, out));
      c.ec = asio::error::operation_aborted;
      c.answer = {};
      conclude(out);
    }
    if (pending == nullptr) return;
    pending->cancelled = scope;
    if (!pending->is_started) return;  // start() cancels it
  }
  const auto store = pending->limiter->store;
  store->cancel(*pending, scope);
}

void sleepers::start(const std::vector<request_ptr>& requests) {
  std::vector<check*> wanted;
  {
    const std::lock_guard lock(mutex_);
    results out;
    for (const request_ptr& r : requests) {
      --r->stands_in.unstarted_requests;
      if (r->owner == nullptr) {
        count_off(*r, out);
      } else {
        r->self = r;
        wanted.push_back(r.get());
      }
    }
    conclude(out);
  }
  if (wanted.empty()) return;
  const auto store = requests.front()->limiter->store;
  store->start_all(wanted);
  std::vector<std::pair<request_ptr, cancel_scope>> cancelled;
  {
    const std::lock_guard lock(mutex_);
    for (const request_ptr& r : requests) {
      r->is_started = true;
      if (r->cancelled) cancelled.emplace_back(r, *r->cancelled);
    }
  }
  for (const auto& [r, scope] : cancelled) store->cancel(*r, scope);
}

void sleepers::answered(request& r) {
  const std::lock_guard lock(mutex_);
  results out;
  take_answer(r, std::chrono::steady_clock::now(), out);
  count_off(r, out);
  conclude(out);
}

/// Called when the context is being destroyed, before context_shut_down() or after it.
void sleepers::dropped(request& r) noexcept {
  const std::lock_guard lock(mutex_);
  if (r.owner != nullptr) r.owner->pending = nullptr;
}

void sleepers::cool_down_began(const limiter_spec& limiter, std::string_view subject) {
  const std::lock_guard lock(mutex_);
  const cooled key{&limiter, hash_of(subject)};
  std::vector<sleeper*> concerned;  // apart, because remove() erases from the set
  for (auto it = by_cooled_.lower_bound({key, nullptr}); it != by_cooled_.end(); ++it) {
    if (it->first != key) break;
    if (it->second->pending == nullptr) concerned.push_back(it->second);
  }
  // In the order of their reservations. The new ones keep it, because those behind a replaced one
  // are replaced, too.
  std::sort(concerned.begin(), concerned.end(),
            [](const sleeper* a, const sleeper* b) { return a->goes_before(*b); });
  const time now = std::chrono::steady_clock::now();
  results out;
  for (sleeper* s : concerned) {
    const bool stays = obey_cool_downs(*s, now, out);
    if (stays && !out.starts.empty() && !from_fallback(s->caller)) replace(*s, now, out);
  }
  conclude(out);
}

void sleepers::on_timer() {
  const std::lock_guard lock(mutex_);
  alarm_.rang();
  const time now = std::chrono::steady_clock::now();
  results out;
  while (sleeper* s = agenda_.first_due(now)) {
    if (obey_cool_downs(*s, now, out)) out.done.push_back(remove(*s, out));
  }
  conclude(out);
}

void sleepers::close(const std::shared_ptr<void>& keep_alive) {
  const std::lock_guard lock(mutex_);
  if (!executor_) return;
  closed_ = true;
  keep_alive_ = keep_alive;
  alarm_.stop();
  results out;
  for (auto& [tag, l] : lines_) out.lines.push_back(&l);
  conclude(out);
}

void sleepers::context_shut_down() noexcept {
  check_list dropped;
  std::vector<check*> give_backs;
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    results out;
    while (!sleepers_.empty()) dropped.push_back(remove(sleepers_.begin()->second, out));
    for (auto& [tag, l] : lines_) {
      give_backs.insert(give_backs.end(), l.give_backs.begin(), l.give_backs.end());
      l.give_backs.clear();
    }
    let_go = std::move(keep_alive_);
    alarm_.stop();
    executor_ = {};
  }
  discard(std::move(dropped));
  for (check* c : give_backs) c->finish(delivery::discard);
}

// ---- under the mutex

sleepers::sleeper& sleepers::add(check& c) {
  const std::size_t tag = tag_of(c);
  line& l = lines_.try_emplace(tag, tag).first->second;
  sleeper& s = sleepers_.try_emplace(&c, c, ++arrivals_, l).first->second;
  l.members.insert(&s);
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.insert({{&limiter, hash_of(subject)}, &s});
  });
  return s;
}

/// The result is to be finished.
check& sleepers::remove(sleeper& s, results& out) {
  check& c = s.caller;
  if (s.pending != nullptr) s.pending->owner = nullptr;
  for_each_cooled(c, [&](const limiter_spec& limiter, std::string_view subject) {
    by_cooled_.erase({{&limiter, hash_of(subject)}, &s});
  });
  s.stands_in.members.erase(&s);
  out.lines.push_back(&s.stands_in);
  sleepers_.erase(&c);
  return c;
}

void sleepers::make_request(sleeper& s, microseconds max_wait, results& out) {
  out.starts.push_back(std::make_shared<request>(shared_from_this(), s, max_wait));
  s.pending = out.starts.back();
  ++pending_requests_;
  ++s.stands_in.pending_requests;
  ++s.stands_in.unstarted_requests;
  out.lines.push_back(&s.stands_in);
}

void sleepers::count_off(request& r, results& out) {
  --pending_requests_;
  --r.stands_in.pending_requests;
  out.lines.push_back(&r.stands_in);
}

void sleepers::take_answer(request& r, time now, results& out) {
  const bool is_reserved = !r.ec && r.answer.allowed;
  if (r.owner == nullptr) {
    if (is_reserved) give_back(r, r.stands_in);
    return;
  }
  sleeper& s = *r.owner;
  check& c = s.caller;
  s.pending = nullptr;
  c.ec = r.ec;
  c.answer = r.answer;
  if (!is_reserved) {
    if (!c.ec) {
      c.answer = with_whole_max_wait(c.answer, detail::as<acquire_request>(c), r.asked);
    }
    out.done.push_back(remove(s, out));
    return;
  }
  detail::as<acquire_request>(c).found = std::move(r.asked.found);
  s.reserve(now, r.asked);
  if (r.is_first) {
    s.latest = now + r.asked.max_wait;
    if (r.answer.delay.count() == 0) {
      out.done.push_back(remove(s, out));
      return;
    }
  }
  agenda_.put(s, s.reserved);
  if (!closed_) obey_cool_downs(s, now, out);  // one may have begun since the store's answer
}

void sleepers::give_back(check& c, line& l) {
  if (from_fallback(c)) return;  // the fallback has no give-back
  l.give_backs.push_back(&detail::make_give_back(c));
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
    out.done.push_back(remove(s, out));
  } else if (s.known_cool_down + same_end < until && !from_fallback(s.caller)) {
    replace(s, now, out);
  } else {
    agenda_.put(s, until);
  }
  return false;
}

void sleepers::refuse(sleeper& s, time now, time until) {
  check& c = s.caller;
  give_back(c, s.stands_in);
  decision& d = c.answer;
  d.decided_at += d.delay - std::chrono::floor<microseconds>(s.reserved - now);
  refuse_in_cool_down(d, std::chrono::ceil<microseconds>(until - now),
                      detail::as<acquire_request>(c).max_wait);
}

void sleepers::replace(sleeper& s, time now, results& out) {
  give_back(s.caller, s.stands_in);
  make_request(s, max_wait_left(detail::as<acquire_request>(s.caller).max_wait, s.latest, now),
               out);
  s.pending->is_first = false;
  flight_of(*s.pending).replaces = true;
  s.known_cool_down = cool_down_of(s.caller);
  agenda_.put(s, time::max());
}

/// When the store closes and no answer is due: each caller is told when its reservation has gone
/// back.
void sleepers::end_all(line& l, results& out) {
  while (!l.members.empty()) {
    check& c = remove(**l.members.begin(), out);
    if (from_fallback(c)) {
      c.ec = error::store_closed;
      out.done.push_back(c);
    } else {
      l.give_backs.push_back(&detail::make_give_back(c, &c));
    }
  }
}

/// The end of each event. Gives the reservations of a line back: at once if a request is to be
/// started, which has to come after them, else when no answer is due: see reservation_queue.
void sleepers::conclude(results& out) {
  std::vector<check*> give_backs;
  std::set<line*> changed(out.lines.begin(), out.lines.end());
  for (line* const l : changed) {
    const bool is_quiet = l->pending_requests == 0;
    if (!is_quiet && l->unstarted_requests == 0) continue;
    if (closed_ && is_quiet) end_all(*l, out);
    give_backs.insert(give_backs.end(), l->give_backs.begin(), l->give_backs.end());
    l->give_backs.clear();
    if (is_quiet && l->members.empty()) lines_.erase(l->tag);
  }
  std::function<void()> then;
  if (closed_ && pending_requests_ == 0) {
    then = [keep = std::move(keep_alive_)] {};
  } else if (!give_backs.empty() && !out.starts.empty()) {
    then = [self = shared_from_this(), starts = std::exchange(out.starts, {})] {
      self->start(starts);
    };
  }
  if (!give_backs.empty() || then) returns_.add(executor_, std::move(give_backs), std::move(then));
  arm();
  for (check& c : out.done) flight_of(c).stage = detail::check_stage::done;
  delivery_batch::post(executor_, std::move(out.done));
}

void sleepers::arm() {
  alarm_.start(executor_);
  alarm_.set(agenda_.next(), [self = shared_from_this()] { self->on_timer(); });
}

}  // namespace weir::waiting

#include "waiting/sleepers.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <string>
#include <utility>

#include "check/delivery_batch.hpp"
#include "check/give_back.hpp"
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

namespace {

using std::chrono::microseconds;

std::size_t tag_of(const check& c) {
  std::string key;
  c.limiter->append_key(key, c.subject.view());
  return std::hash<std::string_view>{}(c.limiter->tag_of(key));
}

}  // namespace

/// A request to the store for a reservation. The mutex of the sleepers guards its members.
class sleepers::request final : public detail::joint_check_of<acquire_request> {
 public:
  request(std::shared_ptr<sleepers> maker, sleeper& s, microseconds max_wait, bool first)
      : joint_check_of(std::shared_ptr(s.caller.limiter), detail::acquire_like(s.caller, max_wait)),
        owner(&s),
        group(s.group),
        is_first(first),
        maker_(std::move(maker)) {
    timeout = s.caller.timeout;
    flight_of(*this).is_internal = true;
    flight_of(*this).replaces = !first;
  }

  void finish(delivery how) override {
    const request_ptr last = std::move(self);
    if (how == delivery::discard) return maker_->dropped(*this);
    maker_->answered(*this);
  }

  sleeper* owner;  // null: its caller has left
  tag_group& group;
  const bool is_first;      // no reservation of its caller went back
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
  // The reservation lies behind the cool-down, also if that lasts longer than is told.
  if (asked.cool_down_left.count() > 0)
    known_cool_down = std::max({known_cool_down, now + asked.cool_down_left, reserved});
}

// ---- callers and the store, on any thread

void sleepers::arrive(check& c) {
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    is_late = !executor_;
    if (!is_late) {
      results out;
      if (closed_ || sleepers_.size() >= max_sleepers_) {
        c.ec = closed_ ? error::store_closed : error::overloaded;
        out.done.push_back(c);
      } else {
        make_request(add(c), detail::as<acquire_request>(c).max_wait, true, out);
      }
      conclude(out);
    }
  }
  if (is_late) return c.finish(delivery::discard);
  submit();
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
      if (pending == nullptr) give_back(c, found->second.group);
      out.done.push_back(remove(found->second, out));
      c.ec = asio::error::operation_aborted;
      c.answer = {};
      conclude(out);
    }
    if (pending == nullptr) return;
    pending->cancelled = scope;
    if (!pending->is_started) return;  // submit() cancels it
  }
  const auto store = pending->limiter->store;
  store->cancel(*pending, scope);
}

/// Starts the collected requests in the store, behind what goes back. One thread at a time submits,
/// and for a bounded time: see acquire_queue::submit().
void sleepers::submit() {
  std::vector<request_ptr> batch;
  asio::any_io_executor goes_on;
  {
    const std::lock_guard lock(mutex_);
    if (is_submitting_ || unsent_returns_ > 0 || to_start_.empty()) return;
    results out;
    batch = take_to_start(out);
    conclude(out);
    is_submitting_ = !batch.empty();
  }
  for (int rounds = 0; !batch.empty(); ++rounds) {
    const auto store = batch.front()->limiter->store;
    try {
      std::vector<check*> checks;
      for (const request_ptr& r : batch) checks.push_back(r.get());
      for (const request_ptr& r : batch) r->self = r;
      store->start_all(checks);
    } catch (...) {  // out of memory: this thread submits no more
      const std::lock_guard lock(mutex_);
      is_submitting_ = false;
      throw;
    }
    std::vector<std::pair<request_ptr, cancel_scope>> cancelled;
    {
      const std::lock_guard lock(mutex_);
      is_submitting_ = false;  // until there is another batch; to make one may throw
      for (const request_ptr& r : batch) {
        r->is_started = true;
        if (r->cancelled) cancelled.emplace_back(r, *r->cancelled);
      }
      batch.clear();
      results out;
      if (rounds == most_rounds) {
        if (!to_start_.empty()) goes_on = executor_;
      } else if (unsent_returns_ == 0) {
        batch = take_to_start(out);
      }
      conclude(out);
      is_submitting_ = !batch.empty();
    }
    for (const auto& [r, scope] : cancelled) store->cancel(*r, scope);
  }
  if (goes_on) asio::post(goes_on, [self = shared_from_this()] { self->submit(); });
}

void sleepers::answered(request& r) {
  {
    const std::lock_guard lock(mutex_);
    results out;
    take_answer(r, std::chrono::steady_clock::now(), out);
    count_off(r, out);
    conclude(out);
  }
  submit();
}

void sleepers::returns_are_sent() {
  {
    const std::lock_guard lock(mutex_);
    --unsent_returns_;
  }
  submit();
}

/// Called when the context is being destroyed, before context_shut_down() or after it.
void sleepers::dropped(request& r) noexcept {
  const std::lock_guard lock(mutex_);
  if (r.owner != nullptr) r.owner->pending = nullptr;
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
  for (auto& [tag, g] : groups_) out.groups.push_back(&g);
  conclude(out);
}

void sleepers::context_shut_down() noexcept {
  std::vector<request_ptr> unstarted;
  check_list dropped;
  std::vector<check*> give_backs;
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    results out;
    while (!sleepers_.empty()) dropped.push_back(remove(sleepers_.begin()->second, out));
    for (auto& [tag, g] : groups_) {
      give_backs.insert(give_backs.end(), g.give_backs.begin(), g.give_backs.end());
      g.give_backs.clear();
    }
    unstarted.swap(to_start_);
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
  tag_group& g = groups_.try_emplace(tag, tag).first->second;
  sleeper& s = sleepers_.try_emplace(&c, c, ++arrivals_, g).first->second;
  g.members.push_back(s);
  enter_by_cooled(s);
  return s;
}

/// The caller finishes the returned check.
check& sleepers::remove(sleeper& s, results& out) {
  check& c = s.caller;
  if (s.pending != nullptr) s.pending->owner = nullptr;
  leave_by_cooled(s);
  out.groups.push_back(&s.group);
  sleepers_.erase(&c);
  return c;
}

void sleepers::make_request(sleeper& s, microseconds max_wait, bool is_first, results& out) {
  to_start_.push_back(std::make_shared<request>(shared_from_this(), s, max_wait, is_first));
  s.pending = to_start_.back();
  ++pending_requests_;
  ++s.group.pending_requests;
  ++s.group.unstarted_requests;
  out.groups.push_back(&s.group);
}

/// Returns the requests to start, and ends those that were cancelled meanwhile.
std::vector<sleepers::request_ptr> sleepers::take_to_start(results& out) {
  std::vector<request_ptr> taken;
  for (request_ptr& r : std::exchange(to_start_, {})) {
    --r->group.unstarted_requests;
    if (!r->cancelled) {
      taken.push_back(std::move(r));
      continue;
    }
    if (r->owner != nullptr) {
      check& c = remove(*r->owner, out);
      c.ec = asio::error::operation_aborted;
      out.done.push_back(c);
    }
    count_off(*r, out);
  }
  return taken;
}

void sleepers::count_off(request& r, results& out) {
  --pending_requests_;
  --r.group.pending_requests;
  out.groups.push_back(&r.group);
}

void sleepers::take_answer(request& r, time now, results& out) {
  const bool is_reserved = !r.ec && r.answer.allowed;
  if (r.owner == nullptr) {
    if (is_reserved) give_back(r, r.group);
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

void sleepers::give_back(check& c, tag_group& g) {
  if (from_fallback(c)) return;  // the fallback has no give-back
  g.give_backs.push_back(&detail::make_give_back(c));
  c.answer.receipt = {};  // the whole reservation goes back: nothing is left to settle
}

/// When the store closes and no answer is due: each caller is told when its reservation has gone
/// back.
void sleepers::end_all(tag_group& g, results& out) {
  while (!g.members.empty()) {
    check& c = remove(static_cast<sleeper&>(g.members.front()), out);
    if (from_fallback(c)) {
      c.ec = error::store_closed;
      c.answer = {};
      out.done.push_back(c);
    } else {
      g.give_backs.push_back(&detail::make_give_back(c, &c));
    }
  }
}

/// The end of each event. Gives the reservations of a group back: at once if a request is to be
/// started, else when no answer is due: see reservation_queue::conclude().
void sleepers::conclude(results& out) {
  std::vector<check*> give_backs;
  std::vector<tag_group*> changed = std::move(out.groups);
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (tag_group* const g : changed) {
    const bool is_quiet = g->pending_requests == 0;
    if (!is_quiet && g->unstarted_requests == 0) continue;
    if (closed_ && is_quiet) end_all(*g, out);
    give_backs.insert(give_backs.end(), g->give_backs.begin(), g->give_backs.end());
    g->give_backs.clear();
    if (is_quiet && g->members.empty()) groups_.erase(g->tag);
  }
  std::shared_ptr<void> keep;
  if (closed_ && pending_requests_ == 0) keep = std::move(keep_alive_);
  if (!give_backs.empty() || keep.use_count() > 0) {
    ++unsent_returns_;
    returns_.add(executor_, std::move(give_backs),
                 [self = shared_from_this(), keep] { self->returns_are_sent(); });
  }
  arm();
  for (check& c : out.done) flight_of(c).stage = detail::check_stage::done;
  delivery_batch::post(executor_, std::move(out.done));
}

void sleepers::arm() {
  alarm_.start(executor_, [] { return true; });  // the store's sink stops it: see completion
  alarm_.set(agenda_.next(), [self = shared_from_this()] { self->on_timer(); });
}

}  // namespace weir::waiting

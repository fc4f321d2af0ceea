#include "waiting/acquire_queue.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "check/delivery_batch.hpp"
#include "check/detached_check.hpp"
#include "check/limiter_spec.hpp"

namespace weir::waiting {

namespace asio = boost::asio;
using detail::cancel_scope;
using detail::check;
using detail::check_list;
using detail::delivery;
using detail::delivery_batch;
using detail::returned_reservation;

namespace {

constexpr int most_rounds = 16;
constexpr std::size_t max_cool_downs = 10'000;

acquire_queue::time clock_now() { return std::chrono::steady_clock::now(); }

}  // namespace

// ---- callers, the store and the timer, on any thread

void acquire_queue::arrive(check& c) {
  const core_ptr core = c.limiter;
  orders o;
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.start(core->store->get_executor())) core->store->limiters().add(core);
    is_late = alarm_.is_stopped();
    if (!is_late) {
      subject_entry& r = entry_of(c);
      const time now = clock_now();
      r.line.arrive(c, ++arrivals_, now, o);
      note(core, r, o);
    }
  }
  if (is_late) return c.finish(delivery::discard);
  carry_out(core, o, delivery::post);
}

void acquire_queue::cancel(check& c, cancel_scope scope) {
  const core_ptr core = c.limiter;
  orders o;
  {
    const std::lock_guard lock(mutex_);
    if (c.place == nullptr) return;  // the result is on its way to the caller
    subject_entry& r = known_entry_of(c);
    const time now = clock_now();
    r.line.leave(c, scope, now, o);
    note(core, r, o);
  }
  carry_out(core, o, delivery::post);
}

void acquire_queue::answered(reservation_request& a, delivery how) {
  if (how == delivery::discard) return;  // the waiters are discarded, too
  const core_ptr core = a.limiter;
  orders o;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped()) return;
    subject_entry& r = known_entry_of(a);
    const time now = clock_now();
    r.line.answered(a, now, o);
    if (closed_) r.line.close(o);
    note(core, r, o);
    if (entries_.empty()) o.hold = std::move(hold_);
  }
  carry_out(core, o, how);
}

void acquire_queue::hold(const core_ptr& core, std::string_view subject,
                         std::chrono::microseconds pause) {
  orders o;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped()) return;
    const time now = clock_now();
    note_cool_down(subject, now + pause, now);
    const auto found = entries_.find(subject);
    if (found == entries_.end()) return;
    found->second->line.hold(now + pause, now, o);
    note(core, *found->second, o);
  }
  carry_out(core, o, delivery::post);
}

acquire_queue::time acquire_queue::held_until(std::string_view subject) const {
  const std::lock_guard lock(mutex_);
  const auto found = cool_downs_.find(std::hash<std::string_view>{}(subject));
  return found == cool_downs_.end() ? time{} : found->second;
}

void acquire_queue::on_timer(const core_ptr& core) {
  orders o;
  {
    const std::lock_guard lock(mutex_);
    alarm_.rang();
    const time now = clock_now();
    while (subject_entry* r = agenda_.first_due(now)) {
      r->line.on_time(now, o);
      note(core, *r, o);
    }
    arm(core);
  }
  carry_out(core, o, delivery::post);
}

void acquire_queue::close(const core_ptr& core, std::shared_ptr<void> hold) {
  // Reservations that were being given back before the close reach the store first.
  returns_.send();
  orders o;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true) || alarm_.is_stopped()) return;
    std::vector<subject_entry*> entries;
    for (const auto& [subject, r] : entries_) entries.push_back(r.get());
    for (subject_entry* r : entries) {
      r->line.close(o);
      note(core, *r, o);
    }
    if (!entries_.empty()) hold_ = std::move(hold);
  }
  carry_out(core, o, delivery::post);
}

// ---- under the mutex

acquire_queue::subject_entry& acquire_queue::entry_of(const check& c) {
  if (const auto found = entries_.find(c.subject.view()); found != entries_.end())
    return *found->second;
  auto made = std::make_unique<subject_entry>(c.subject, rules_);
  subject_entry& r = *made;
  entries_.emplace(r.subject.view(), std::move(made));
  return r;
}

/// The entry exists while a waiter or a pending request of the subject does.
acquire_queue::subject_entry& acquire_queue::known_entry_of(const check& c) {
  return *entries_.find(c.subject.view())->second;
}

/// At most max_cool_downs cool-downs are kept; when full, new ones are not. Ended ones are swept at
/// most once a second, because the sweep visits every entry.
void acquire_queue::note_cool_down(std::string_view subject, time until, time now) {
  const std::size_t key = std::hash<std::string_view>{}(subject);
  if (const auto known = cool_downs_.find(key); known != cool_downs_.end()) {
    known->second = std::max(known->second, until);
    return;
  }
  if (cool_downs_.size() >= max_cool_downs) {
    if (now < next_sweep_) return;
    next_sweep_ = now + std::chrono::seconds{1};
    boost::unordered::erase_if(cool_downs_, [now](const auto& p) { return p.second <= now; });
    if (cool_downs_.size() >= max_cool_downs) return;
  }
  cool_downs_.emplace(key, until);
}

/// Queues the requests to start, drops cancels of requests that were not started, and puts the
/// subject at its new time in the agenda. Frees an idle subject: `r` may be gone afterwards.
void acquire_queue::note(const core_ptr& core, subject_entry& r, orders& o) {
  for (request_ptr& a : o.starts) {
    a->self = a;
    a->queue = this;
    to_start_.push_back(std::move(a));
  }
  o.starts.clear();
  if (!o.returns.empty() && !std::exchange(o.returns_are_known, true)) ++unsent_returns_;
  // The store does not know a request that was not started; submit() cancels it after the start.
  std::erase_if(o.cancels, [](const auto& wish) {
    const auto& [a, scope] = wish;
    if (!a->is_started && a->unwanted_as != cancel_scope::any) a->unwanted_as = scope;
    return !a->is_started;
  });
  agenda_.put(r, r.line.wakeup());
  arm(core);
  if (r.line.is_idle()) entries_.erase(r.subject.view());
}

void acquire_queue::arm(const core_ptr& core) {
  alarm_.set(agenda_.next(), [this, core] { on_timer(core); });
}

// ---- outside the mutex

void acquire_queue::carry_out(const core_ptr& core, orders& o, delivery how) {
  const auto executor = core->store->get_executor();
  if (!o.returns.empty()) {
    std::vector<const check*> turns;
    for (const request_ptr& a : o.returns) turns.push_back(a.get());
    returns_.add(executor, turns, [this, core] { returns_are_sent(core); });
  }
  std::vector<returned_reservation> closing;
  for (const auto& [turn, caller] : o.closing) closing.push_back({turn.get(), caller});
  give_back_and_tell(std::move(closing));
  for (const auto& [a, scope] : o.cancels) core->store->cancel(*a, scope);
  submit(core);
  const bool is_one = !o.told.empty() && std::next(o.told.begin()) == o.told.end();
  if (is_one && how == delivery::dispatch) {
    check& c = o.told.front();
    o.told.pop_front();
    c.finish(how);
  } else {
    delivery_batch::post(executor, std::move(o.told));
  }
}

void acquire_queue::returns_are_sent(const core_ptr& core) {
  {
    const std::lock_guard lock(mutex_);
    --unsent_returns_;
  }
  submit(core);
}

/// Starts the collected requests in the store. Reservations are given back first; otherwise the
/// store would book new requests behind them. One thread at a time submits, which keeps the order
/// and bounds the recursion: a memory store answers inside its start. After `most_rounds` rounds
/// the store's executor continues, so that one caller of acquire() does not serve all others.
void acquire_queue::submit(const core_ptr& core) {
  std::vector<request_ptr> batch;
  {
    const std::lock_guard lock(mutex_);
    if (somebody_starts_ || unsent_returns_ > 0 || to_start_.empty()) return;
    somebody_starts_ = true;
    batch.swap(to_start_);
  }
  std::vector<check*> checks;
  bool goes_on = false;
  std::vector<request_ptr> unwanted;
  for (int rounds = 0; !batch.empty(); ++rounds) {
    checks.clear();
    for (const request_ptr& a : batch) checks.push_back(a.get());
    core->store->start_all(checks);
    {
      const std::lock_guard lock(mutex_);
      for (request_ptr& a : batch) {
        a->is_started = true;
        if (a->unwanted_as) unwanted.push_back(std::move(a));
      }
      batch.clear();
      if (unsent_returns_ == 0 && rounds < most_rounds) batch.swap(to_start_);
      somebody_starts_ = !batch.empty();
      goes_on = rounds == most_rounds && !to_start_.empty();
    }
    for (const request_ptr& a : unwanted) core->store->cancel(*a, *a->unwanted_as);
    unwanted.clear();
  }
  if (goes_on) {
    asio::post(core->store->get_executor(), [this, core] { submit(core); });
  }
}

std::size_t acquire_queue::subjects() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void acquire_queue::context_shut_down() noexcept {
  check_list dropped;
  std::shared_ptr<void> hold;
  {
    const std::lock_guard lock(mutex_);
    alarm_.stop();
    hold = std::move(hold_);
    for (const request_ptr& a : to_start_) a->self.reset();
    to_start_.clear();
    for (auto& [subject, r] : entries_) r->line.abandon(dropped);
  }
  discard(std::move(dropped));
}

}  // namespace weir::waiting

#include "waiting/acquire_queue.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "check/delivery_batch.hpp"
#include "check/give_back.hpp"
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"

namespace weir::waiting {

namespace asio = boost::asio;
using detail::cancel_scope;
using detail::check;
using detail::check_list;
using detail::check_stage;
using detail::delivery;
using detail::delivery_batch;

namespace {

// The most due subjects that the timer serves in one hold of the mutex.
constexpr int most_at_once = 1000;

}  // namespace

acquire_queue::acquire_queue(const queue_rules& rules)
    : rules_(rules),
      is_joint_(false),
      has_direct_checks_(rules.overflow == on_overflow::refuse_new) {}

acquire_queue::acquire_queue(joint_tag) noexcept
    : rules_(), is_joint_(true), has_direct_checks_(false) {}

// ---- callers, the store and the timer, on any thread

void acquire_queue::arrive(check& c, const queue_rules& rules) {
  if (goes_directly(c)) return c.limiter->store->start(c);
  const core_ptr core = c.limiter;
  orders out;
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    line_entry* entry = nullptr;
    try {
      start(core);
      is_late = alarm_.is_stopped();
      if (!is_late) {
        entry = &entry_of(c, rules);
        const time now = clock_now();
        entry->queue.arrive(c, next_arrival(now), now, out);
      }
    } catch (const std::bad_alloc&) {
      // After an exception, nobody would own a check that the queue does not have.
      if (c.flight.queued == nullptr && c.flight.stage != check_stage::done) {
        c.ec = error::store_full;
        c.flight.stage = check_stage::done;
        out.told.push_back(c);
      }
    }
    if (entry != nullptr) update(core, *entry, out);
  }
  if (is_late) return c.finish(delivery::discard);
  carry_out(core, out, delivery::post);
}

void acquire_queue::cancel(check& c, cancel_scope scope) {
  const core_ptr core = c.limiter;
  orders out;
  bool is_at_store = false;
  request_ptr successor;
  {
    const std::lock_guard lock(mutex_);
    if (c.flight.queued == nullptr) return;    // the result is on its way to the caller
    if (!core->store->get_executor()) return;  // the context is being destroyed, and it with it
    is_at_store = is_direct(c);
    if (!is_at_store) {
      line_entry& entry = known_entry_of(c);
      entry.queue.leave(c, scope, clock_now(), out);
      update(core, entry, out);
    } else if (scope == cancel_scope::any) {
      successor = successor_of(c);
    } else {
      note_total(c);
    }
  }
  if (!is_at_store) {
    carry_out(core, out, delivery::post);
  } else if (successor == nullptr) {  // with any scope: no memory for one
    core->store->cancel(c, cancel_scope::only_unsent);
  } else {
    end_direct(core, c, successor);
  }
}

void acquire_queue::answered(reservation_request& request, delivery how) {
  if (how == delivery::discard) return;  // the waiters are discarded, too
  const core_ptr core = request.limiter;
  orders out;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped()) return;
    take_answer(core, request, out);
  }
  carry_out(core, out, how);
}

void acquire_queue::on_timer(const core_ptr& core) {
  orders out;
  {
    const std::lock_guard lock(mutex_);
    alarm_.rang();
    const time now = clock_now();
    line_entry* entry = nullptr;
    for (int n = 0; n < most_at_once && (entry = agenda_.first_due(now)) != nullptr; ++n) {
      entry->queue.on_time(now, out);
      put(core, *entry, out);
    }
    // By the limiter of who is next: another one may have no waiter any more.
    const line_entry* const next = agenda_.first_due(time::max());
    const core_ptr its = next != nullptr ? next->queue.limiter() : nullptr;
    arm(its != nullptr ? its : core);
  }
  carry_out(core, out, delivery::post);
}

void acquire_queue::close(std::shared_ptr<void> keep_alive) {
  std::vector<core_ptr> cores;  // released after the mutex: one may hold the last handle
  orders out;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true) || alarm_.is_stopped()) return;
    cores.reserve(entries_.size());
    for (line_entry* entry : all_lines()) {
      const core_ptr core = entry->queue.limiter();
      // The count may be too large, if another subject has the same hash.
      tell_of_direct_checks(*entry);
      entry->queue.close(out);
      if (core == nullptr) continue;  // nobody waits: only an answer is due
      update(core, *entry, out);
      cores.push_back(core);
    }
    if (!may_end()) keep_alive_ = keep_alive;
    out.keep_alive = std::move(keep_alive);
  }
  if (!cores.empty()) carry_out(cores.front(), out, delivery::post);
}

// ---- under the mutex

/// Called before the first waiter or cool-down. From then on, the store tells the limiter when it
/// closes, and a reset finds the limiter.
void acquire_queue::start(const core_ptr& core) {
  alarm_.start(core->store->get_executor(), [&] {
    if (!is_joint_) core->store->limiters().add(core);
    return true;  // also while the store closes: the store refuses the requests
  });
}

/// The name of the check's line: the subject, or a text that is made in `room`.
std::string_view acquire_queue::line_of(const check& c, std::string& room) const {
  if (!is_joint_) return c.subject.view();
  const auto append = [&room](const detail::limiter_spec* limiter, std::string_view subject,
                              std::int64_t cost) {
    const std::size_t size = subject.size();
    room.append(reinterpret_cast<const char*>(&limiter), sizeof limiter);
    room.append(reinterpret_cast<const char*>(&cost), sizeof cost);
    room.append(reinterpret_cast<const char*>(&size), sizeof size);
    room.append(subject);
  };
  append(c.limiter.get(), c.subject.view(), c.units);
  for (const detail::term& t : c.further()) append(t.limiter.get(), t.subject.view(), t.units);
  return room;
}

acquire_queue::line_entry& acquire_queue::entry_of(const check& c, const queue_rules& rules) {
  std::string room;
  const std::string_view name = line_of(c, room);
  if (const auto found = entries_.find(name); found != entries_.end()) return *found->second;
  auto made = std::make_unique<line_entry>(name, rules);
  line_entry& entry = *made;
  if (is_joint_) {
    detail::for_each_limiter(c, [&](const detail::limiter_spec& limiter, std::string_view s) {
      if (limiter.has_cool_down) entry.cooled_by.emplace_back(limiter.resource_id, hash_(s));
    });
  }
  entries_.emplace(entry.name.view(), std::move(made));
  try {
    for (const cooled& one : entry.cooled_by) cooled_lines_.emplace(one, &entry);
  } catch (...) {  // out of memory
    remove(entry);
    throw;
  }
  tell_of_direct_checks(entry);
  return entry;
}

void acquire_queue::remove(line_entry& entry) noexcept {
  for (const cooled& one : entry.cooled_by) cooled_lines_.erase({one, &entry});
  entries_.erase(entry.name.view());
}

/// Apart from the table, because the end of an event may free a line.
std::vector<acquire_queue::line_entry*> acquire_queue::all_lines() {
  std::vector<line_entry*> all;
  all.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) all.push_back(entry.get());
  return all;
}

std::uint64_t acquire_queue::next_arrival(time now) noexcept {
  const auto count = static_cast<std::uint64_t>(now.time_since_epoch().count());
  return last_arrival_ = std::max(last_arrival_ + 1, count);
}

/// The entry exists while a waiter or a pending request of the line does.
acquire_queue::line_entry& acquire_queue::known_entry_of(const check& c) {
  std::string room;
  return *entries_.find(line_of(c, room))->second;
}
acquire_queue::line_entry& acquire_queue::entry_of(const reservation_request& request) noexcept {
  return static_cast<line_entry&>(*request.line);
}

/// The end of every event of a line. `entry` may be gone afterwards.
void acquire_queue::update(const core_ptr& core, line_entry& entry, orders& out) {
  put(core, entry, out);
  arm(core);
}

/// Queues the requests to start and the reservations to give back, drops cancels of requests that
/// were not started, and puts the line at its new time in the agenda. Frees an idle line:
/// `entry` may be gone afterwards.
void acquire_queue::put(const core_ptr& core, line_entry& entry, orders& out) {
  for (request_ptr& request : out.starts) {
    request->queue = this;
    request->line = &entry;
    to_start_.push_back(std::move(request));
  }
  out.starts.clear();
  if (!out.returns.empty()) {
    // Under the mutex, so that no batch is sent between two give-backs in the wrong order.
    std::vector<check*> give_backs;
    for (const auto& [reservation, caller] : out.returns) {
      give_backs.push_back(&make_give_back(*reservation, caller));
    }
    returns_.add(core->store->get_executor(), std::move(give_backs),
                 [this, core] { returns_are_sent(core); });
    ++unsent_returns_;
    out.returns.clear();
  }
  // The store does not know a request that was not started; submit() cancels it after the start.
  std::erase_if(out.cancels, [](const auto& cancel) { return !cancel.first->is_started; });
  agenda_.put(entry, entry.queue.wakeup());
  if (entry.queue.is_idle()) remove(entry);
}

void acquire_queue::take_answer(const core_ptr& core, reservation_request& request, orders& out) {
  line_entry& entry = entry_of(request);
  const time now = clock_now();
  entry.queue.answered(request, now, out);
  if (closed_) entry.queue.close(out);
  update(core, entry, out);
  out.keep_alive = may_end() ? std::move(keep_alive_) : keep_alive_;
}

/// Returns the requests to start. Ends those that were cancelled meanwhile, which may make new
/// requests.
std::vector<request_ptr> acquire_queue::take_to_start(const core_ptr& core, orders& out) {
  std::vector<request_ptr> taken;
  while (taken.empty() && !to_start_.empty() && unsent_returns_ == 0) {
    for (request_ptr& request : std::exchange(to_start_, {})) {
      entry_of(*request).queue.started();
      if (request->cancelled) {
        request->ec = asio::error::operation_aborted;
        take_answer(core, *request, out);
      } else {
        taken.push_back(std::move(request));
      }
    }
  }
  return taken;
}

void acquire_queue::arm(const core_ptr& core) {
  alarm_.set(agenda_.next(), [this, core] { on_timer(core); });
}

// ---- outside the mutex

void acquire_queue::carry_out(const core_ptr& core, orders& out, delivery how) {
  const auto executor = core->store->get_executor();
  for (const auto& [request, scope] : out.cancels) core->store->cancel(*request, scope);
  submit(core);
  const bool is_one = !out.told.empty() && std::next(out.told.begin()) == out.told.end();
  if (is_one && how == delivery::dispatch) {
    check& c = out.told.front();
    out.told.pop_front();
    c.finish(how);
  } else {
    delivery_batch::post(executor, std::move(out.told));
  }
}

void acquire_queue::returns_are_sent(const core_ptr& core) {
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    --unsent_returns_;
    if (may_end()) let_go = std::move(keep_alive_);
  }
  submit(core);
}

/// Starts the collected requests in the store. Reservations are given back first; otherwise the
/// store would place new ones behind them. One thread at a time submits, which keeps the order and
/// bounds the recursion: a memory store answers inside start(). After `most_rounds` rounds the
/// store's executor continues, so that one caller of acquire() does not serve all others.
void acquire_queue::submit(const core_ptr& core) {
  orders out;
  std::vector<request_ptr> batch;
  {
    const std::lock_guard lock(mutex_);
    if (is_submitting_) return;
    batch = take_to_start(core, out);
    is_submitting_ = !batch.empty();
  }
  std::vector<check*> checks;
  bool has_more = false;
  std::vector<std::pair<request_ptr, cancel_scope>> cancelled;
  for (int rounds = 0; !batch.empty(); ++rounds) {
    try {
      checks.clear();
      for (const request_ptr& request : batch) checks.push_back(request.get());
      for (const request_ptr& request : batch) request->self = request;
      core->store->start_all(checks);
    } catch (...) {  // out of memory: this thread submits no more
      const std::lock_guard lock(mutex_);
      is_submitting_ = false;
      throw;
    }
    {
      const std::lock_guard lock(mutex_);
      is_submitting_ = false;  // until there is another batch; to make one may throw
      for (request_ptr& request : batch) {
        request->is_started = true;
        if (request->cancelled) cancelled.emplace_back(request, *request->cancelled);
      }
      batch.clear();
      if (rounds < most_rounds) batch = take_to_start(core, out);
      is_submitting_ = !batch.empty();
      has_more = rounds == most_rounds && !to_start_.empty();
    }
    for (const auto& [request, scope] : cancelled) core->store->cancel(*request, scope);
    cancelled.clear();
  }
  delivery_batch::post(core->store->get_executor(), std::move(out.told));
  if (has_more) {
    asio::post(core->store->get_executor(), [this, core] { submit(core); });
  }
}

std::size_t acquire_queue::lines() const {
  const std::lock_guard lock(mutex_);
  return entries_.size() + direct_.size();
}

void acquire_queue::context_shut_down() noexcept {
  // The last of these may hold the limiter or store, and so this object.
  decltype(entries_) entries;
  orders out;
  {
    const std::lock_guard lock(mutex_);
    alarm_.stop();
    out.keep_alive = std::move(keep_alive_);
    to_start_.clear();
    entries.swap(entries_);
    cooled_lines_.clear();
    for (auto& [name, entry] : entries) entry->queue.abandon(out);
  }
  discard(std::move(out.told));
}

}  // namespace weir::waiting

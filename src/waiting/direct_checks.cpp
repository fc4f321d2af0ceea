// The direct checks of an acquire_queue: the callers' own, as long as their subject has no queue.
#include <boost/asio/error.hpp>
#include <new>
#include <utility>

#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"
#include "waiting/acquire_queue.hpp"

namespace weir::waiting {

using detail::acquire_request;
using detail::cancel_scope;
using detail::check;
using detail::delivery;

namespace {

// What flight.queued of a direct check points at: not cancelled; cancelled with only_unsent;
// cancelled with any scope.
constinit detail::queued_waiter at_store, at_store_if_sent, left;

std::optional<cancel_scope> scope_of(const detail::queued_waiter* mark) noexcept {
  if (mark == &left) return cancel_scope::any;
  if (mark == &at_store_if_sent) return cancel_scope::only_unsent;
  return std::nullopt;
}

/// True if the store's answer is the result: the check need not wait.
bool is_result(const check& c) {
  if (c.ec) return false;
  return !c.answer.allowed || c.answer.delay == std::chrono::microseconds{0};
}

}  // namespace

bool acquire_queue::is_direct(const check& c) noexcept {
  const detail::queued_waiter* const queued = c.flight.queued;
  return queued == &at_store || queued == &at_store_if_sent || queued == &left;
}

void acquire_queue::note_total(check& c) noexcept {
  if (c.flight.queued == &at_store) c.flight.queued = &at_store_if_sent;
}

/// True if a new check goes to the store itself: its subject has no queue, and no give-back has to
/// reach the store first.
bool acquire_queue::goes_directly(check& c) {
  const std::lock_guard lock(mutex_);
  const bool may = has_direct_checks_ && alarm_.is_started() && !closed_ && unsent_returns_ == 0 &&
                   (entries_.empty() || !entries_.contains(c.subject.view()));
  if (!may) return false;
  try {
    std::size_t& count = direct_.try_emplace(hash_(c.subject.view()), 0).first->second;
    if (count == rules_.max_waiting) return false;
    ++count;
  } catch (const std::bad_alloc&) {
    return false;  // arrive() tells the caller
  }
  detail::as<acquire_request>(c).arrival = next_arrival(clock_now());
  c.flight.queued = &at_store;
  return true;
}

void acquire_queue::count_off(const check& c) noexcept {
  const auto found = direct_.find(hash_(c.subject.view()));
  if (--found->second == 0) direct_.erase(found);
}

void acquire_queue::tell_of_direct_checks(line_entry& entry) const noexcept {
  const auto found = direct_.find(hash_(entry.name.view()));
  entry.queue.set_direct_checks(found == direct_.end() ? 0 : found->second);
}

bool acquire_queue::takes_in(check& c) {
  if (is_result(c)) {
    const std::lock_guard lock(mutex_);
    const bool is_covered = detail::as<acquire_request>(c).arrival <= last_cool_down_;
    if (!closed_ && !is_covered && (entries_.empty() || !entries_.contains(c.subject.view()))) {
      count_off(c);
      c.flight.queued = nullptr;
      return false;
    }
  }
  return take_in(c);
}

/// The rare end of a direct check: it has to wait, has failed, its caller has left, or there is a
/// queue now.
bool acquire_queue::take_in(check& c) {
  const core_ptr core = c.limiter;
  orders out;
  bool is_done = false;
  {
    const std::lock_guard lock(mutex_);
    const auto cancelled = scope_of(std::exchange(c.flight.queued, nullptr));
    const bool has_left = cancelled == cancel_scope::any;
    count_off(c);
    if (alarm_.is_stopped()) return false;  // the context is gone: no handler will run
    const error_code failure = c.ec;
    const bool is_reserved = c.answer.allowed;
    line_entry* entry = nullptr;
    try {
      entry = &entry_of(c, rules_);
      tell_of_direct_checks(*entry);
      is_done = has_left && (c.ec || is_result(c));
      if (is_done) {
        entry->queue.on_time(clock_now(), out);  // there may be room for another one
      } else {
        let_wait(*entry, c, cancelled, out);
        is_done = has_left;
      }
    } catch (const std::bad_alloc&) {
      // Neither a waiter nor in out.told: after an exception, nobody would own the check.
      is_done = c.flight.queued == nullptr && !c.line.is_linked();
      if (is_done) {
        c.answer = {};
        c.ec = failure ? failure : is_reserved ? error::outcome_unknown : error::store_full;
      }
    }
    if (entry != nullptr) {
      if (closed_) entry->queue.close(out);
      update(core, *entry, out);
    }
    out.keep_alive = may_end() ? std::move(keep_alive_) : keep_alive_;
  }
  carry_out(core, out, delivery::post);
  return !is_done;
}

/// Makes the check a waiter whose request has the store's answer; or, if its caller has left, only
/// gives back what the store has reserved.
void acquire_queue::let_wait(line_entry& entry, check& c, std::optional<cancel_scope> cancelled,
                             orders& out) {
  auto& asked = detail::as<acquire_request>(c);
  const auto request = std::make_shared<reservation_request>(c, asked.max_wait);
  request->queue = this;
  request->line = &entry;
  request->is_started = true;
  request->take_answer_of(c);
  request->cancelled = cancelled;
  const time came{std::chrono::nanoseconds(asked.arrival)};
  request->flight.sent = std::max(came, c.flight.sent);
  const time now = clock_now();
  if (cancelled == cancel_scope::any) {
    c.ec = boost::asio::error::operation_aborted;
    entry.queue.expect_answer();
    return entry.queue.answered(*request, now, out);
  }
  if (asked.arrival <= last_cool_down_) {
    const time until = cool_downs_.until(c.subject.view());
    if (until != time{}) entry.queue.cool_down(until, now, out);
  }
  entry.queue.arrive_answered(c, request, asked.arrival, came, now, out);
}

/// Makes the request that takes the place of a check whose caller leaves. Null: no memory.
request_ptr acquire_queue::successor_of(check& c) {
  c.flight.queued = &left;
  try {
    auto made = std::make_shared<reservation_request>(c, detail::as<acquire_request>(c).max_wait);
    made->flight.is_detached = true;
    made->cancelled = cancel_scope::any;
    made->queue = this;
    made->is_started = true;
    line_entry& entry = entry_of(c, rules_);
    made->line = &entry;
    entry.queue.expect_answer();
    made->self = made;
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// Ends a direct check whose caller has left. It may be gone afterwards.
void acquire_queue::end_direct(const core_ptr& core, check& c, const request_ptr& successor) {
  if (core->store->replace(c, *successor)) return;
  orders out;
  {
    const std::lock_guard lock(mutex_);
    successor->self.reset();
    successor->ec = boost::asio::error::operation_aborted;
    take_answer(core, *successor, out);
  }
  carry_out(core, out, delivery::post);
}

}  // namespace weir::waiting

#include "limiter/lease_keeper.hpp"

#include <boost/asio/error.hpp>
#include <vector>

#include "check/store_backend.hpp"
#include "limiter/limiter_impl.hpp"

namespace weir::detail {

namespace asio = boost::asio;

namespace {

lease_schedule::time now() { return std::chrono::steady_clock::now(); }

/// Posts the handlers to their own executors; none runs inside this call.
void finish_all(check_list&& done, error_code ec) {
  while (!done.empty()) {
    check& c = done.front();
    done.pop_front();
    c.ec = ec;
    c.finish(delivery::post);
  }
}

void tell_of_loss(const limiter_spec& core, const short_text& subject) noexcept {
  const limiter_impl& own = impl_of(core);
  own.tally->lease_lost();
  own.report({.what = event_kind::lease_lost}, subject.view());
}

std::chrono::microseconds time_until(lease_schedule::time when) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(when - now());
  return std::max(left, std::chrono::microseconds{0});
}

}  // namespace

/// A renewal. It has no caller and frees itself.
class lease_keeper::renew_call final : public check_of<lease_request> {
 public:
  renew_call(const core_ptr& core, std::int64_t lease, short_text subject,
             std::chrono::microseconds timeout)
      : check_of(std::shared_ptr(core), {std::move(subject), timeout, lease, {lease_act::renew}}) {
    flight.sent = now();  // a store that sends notes a later time
  }

  void finish(delivery how) override {
    const std::unique_ptr<renew_call> self(this);
    if (how != delivery::discard) impl_of(*limiter).leases->on_renewed(*this);
  }
};

/// Gives a lease back. It has no caller and frees itself.
class lease_keeper::leave_call final : public check_of<lease_request> {
 public:
  leave_call(const core_ptr& core, lease_schedule::open_leave&& what)
      : check_of(
            std::shared_ptr(core),
            {std::move(what.subject), time_until(what.good_until), what.lease, {lease_act::leave}}),
        good_until_(what.good_until),
        losses_(what.losses) {}

  void finish(delivery how) override {
    const std::unique_ptr<leave_call> self(this);
    if (how == delivery::discard || !ec) return;
    impl_of(*limiter).leases->on_leave_failed(limiter, ec,
                                              {units, std::move(subject), good_until_, losses_});
  }

 private:
  const time good_until_;
  const int losses_;
};

void lease_keeper::add(const core_ptr& core, std::int64_t lease, short_text subject, time sent) {
  const std::lock_guard lock(mutex_);
  schedule_.add(lease, std::move(subject), sent);
  arm(core);
}

void lease_keeper::release(const core_ptr& core, std::int64_t lease) {
  std::optional<lease_schedule::entry> left;
  {
    const std::lock_guard lock(mutex_);
    left = schedule_.remove(lease);
    if (!left) return;
    for (check& c : left->watchers) c.flight.stage = check_stage::done;
    arm(core);
  }
  finish_all(std::move(left->watchers), asio::error::operation_aborted);
  if (left->stands == lease_schedule::standing::gone) return;
  leave(core, {lease, std::move(left->subject), left->good_until});
}

void lease_keeper::give_back(const core_ptr& core, std::int64_t lease, short_text subject) {
  leave(core, {lease, std::move(subject), now() + length_});
}

/// The leave may wait unsent until the lease would have lapsed by itself.
void lease_keeper::leave(const core_ptr& core, lease_schedule::open_leave what) {
  start_check(*new leave_call(core, std::move(what)));
}

bool lease_keeper::is_held(std::int64_t lease) noexcept {
  const std::lock_guard lock(mutex_);
  const lease_schedule::entry* e = schedule_.find(lease);
  // The clock decides too: a stopped process may call this before its timer has run.
  return e != nullptr && e->stands == lease_schedule::standing::held && now() < e->good_until;
}

std::size_t lease_keeper::held() {
  std::size_t count = 0;
  const std::lock_guard lock(mutex_);
  schedule_.for_each([&](const lease_schedule::entry& e) {
    count += e.stands == lease_schedule::standing::held && now() < e.good_until ? 1 : 0;
  });
  return count;
}

void lease_keeper::watch(check& c) {
  {
    const std::lock_guard lock(mutex_);
    lease_schedule::entry* e = schedule_.find(c.units);
    const bool is_held = e != nullptr && e->stands == lease_schedule::standing::held;
    if (is_held && !alarm_.is_stopped()) {
      c.flight.stage = check_stage::waiting;
      e->watchers.push_back(c);
      return;
    }
    if (e == nullptr) c.ec = asio::error::operation_aborted;
    if (is_held) c.ec = error::store_closed;
    c.flight.stage = check_stage::done;
  }
  c.finish(delivery::post);
}

void lease_keeper::unwatch(check& c) {
  {
    const std::lock_guard lock(mutex_);
    if (c.flight.stage == check_stage::done) return;
    c.line.unlink();
    c.flight.stage = check_stage::done;
  }
  c.ec = asio::error::operation_aborted;
  c.finish(delivery::post);
}

/// Requires the mutex.
void lease_keeper::arm(const core_ptr& core) {
  // The executor is empty if the store's context was destroyed while the answer was on its way to
  // the caller. add() is false if the store has already told its limiters that it closes.
  alarm_.start(core->store->get_executor(), [&] { return core->store->limiters().add(core); });
  alarm_.set(schedule_.wakeup(), [this, core] { on_timer(core); });
}

void lease_keeper::on_renewed(const renew_call& c) {
  using outcome = lease_schedule::outcome;
  const outcome what = c.ec ? outcome::unclear : c.answer.allowed ? outcome::kept : outcome::gone;
  check_list completed;
  bool is_lost = false;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped()) return;
    const std::int64_t lease = c.units;
    is_lost = schedule_.answered(lease, what, c.flight.sent, now());
    if (is_lost) completed.swap(schedule_.find(lease)->watchers);
    for (check& w : completed) w.flight.stage = check_stage::done;
    // What is due by now waits for the timer: started here, it would recurse, because a memory
    // store answers inside start().
    arm(c.limiter);
  }
  if (is_lost) tell_of_loss(*c.limiter, c.subject);
  finish_all(std::move(completed), {});
}

void lease_keeper::on_leave_failed(const core_ptr& core, error_code ec,
                                   lease_schedule::open_leave what) {
  const bool was_lost = ec == error::outcome_unknown || ec == error::protocol_error;
  std::optional<lease_schedule::open_leave> again;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_.is_stopped()) return;
    again = schedule_.leave_failed(std::move(what), was_lost, now());
    arm(core);
  }
  if (again) leave(core, std::move(*again));
}

/// Reports due losses, starts due renewals, repeats due leaves.
void lease_keeper::on_timer(const core_ptr& core) {
  struct renewal {
    std::int64_t lease;
    short_text subject;
  };
  check_list completed;
  std::vector<short_text> lost;  // their subjects
  std::vector<renewal> renewals;
  std::vector<lease_schedule::open_leave> leaves;
  {
    const std::lock_guard lock(mutex_);
    alarm_.rang();
    while (lease_schedule::entry* const e = schedule_.next(now())) {
      if (e->stands == lease_schedule::standing::lost) {
        for (check& c : e->watchers) c.flight.stage = check_stage::done;
        completed.splice(completed.end(), e->watchers);
        lost.push_back(e->subject);
      } else {
        renewals.push_back({e->lease, e->subject});
      }
    }
    while (auto due = schedule_.next_leave(now())) leaves.push_back(std::move(*due));
    arm(core);
  }
  for (const short_text& subject : lost) tell_of_loss(*core, subject);
  finish_all(std::move(completed), {});
  for (renewal& r : renewals) {
    // A third of the lease duration: if no answer comes, there is time for another renewal.
    start_check(*new renew_call(core, r.lease, std::move(r.subject), length_ / 3));
  }
  for (lease_schedule::open_leave& l : leaves) leave(core, std::move(l));
}

/// Requires the mutex.
check_list lease_keeper::take_watchers() {
  check_list all;
  schedule_.for_each([&](lease_schedule::entry& e) {
    for (check& c : e.watchers) c.flight.stage = check_stage::done;
    all.splice(all.end(), e.watchers);
  });
  return all;
}

void lease_keeper::close() {
  check_list completed;
  {
    const std::lock_guard lock(mutex_);
    alarm_.stop();
    completed = take_watchers();
  }
  finish_all(std::move(completed), error::store_closed);
}

void lease_keeper::context_shut_down() noexcept {
  check_list dropped;
  {
    const std::lock_guard lock(mutex_);
    alarm_.stop();
    dropped = take_watchers();
  }
  discard(std::move(dropped));
}

}  // namespace weir::detail

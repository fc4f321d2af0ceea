#include "limiter/local_units.hpp"

#include <new>

#include "check/give_back.hpp"
#include "check/store_backend.hpp"
#include "limiter/limiter_impl.hpp"

namespace weir::detail {

namespace {

local_units::time clock_now() { return std::chrono::steady_clock::now(); }

}  // namespace

/// A call for more units. It has no caller and frees itself.
class local_units::take final : public check_of<record_request> {
 public:
  take(const core_ptr& core, const short_text& subject, std::int64_t units, time now)
      : check_of(std::shared_ptr(core), {subject, {}, units}) {
    flight.is_internal = true;
    flight.sent = now;  // a store that sends notes a later time
  }

  void finish(delivery how) override {
    const std::unique_ptr<take> self(this);
    if (how != delivery::discard) impl_of(*limiter).local->answered(*this);
  }
};

// ---- callers, the store and the timer, on any thread

local_units::outcome local_units::spend(check& c) {
  outcome out;
  const time now = clock_now();
  const std::lock_guard lock(mutex_);
  try {
    entry* const e = entry_of(c, now);
    if (e == nullptr) return out;
    if (const auto d = e->supply.spend(c.units, now)) {
      c.answer = *d;
      out.is_answered = true;
    }
    if (const std::int64_t units = e->supply.begin_take(now); units > 0) {
      try {
        out.take = new take(c.limiter, e->subject, units, now);
      } catch (const std::bad_alloc&) {
        e->supply.failed();
      }
    }
  } catch (const std::bad_alloc&) {
  }
  return out;
}

void local_units::note_reply(std::string_view subject, const decision& answer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(subject); found != entries_.end())
    found->second->supply.note_reply(answer);
}

void local_units::forget(std::string_view subject) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(subject); found != entries_.end())
    found->second->supply.forget(clock_now());
}

void local_units::answered(const take& t) {
  std::vector<returned> all;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(t.subject.view());
    if (found == entries_.end()) return;  // the context is gone
    unit_supply& supply = found->second->supply;
    const time now = clock_now();
    if (t.ec || t.answer.source != source::store) {
      supply.failed();
    } else {
      supply.taken(t.units, t.answer, t.flight.sent, now);
    }
    if (!alarm_.is_stopped()) return;
    all.push_back({t.subject, supply.give_up(now)});
    entries_.erase(found);
  }
  give_back(t.limiter, all);
}

/// Gives back the units of subjects that were not used for the last pace, and forgets them.
void local_units::on_timer(const core_ptr& core) {
  std::vector<returned> all;
  {
    const std::lock_guard lock(mutex_);
    alarm_.rang();
    const time now = clock_now();
    while (entry* e = agenda_.first_due(now)) {
      if (e->supply.was_used() || e->supply.is_taking()) {
        agenda_.put(*e, next_look(now));
        continue;
      }
      all.push_back({e->subject, e->supply.give_up(now)});
      entries_.erase(e->subject.view());
    }
    arm(core);
  }
  give_back(core, all);
}

void local_units::close(const core_ptr& core) {
  std::vector<returned> all;
  {
    const std::lock_guard lock(mutex_);
    alarm_.stop();
    const time now = clock_now();
    for (const auto& [subject, e] : entries_) all.push_back({e->subject, e->supply.give_up(now)});
    // The answer of a take ends the entries that are left.
    boost::unordered::erase_if(entries_,
                               [](const auto& one) { return !one.second->supply.is_taking(); });
  }
  give_back(core, all);
}

void local_units::context_shut_down() noexcept {
  const std::lock_guard lock(mutex_);
  alarm_.stop();
  entries_.clear();
}

std::size_t local_units::subjects() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

// ---- under the mutex

/// The subject's entry; null if it has none and gets none.
local_units::entry* local_units::entry_of(const check& c, time now) {
  const auto found = entries_.find(c.subject.view());
  if (found != entries_.end()) return found->second.get();
  if (alarm_.is_stopped() || entries_.size() >= max_subjects_ ||
      c.subject.view().size() > longest_subject) {
    return nullptr;
  }
  // The executor is empty if the store's context was destroyed. add() is false if the store has
  // already told its limiters that it closes.
  alarm_.start(c.limiter->store->get_executor(),
               [&] { return c.limiter->store->limiters().add(c.limiter); });
  if (alarm_.is_stopped()) return nullptr;
  auto made = std::make_unique<entry>(c.subject, rules_);
  entry& e = *made;
  entries_.emplace(e.subject.view(), std::move(made));
  agenda_.put(e, next_look(now));
  arm(c.limiter);
  return &e;
}

/// After a pace, and rounded up, so that one ring of the timer serves many subjects.
local_units::time local_units::next_look(time now) const noexcept {
  const time::duration step = rules_.pace / 4;
  return time(((now + rules_.pace).time_since_epoch() / step + 1) * step);
}

void local_units::arm(const core_ptr& core) {
  alarm_.set(agenda_.next(), [this, core] { on_timer(core); });
}

// ---- outside the mutex

void local_units::give_back(const core_ptr& core, const std::vector<returned>& all) {
  for (const returned& r : all) {
    if (r.rest.units == 0) continue;
    core->store->start(make_give_back({core, r.subject, r.rest.units, r.rest.from}));
  }
}

}  // namespace weir::detail

#include "waiting/waiting_room.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <new>
#include <span>
#include <utility>

#include "check/delivery_batch.hpp"
#include "check/give_back.hpp"
#include "check/limiter_spec.hpp"
#include "check/store_backend.hpp"

namespace weir::waiting {

using detail::acquire_request;
using detail::as;
using detail::cancel_scope;
using detail::check;
using detail::check_stage;
using detail::delivery;
using detail::delivery_batch;
using detail::room_note;

namespace {

// The most due lines that the timer serves in one hold of the mutex.
constexpr int most_at_once = 1000;

/// True if the store's answer may be the result: the caller need not wait.
bool may_be_result(const check& c) {
  return !c.flight.is_detached && !c.ec && (!c.answer.allowed || c.answer.delay.count() == 0);
}

}  // namespace

// ---- callers, the store and the timer, on any thread

void waiting_room::arrive(check& c, const line_rules& rules) {
  {
    std::unique_lock lock(mutex_);
    if (goes_directly(c, rules)) {
      lock.unlock();
      return c.limiter->store->start(c);
    }
  }
  const core_ptr core = c.limiter;
  room_orders out;
  {
    std::unique_lock lock(mutex_);
    line_entry* entry = nullptr;
    try {
      start(core);
      if (alarm_.is_stopped()) {
        lock.unlock();
        return c.finish(delivery::discard);
      }
      entry = &entry_of(c, rules);
      const time now = clock_now();
      entry->line.arrive(c, next_arrival(now), now, out);
    } catch (const std::bad_alloc&) {
      // After an exception, nobody would own a check that the line does not have.
      if (c.flight.room.place == room_note::outside && c.flight.stage != check_stage::done) {
        c.ec = error::store_full;
        c.flight.stage = check_stage::done;
        out.completed.push_back(c);
      }
    }
    if (entry != nullptr) update(*entry, out);
  }
  carry_out(core, out);
}

void waiting_room::cancel(check& c, cancel_scope scope) {
  const core_ptr core = c.limiter;
  room_orders out;
  {
    std::unique_lock lock(mutex_);
    room_note& noted = c.flight.room;
    if (noted.place == room_note::outside) return;  // the result is on its way to the caller
    if (!core->store->get_executor()) return;  // the context is being destroyed, and it with it
    if (noted.place == room_note::at_store) {
      if (scope == cancel_scope::any) noted.wish = room_note::leaves;
      if (noted.wish == room_note::stays) noted.wish = room_note::leaves_if_unsent;
      lock.unlock();
      return core->store->cancel(c, scope);
    }
    if (noted.place == room_note::held) c.line.unlink();
    line_entry& entry = *find(c);
    entry.line.leave(c, scope, clock_now(), out);
    update(entry, out);
  }
  carry_out(core, out);
}

bool waiting_room::takes(check& c, const line_rules& rules) {
  {
    const std::lock_guard lock(mutex_);
    if (!c.flight.is_detached && (alarm_.is_stopped() || ends_here(c))) return false;
  }
  return take_in(c, rules);
}

/// The rarer end of a check at the store: it has to wait, has failed, its caller has left, or
/// others wait.
bool waiting_room::take_in(check& c, const line_rules& rules) {
  const core_ptr core = c.limiter;
  const bool is_stand_in = c.flight.is_detached;
  bool is_taken = is_stand_in;
  room_orders out;
  {
    const std::lock_guard lock(mutex_);
    if (!alarm_.is_stopped()) {
      take_answer(c, rules, out);
      is_taken = true;
    }
  }
  carry_out(core, out);
  if (is_stand_in) c.finish(delivery::discard);
  return is_taken;
}

void waiting_room::on_timer(const core_ptr& core) {
  room_orders out;
  {
    const std::lock_guard lock(mutex_);
    alarm_.rang();
    const time now = clock_now();
    line_entry* entry = nullptr;
    for (int n = 0; n < most_at_once && (entry = agenda_.first_due(now)) != nullptr; ++n) {
      entry->line.on_time(now, out);
      put(*entry, out);
    }
    arm();
  }
  carry_out(core, out);
}

void waiting_room::close(std::shared_ptr<void> keep_alive) {
  core_ptr core;
  room_orders out;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true) || alarm_.is_stopped()) return;
    std::vector<line_entry*> all;  // apart from the table, because the end of an event frees lines
    all.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) all.push_back(entry.get());
    for (line_entry* entry : all) {
      core = entry->limiter;
      entry->line.close(out);
      update(*entry, out);
    }
    if (!may_end()) keep_alive_ = keep_alive;
    out.keep_alive = std::move(keep_alive);
  }
  if (core != nullptr) carry_out(core, out);
}

void waiting_room::context_shut_down() noexcept {
  // The last of these may hold the limiter or store, and so this object.
  decltype(entries_) entries;
  room_orders out;
  {
    const std::lock_guard lock(mutex_);
    alarm_.stop();
    out.keep_alive = std::move(keep_alive_);
    entries.swap(entries_);
    direct_.clear();
    cooled_lines_.clear();
    for (auto& [key, entry] : entries) entry->line.abandon(out);
    out.completed.splice(out.completed.end(), held_);
  }
  discard(std::move(out.completed));
}

// ---- under the mutex

/// Called before the first check goes to the store. From then on, the store tells the limiter when
/// it closes.
void waiting_room::start(const core_ptr& core) {
  alarm_.start(core->store->get_executor(), [&] {
    core->store->limiters().add(core);
    return true;  // also while the store closes: the store refuses the checks
  });
}

/// True if a new check goes to the store at once: its line is calm, and no give-back has to reach
/// the store first.
bool waiting_room::goes_directly(check& c, const line_rules& rules) {
  if (!alarm_.is_started() || unsent_returns_ > 0) return false;
  if (line_entry* const entry = find(c)) {
    if (!entry->line.is_calm() || !entry->line.has_room()) return false;
    entry->line.add_direct(c);
  } else {
    try {
      answers_due& due = direct_[hash_(c)];
      if (!rules.have_room(0, due.of_callers())) return false;
      ++due.all;
    } catch (const std::bad_alloc&) {
      return false;  // arrive() tells the caller
    }
  }
  as<acquire_request>(c).arrival = next_arrival(clock_now());
  c.flight.room.place = room_note::at_store;
  return true;
}

/// True if the answer is the result of a check that nothing makes wait.
bool waiting_room::ends_here(check& c) {
  if (c.flight.room.place == room_note::outside) return true;  // it did not come through the room
  if (!may_be_result(c) || closed_ || c.flight.room.waiter != nullptr ||
      as<acquire_request>(c).arrival <= last_cool_down_) {
    return false;
  }
  if (line_entry* const entry = find(c)) {
    if (!entry->line.is_calm()) return false;
    entry->line.drop_direct(c);
    if (entry->line.is_idle()) take_out(*entry);
  } else {
    count_off(c);
  }
  c.flight.room = {};
  return true;
}

void waiting_room::take_answer(check& c, const line_rules& rules, room_orders& out) {
  const error_code failure = c.ec;
  const bool is_reserved = c.answer.allowed;
  line_entry* entry = nullptr;
  try {
    entry = &entry_of(c, rules);
    entry->line.answered(c, cool_down_of(c), clock_now(), out);
  } catch (const std::bad_alloc&) {
    if (entry == nullptr) count_off(c);
    if (c.flight.room.place == room_note::at_store) {  // then nobody owns it
      const error_code why = is_reserved ? error::outcome_unknown : error::store_full;
      waiter_line none(rules, {});  // a check without a line has no waiter either
      (entry != nullptr ? entry->line : none).tell(c, failure ? failure : why, out);
    }
  }
  if (entry != nullptr) {
    if (closed_) entry->line.close(out);
    update(*entry, out);
  }
  out.keep_alive = may_end() ? std::move(keep_alive_) : keep_alive_;
}

void waiting_room::count_off(const check& c) noexcept {
  const auto found = direct_.find(hash_(c));
  // Its stand-in may have been answered on another thread, as the last one.
  if (found == direct_.end()) return;
  found->second.finished(c);
  if (found->second.all == 0) direct_.erase(found);
}

std::uint64_t waiting_room::next_arrival(time now) noexcept {
  const auto count = static_cast<std::uint64_t>(now.time_since_epoch().count());
  return last_arrival_ = std::max(last_arrival_ + 1, count);
}

line_entry* waiting_room::find_entry(const check& c) const noexcept {
  const auto found = entries_.find(c);
  return found == entries_.end() ? nullptr : found->second.get();
}

line_entry& waiting_room::entry_of(const check& c, const line_rules& rules) {
  if (line_entry* const known = find(c)) return *known;
  const std::uint64_t hash = hash_(c);
  const auto counted = direct_.find(hash);
  auto made = std::make_unique<line_entry>(
      c, hash, rules, counted == direct_.end() ? answers_due{} : counted->second);
  line_entry& entry = *made;
  entries_.emplace(&entry, std::move(made));
  try {
    detail::for_each_limiter(c, [&](const detail::limiter_spec& limiter, std::string_view s) {
      if (limiter.has_cool_down)
        cooled_lines_.emplace(cool_downs_.key_of(limiter.resource_id, s), &entry);
    });
  } catch (...) {  // out of memory
    take_out(entry);
    throw;
  }
  if (counted != direct_.end()) direct_.erase(counted);
  return entry;
}

/// A line that is freed may hold the last handle of its limiter.
std::unique_ptr<line_entry> waiting_room::take_out(line_entry& entry) noexcept {
  entry.for_each_limiter([&](const detail::limiter_spec& limiter, std::string_view s) {
    if (limiter.has_cool_down)
      cooled_lines_.erase({cool_downs_.key_of(limiter.resource_id, s), &entry});
  });
  const auto found = entries_.find(&entry);
  std::unique_ptr<line_entry> taken = std::move(found->second);
  entries_.erase(found);
  return taken;
}

/// The end of every event of a line: keeps the checks to start, starts the give-backs, and puts the
/// line at its new time in the agenda. Moves an idle line to `out`.
void waiting_room::put(line_entry& entry, room_orders& out) {
  held_.splice(held_.end(), out.starts);
  if (!out.returns.empty()) {
    // Under the mutex, so that no batch is sent between two give-backs in the wrong order.
    std::vector<check*> give_backs;
    for (returned& one : out.returns) give_backs.push_back(&entry.make_give_back(std::move(one)));
    returns_.add(entry.limiter->store->get_executor(), std::move(give_backs),
                 [this, core = entry.limiter] { returns_are_sent(core); });
    ++unsent_returns_;
    out.returns.clear();
  }
  agenda_.put(entry, entry.line.wakeup());
  if (entry.line.is_idle()) out.add(take_out(entry));
}

void waiting_room::update(line_entry& entry, room_orders& out) {
  put(entry, out);
  arm();
}

void waiting_room::arm() {
  const line_entry* const next = agenda_.first_due(time::max());
  const core_ptr core = next != nullptr ? next->limiter : nullptr;
  alarm_.set(agenda_.next(), [this, core] { on_timer(core); });
}

// ---- outside the mutex

void waiting_room::carry_out(const core_ptr& core, room_orders& out) {
  start_held(core);
  delivery_batch::post(core->store->get_executor(), std::move(out.completed));
}

void waiting_room::returns_are_sent(const core_ptr& core) {
  std::shared_ptr<void> let_go;
  {
    const std::lock_guard lock(mutex_);
    --unsent_returns_;
    if (may_end()) let_go = std::move(keep_alive_);
  }
  start_held(core);
}

/// Starts the checks that the lines have brought. Reservations are given back first; otherwise the
/// store would place new ones behind them. One thread at a time starts, which keeps the order and
/// bounds the recursion: a memory store answers inside start(). After `most_rounds` rounds the
/// store's executor continues, so that one caller does not serve all others.
void waiting_room::start_held(const core_ptr& core) {
  std::array<check*, 64> some;  // no vector, which may find no memory
  for (int round = 0; round < most_rounds; ++round) {
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      if (round == 0 && is_starting_) return;
      for (; unsent_returns_ == 0 && count < some.size() && !held_.empty(); ++count) {
        check& c = *(some[count] = &held_.front());
        held_.pop_front();
        find(c)->line.started();
        c.flight.room.place = room_note::at_store;
      }
      is_starting_ = count > 0;
      if (!is_starting_) return;
    }
    try {
      core->store->start_all(std::span(some.data(), count));
    } catch (...) {  // out of memory: this thread starts no more
      const std::lock_guard lock(mutex_);
      is_starting_ = false;
      throw;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    is_starting_ = false;
  }
  boost::asio::post(core->store->get_executor(), [this, core] { start_held(core); });
}

std::size_t waiting_room::lines() const {
  const std::lock_guard lock(mutex_);
  return entries_.size() + direct_.size();
}

}  // namespace weir::waiting

#pragma once

#include <vector>

#include "check/flight.hpp"
#include "waiting/max_wait.hpp"
#include "waiting/waiter.hpp"
#include "weir/limiter_options.hpp"

namespace weir::waiting {

/// The part of limiter_options that concerns waiting.
struct line_rules {
  std::size_t max_waiting;
  on_overflow overflow;
  std::chrono::microseconds priority_aging;
  /// How long a waiter whose check failed waits before it asks again.
  std::chrono::microseconds retry_interval = std::chrono::milliseconds{250};
  std::chrono::microseconds same_end = waiting::same_end;

  /// True if another caller may come. A check at the store may turn out to go before a waiter: then
  /// on_overflow::drop_lowest_priority drops the waiter.
  bool have_room(std::size_t waiting, std::size_t at_store) const noexcept {
    return waiting + (overflow == on_overflow::refuse_new ? at_store : 0) < max_waiting;
  }
};

/// How many answers to the checks of a line are due, those to stand-ins included.
struct answers_due {
  std::size_t all = 0, of_stand_ins = 0;

  std::size_t of_callers() const noexcept { return all - of_stand_ins; }
  /// The store has finished this check. The stand-in of one that has left is answered later, or has
  /// been answered on another thread.
  void finished(const detail::check& c) noexcept {
    if (c.flight.left_stand_in) {
      ++of_stand_ins;
    } else {
      --all;
      of_stand_ins -= c.flight.is_detached;
    }
  }
};

/// A reservation that goes back.
struct returned {
  reservation held;
  std::int64_t cost;
  detail::check* caller = nullptr;  // a caller's check that ends after the give-back
};

/// What a line tells its room to do.
struct orders {
  std::vector<returned> returns;  // before any start
  detail::check_list starts;      // checks to start in the store, in this order
  detail::check_list completed;   // checks with their results
};

/// The callers of acquire() for one subject of one limiter: those whose checks are at the store,
/// and those that have to wait. The line has no timer, lock or clock; it tells its room what to do
/// through `orders`.
///
/// Each caller's check goes to the store, unless a reservation of its cost is about to go back:
/// then the caller takes that. A check whose reservation lies ahead becomes a waiter. Reservations
/// of one cost are interchangeable: when one is due, the waiter first in rank exchanges its own for
/// it; when a waiter leaves, the last one is given back. A reservation that a new cool-down covers
/// is given back, and its waiter asks again: if all covered waiters went at the end of the
/// cool-down, more would pass there than the policy allows. A reservation that was asked for with
/// the cool-down known, or made by the fallback, is only postponed to the end.
///
/// A waiter whose check failed because the store is unreachable asks again until max_wait has
/// passed.
///
/// The room serialises all calls, calls on_time() at wakeup(), and for each check of
/// orders::starts calls started() once, before the store can know of it, and answered() once, when
/// the store has finished it.
class waiter_line final {
 public:
  using time = detail::check::steady_time;

  waiter_line(const line_rules& rules, answers_due due) noexcept : rules_(rules), due_(due) {}
  waiter_line(const waiter_line&) = delete;
  waiter_line& operator=(const waiter_line&) = delete;

  /// A caller comes. `arrival` grows with each one. If arrive() throws, the line does not have the
  /// check if this is still `outside`.
  void arrive(detail::check& c, std::uint64_t arrival, time now, orders& out);
  /// A caller whose check the room starts itself: the line must be calm.
  void add_direct(detail::check& c) noexcept {
    ++due_.all;
    stamp(c);
  }
  /// Such a check has its result.
  void drop_direct(const detail::check& c) noexcept { due_.finished(c); }
  /// True if a caller may go past the line: nobody waits, and nothing has to reach the store first.
  bool is_calm() const noexcept { return waiting_count_ + unstarted_ == 0 && returns_.empty(); }
  std::size_t waiting() const noexcept { return waiting_count_; }
  bool has_room() const noexcept { return rules_.have_room(waiting_count_, due_.of_callers()); }

  /// Cancels a check that is not at the store. With only_unsent, one that has a reservation stays.
  void leave(detail::check& c, detail::cancel_scope scope, time now, orders& out);
  void started() noexcept { --unstarted_; }
  /// The store has finished a caller's check, or the stand-in of one. `cool_down`: the end of one
  /// that began meanwhile. After an exception, a check that is still `at_store` is the room's.
  void answered(detail::check& c, time cool_down, time now, orders& out);
  void on_time(time now, orders& out);
  /// Applies a cool-down that lasts until `until`.
  void cool_down(time until, time now, orders& out);
  /// Ends the cool-down, also for answers to what was asked so far. Reservations that it has
  /// postponed stay postponed.
  void forget_cool_down() noexcept {
    cool_down_until_ = cool_down_begun_ = {};
    ++forgotten_;
  }

  /// Called when the store closes, and again after each answer. Ends the waiters when no answer is
  /// due, so that the last reservation goes back first.
  void close(orders& out);
  /// Ends a check that is in the line.
  void tell(detail::check& c, error_code ec, orders& out) noexcept;

  /// When to call on_time(); time::max(): never.
  time wakeup() const;
  /// True if nobody waits, no answer is due, and nothing is to be given back.
  bool is_idle() const noexcept { return waiting_count_ + due_.all == 0 && returns_.empty(); }
  /// Moves the checks of waiters to `out.completed`, without a result, and forgets those at the
  /// store.
  void abandon(orders& out) noexcept;

 private:
  void drop_last(orders& out);
  void let_in(waiter& w) noexcept;
  void let_out(waiter& w) noexcept;
  void settle_event(time now, orders& out);
  void exchange_returns() noexcept;
  std::vector<returned>::iterator find_return(std::int64_t cost, time latest, time now) noexcept;
  void take_return(waiter& w, std::vector<returned>::iterator which, time now) noexcept;
  void ask(detail::check& c, orders& out) noexcept;
  void ask_again(waiter& w, bool replaces, time now, orders& out) noexcept;
  void withdraw(waiter& w);
  void take_answer(detail::check& c, time now, orders& out);
  void take_failure(detail::check& c, time now, orders& out);
  void note_cool_down(time until) noexcept;
  void stamp(detail::check& c) const noexcept;
  reservation reservation_of(detail::check& c, time now) noexcept;
  waiter& waiter_for(detail::check& c);
  void keep_order(reservation& one, time latest, time sent, time now) const noexcept;
  void postpone(time now, orders& out);
  void request_again(waiter& owner, time now, orders& out);
  void complete_due(time now, orders& out) noexcept;
  void exchange(waiter& a, waiter& b) noexcept;
  void insert(waiter& w) noexcept;
  static void remove(waiter& w) noexcept;
  /// Null if no waiter of this cost has a reservation.
  waiter* last_of_cost(std::int64_t cost) noexcept;
  void tell(detail::check& c, const joint_decision& answer, orders& out) noexcept;
  void finish(detail::check& c, orders& out) noexcept;

  const line_rules rules_;
  answers_due due_;
  std::size_t unstarted_ = 0;  // of these, to checks that the room has still to start
  waiters_by_rank waiting_;    // but for those that ask again
  std::size_t waiting_count_ = 0;
  waiters_by_due reservations_;
  waiters_by_cost_and_due reservations_by_cost_;
  waiters_by_cost_and_rank with_reservation_;
  std::uint64_t reservations_made_ = 0;
  time cool_down_until_{};
  time cool_down_begun_{};        // its end as it was known first
  std::uint32_t cool_downs_ = 0;  // how many were noted
  std::uint32_t forgotten_ = 0;   // the calls of forget_cool_down()
  bool closed_ = false;
  waiter_list to_repeat_, asking_again_;
  std::vector<returned> returns_;  // reservations to give back
};

}  // namespace weir::waiting

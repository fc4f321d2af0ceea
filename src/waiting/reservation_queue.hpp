#pragma once

#include "waiting/max_wait.hpp"
#include "waiting/reservation_request.hpp"
#include "weir/limiter_options.hpp"

namespace weir::waiting {

/// The part of limiter_options that concerns waiting.
struct queue_rules {
  std::size_t max_waiting;
  on_overflow overflow;
  std::chrono::microseconds priority_aging;
  /// Between two requests of a waiter while the store fails.
  std::chrono::microseconds retry_interval = std::chrono::milliseconds{250};
  std::chrono::microseconds same_end = waiting::same_end;
};

/// The waiters of one subject of one limiter. Each has a request, a reservation, or a failed
/// request to repeat. The queue has no timer, lock or clock; it tells its driver what to do through
/// `orders`.
///
/// Each waiter makes one request when it comes, unless a reservation of its cost is about to
/// go back: then it takes that. Reservations of one cost are interchangeable: when a reservation is
/// due, the waiter first in rank exchanges its own for it; when a waiter leaves, the last
/// reservation is given back. A reservation that a new cool-down covers is given back, and its
/// waiter makes a new request: if all covered waiters went at the end of the cool-down, more would
/// pass there than the policy allows. A reservation that was requested with the cool-down known, or
/// made by the fallback, is only postponed to the end.
///
/// A request that failed because the store is unreachable is repeated until max_wait has passed.
///
/// The driver serialises all calls, calls on_time() at wakeup(), and for each request of
/// orders::starts calls started() once, before the store can know of it, and answered() once, when
/// the store has finished it.
class reservation_queue final {
 public:
  using time = detail::check::steady_time;

  explicit reservation_queue(const queue_rules& rules) noexcept : rules_(rules) {}
  reservation_queue(const reservation_queue&) = delete;
  reservation_queue& operator=(const reservation_queue&) = delete;

  /// `arrival` grows with each call. If arrive() throws, the queue has the check only if the check
  /// is done or its `queued` is not null.
  void arrive(detail::check& c, std::uint64_t arrival, time now, orders& out);
  /// Takes in a check that came at `came`. The store's answer to it is in `request`. For
  /// exceptions, see arrive().
  void arrive_answered(detail::check& c, const request_ptr& request, std::uint64_t arrival,
                       time came, time now, orders& out);
  /// Notes that a request without a waiter is at the store; answered() follows.
  void expect_answer() noexcept { ++pending_requests_; }
  /// How many checks of the subject are at the store without being in this queue. They count as
  /// waiters, and their answers are due.
  void set_direct_checks(std::size_t n) noexcept { direct_ = n; }
  /// Cancels a waiter that has no result yet. With only_unsent, a waiter stays if its request was
  /// sent or has become a reservation.
  void leave(detail::check& c, detail::cancel_scope scope, time now, orders& out);
  void started() noexcept { --unstarted_requests_; }
  void answered(reservation_request& request, time now, orders& out);
  void on_time(time now, orders& out);
  /// Applies a cool-down that lasts until `until`.
  void cool_down(time until, time now, orders& out);
  /// Ends the cool-down, also for answers to the requests made so far. Reservations that it has
  /// postponed stay postponed.
  void forget_cool_down() noexcept {
    cool_down_until_ = {};
    ++forgotten_;
  }

  /// That of a waiter; null if there is none.
  std::shared_ptr<const detail::limiter_spec> limiter() const noexcept {
    return waiting_.empty() ? nullptr : waiting_.begin()->caller->limiter;
  }
  /// Called when the store closes, and again after each answer. Ends the waiters when no answer is
  /// due, so that the last reservation goes back first.
  void close(orders& out);

  /// When to call on_time(); time::max(): never.
  time wakeup() const;
  /// True if the queue has no waiter, no pending request and nothing to give back.
  bool is_idle() const noexcept {
    return waiting_count_ + pending_requests_ == 0 && returns_.empty();
  }
  /// Moves all waiters' checks to `out.told`, without a result, and all reservations to
  /// `out.returns`.
  void abandon(orders& out);

 private:
  void let_in(waiter& w) noexcept;
  void enter(waiter& w, time now, orders& out);
  void overflow(waiter& w, time now, orders& out);
  void settle_event(time now, orders& out);
  void exchange_returns() noexcept;
  void reserve_for(waiter& w, time now, orders& out);
  bool take_return(waiter& w, time now) noexcept;
  void request_for(waiter& w, time now, orders& out);
  void withdraw(waiter& w, orders& out);
  void cancel_request(waiter& w, detail::cancel_scope scope, orders& out);
  void take_answer(reservation_request& request, time now, orders& out);
  void keep_order(reservation_request& request, time latest, time now);
  void take_failure(waiter& w, reservation_request& request, time now, orders& out);
  void postpone(time now, orders& out);
  void request_again(reservation_request& reservation, time now, orders& out);
  void complete_due(time now, orders& out);
  static void exchange(waiter& a, waiter& b) noexcept;
  void insert(reservation_request& reservation) noexcept;
  static void remove(reservation_request& reservation) noexcept;
  /// Null if there is none of this cost.
  reservation_request* last_of_cost(std::int64_t cost) noexcept;
  void tell(waiter& w, const decision& answer, orders& out);
  void tell(waiter& w, error_code ec, orders& out);
  void finish(waiter& w, orders& out);

  bool has_answers_due() const noexcept { return pending_requests_ + direct_ > 0; }
  bool has_room() const noexcept { return waiting_count_ + direct_ < rules_.max_waiting; }

  const queue_rules rules_;
  std::size_t direct_ = 0;  // see set_direct_checks()
  waiters_by_rank waiting_;
  std::size_t waiting_count_ = 0;
  std::size_t pending_requests_ = 0;
  std::size_t unstarted_requests_ = 0;  // of these
  reservations_by_time reservations_;
  reservations_by_cost reservations_by_cost_;
  waiters_by_cost with_reservation_;
  std::uint64_t reservations_made_ = 0;
  time cool_down_until_{};
  std::uint32_t forgotten_ = 0;  // the calls of forget_cool_down()
  bool closed_ = false;
  waiters_to_repeat to_repeat_;
  std::vector<request_ptr> returns_;  // reservations to give back
};

}  // namespace weir::waiting

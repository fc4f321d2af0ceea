#pragma once

#include "waiting/reservation_request.hpp"
#include "weir/limiter_options.hpp"

namespace weir::detail {

/// What limiter_options say of waiting.
struct queue_rules {
  std::size_t max_waiting;
  on_overflow overflow;
  std::chrono::microseconds priority_aging;
  std::chrono::microseconds retry_interval = std::chrono::milliseconds{
      250};  // while the store is away
};

/// The waiters of one subject of one limiter. Inside are those for whom the store is being asked
/// and those with a turn; outside are those that found no room. Without timers, locks or a clock;
/// what is to be done comes out as orders.
///
/// A turn is asked for when a waiter comes in. Turns of one cost are the same to the store, whoever
/// booked them: so when one comes, the first in rank has it, in exchange for its own; and when a
/// waiter leaves, the last of them is given back. A turn that lies in a cool-down waits for its
/// end, so that no exchange lets anybody go inside it.
///
/// A question that failed because the store is away is asked again for as long as its waiter has
/// patience.
///
/// Whoever drives it serialises the calls, calls on_time() when wakeup() says so, and answered()
/// once for every ask that it was told to start, when the store is done with that.
class reservation_queue final {
 public:
  using time = check::steady_time;

  /// More than that stand outside for no subject; on_overflow::block.
  static constexpr std::size_t max_outside = 1'000'000;

  explicit reservation_queue(const queue_rules& rules) noexcept : rules_(rules) {}
  reservation_queue(const reservation_queue&) = delete;
  reservation_queue& operator=(const reservation_queue&) = delete;

  /// `arrival`: larger for each that comes.
  void arrive(check& c, std::uint64_t arrival, time now, orders& o);
  /// Of one that is not told yet. With only_unsent it may stay.
  void leave(check& c, cancel_scope scope, time now, orders& o);
  void answered(reservation_request& a, time now, orders& o);
  void on_time(time now, orders& o);
  /// A cool-down lasts until then.
  void hold(time until, time now, orders& o);

  /// The store is closing: all leave. Those inside do so together, when no answer is due: so that
  /// the last turn goes back first. To be called again after each answer.
  void close(orders& o);

  /// time::max() for never.
  time wakeup() const;
  /// Nobody waits, and no answer is due.
  bool is_idle() const noexcept { return inside_count_ + outside_count_ + asks_out_ == 0; }
  /// Drops everybody, without a result.
  void abandon(check_list& dropped);

 private:
  void let_in(waiter& w);
  void overflow(waiter& w, time now, orders& o);
  void replace(waiter& dropped, waiter& newcomer, time now, orders& o);
  void fill_up(time now, orders& o);
  void ask_for(waiter& w, time now, orders& o);
  void withdraw(waiter& w, orders& o);
  bool take_over(waiter& from, waiter& newcomer, time now);
  void hear(reservation_request& a, time now, orders& o);
  void hear_failure(waiter& w, reservation_request& a, time now, orders& o);
  void put_off(time now, orders& o);
  void hand_out_turns(time now, orders& o);
  static void exchange(waiter& a, waiter& b) noexcept;
  void tell(waiter& w, const decision& answer, orders& o);
  void tell(waiter& w, error_code ec, orders& o);
  void finish(waiter& w, orders& o);

  const queue_rules rules_;
  waiters_by_rank inside_;
  waiters_by_arrival inside_by_arrival_;
  std::size_t inside_count_ = 0;
  waiters_by_rank outside_;
  waiters_by_patience outside_by_patience_;
  std::size_t outside_count_ = 0;
  std::size_t asks_out_ = 0;
  turns_by_time turns_;
  turns_by_cost turns_by_cost_;
  waiters_by_cost with_turns_;
  std::uint64_t turns_heard_ = 0;
  time held_until_{};
  waiters_to_ask_again unanswered_;
};

}  // namespace weir::detail

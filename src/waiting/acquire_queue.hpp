#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "waiting/reservation_queue.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::detail {

/// Those who wait in acquire() of one limiter: a line for each subject that has somebody, one
/// timer, on the store's executor, and a mutex, because callers come from any thread. No lock is
/// held while a store is called or a handler is handed over. Asks reach the store in the order in
/// which the lines made them.
///
/// It belongs to its limiter, which every caller and every request keeps alive.
class acquire_queue final {
 public:
  using time = check::steady_time;
  using core_ptr = std::shared_ptr<const limiter_spec>;

  explicit acquire_queue(const queue_rules& rules) noexcept : rules_(rules) {}

  /// Takes the acquire over. It has been validated. Does not finish it inside the call.
  void arrive(check& c);
  void cancel(check& c, cancel_scope scope);
  /// The store is done with it.
  void answered(reservation_request& a, delivery how);

  /// A cool-down of the subject that this process has heard of, and how much of it is left.
  void hold(const core_ptr& core, std::string_view subject, std::chrono::microseconds pause);

  /// Until when the subject is held back, as far as this process knows.
  time held_until(std::string_view subject) const;

  /// The store is closing: ends the waiting of all, and gives their turns back. `hold` is kept
  /// until no answer is due.
  void close(const core_ptr& core, std::shared_ptr<void> hold);
  /// As shutdown_listener's.
  void context_shut_down() noexcept;

  /// Subjects for which somebody waits, or an answer is due.
  std::size_t subjects() const;

 private:
  /// A subject's line, and what this one notes of it.
  struct row {
    row(const short_text& name, const queue_rules& rules) : subject(name), line(rules) {}

    const short_text subject;
    reservation_queue line;
    time alarm = time::max();  // its place in the agenda
  };

  void on_timer(const core_ptr& core);
  row& row_of(const check& c);
  row& known_row_of(const check& c);
  void note(const core_ptr& core, row& r, orders& o);
  void arm(const core_ptr& core);
  void carry_out(const core_ptr& core, orders& o, delivery how);
  void submit(const core_ptr& core);
  void returns_are_sent(const core_ptr& core);
  void remember(std::string_view subject, time until, time now);

  const queue_rules rules_;
  reservation_returns returns_;

  mutable std::mutex mutex_;
  // Under the mutex:
  // By the rows' own texts
  boost::unordered_flat_map<std::string_view, std::unique_ptr<row>> rows_;
  std::set<std::pair<time, row*>> agenda_;
  boost::unordered_flat_map<std::size_t, time> pauses_;  // by the subjects' hashes
  time next_sweep_{};                                    // of pauses_, not before
  std::uint64_t arrivals_ = 0;
  std::vector<request_ptr> to_start_;
  bool somebody_starts_ = false;
  std::size_t unsent_returns_ = 0;  // batches; until then nothing is started
  std::optional<boost::asio::steady_timer> timer_;
  time armed_ = time::max();  // when the timer fires
  bool closed_ = false;
  bool context_gone_ = false;
  std::shared_ptr<void> hold_;  // the store's, while it is closing
};

}  // namespace weir::detail

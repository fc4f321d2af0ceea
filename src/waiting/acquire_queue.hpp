#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/agenda.hpp"
#include "base/alarm.hpp"
#include "base/hash.hpp"
#include "base/light_mutex.hpp"
#include "waiting/known_cool_downs.hpp"
#include "waiting/reservation_queue.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::waiting {

/// Runs acquire() for one limiter, or acquire_all() for one store: a reservation_queue for each
/// *line*, one timer on the store's executor, and a mutex, because callers come from any thread.
/// The mutex is not held while a store is called or a handler is handed over. Requests reach the
/// store in the order in which the queues made them.
///
/// A line is a subject of the limiter; or, for acquire_all(), a list of limiters, subjects and
/// costs, so that its reservations are interchangeable, too.
///
/// While a subject has no queue, the checks of its callers are direct: they go to the store
/// themselves, and most have their results then. The first one that has to wait gets a queue, which
/// takes it in. The functions for direct checks are in direct_checks.cpp. acquire_all() has none.
///
/// The limiter owns it, or the store. Every waiter and every request keeps its limiter alive, and
/// that keeps the store.
class acquire_queue final {
 public:
  using time = detail::check::steady_time;
  using core_ptr = std::shared_ptr<const detail::limiter_spec>;

  /// For acquire().
  explicit acquire_queue(const queue_rules& rules);
  /// For acquire_all().
  acquire_queue() noexcept : acquire_queue(joint) {}

  const queue_rules& rules() const noexcept { return rules_; }

  /// Sends a validated check to the store, or adds a waiter for it. The caller's handler does not
  /// run inside the call.
  void arrive(detail::check& c) { arrive(c, rules_); }
  /// The same for acquire_all(), by the rules of its first limiter.
  void arrive(detail::check& c, const queue_rules& rules);
  void cancel(detail::check& c, detail::cancel_scope scope);
  /// The store has finished the request.
  void answered(reservation_request& request, detail::delivery how);
  /// Called when the store has finished a direct check. False: the check has its result. True: it
  /// has to wait; the queue owns it and may finish it before the call returns.
  bool takes_in(detail::check& c);

  /// Notes a cool-down that the store reported; `left` is its remaining time.
  void cool_down(const core_ptr& core, std::string_view subject, std::chrono::microseconds left);

  /// Forgets the subject's cool-down, which a reset has ended. Waiters that it has postponed stay
  /// postponed.
  void forget_cool_down(std::string_view subject);

  /// The same two for acquire_all(), whose lines may have several limiters with cool-downs. All
  /// limiters of one resource are meant.
  void joint_cool_down(const core_ptr& core, std::string_view subject,
                       std::chrono::microseconds left);
  void forget_joint_cool_down(const core_ptr& core, std::string_view subject);

  /// Called when the store closes: ends all waiting and gives the reservations back. `keep_alive`
  /// keeps the store alive until no answer is due.
  void close(std::shared_ptr<void> keep_alive);
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

  /// The number of lines with a queue, plus the number of subjects with direct checks.
  std::size_t lines() const;

 private:
  /// A resource and the hash of a subject.
  using cooled = std::pair<std::uint64_t, std::uint64_t>;
  /// A line and its queue.
  struct line_entry : detail::agenda_entry {
    line_entry(std::string_view text, const queue_rules& rules) : name(text), queue(rules) {}

    const detail::short_text name;
    std::vector<cooled> cooled_by;  // of acquire_all(): whose cool-downs concern it
    reservation_queue queue;
  };
  enum joint_tag { joint };
  explicit acquire_queue(joint_tag) noexcept;

  bool goes_directly(detail::check& c);
  void count_off(const detail::check& c) noexcept;
  bool take_in(detail::check& c);
  void let_wait(line_entry& entry, detail::check& c, std::optional<detail::cancel_scope> cancelled,
                orders& out);
  void tell_of_direct_checks(line_entry& entry) const noexcept;
  request_ptr successor_of(detail::check& c);
  void end_direct(const core_ptr& core, detail::check& c, const request_ptr& successor);
  static bool is_direct(const detail::check& c) noexcept;
  static void note_total(detail::check& c) noexcept;

  static time clock_now() noexcept { return std::chrono::steady_clock::now(); }
  std::uint64_t next_arrival(time now) noexcept;
  void on_timer(const core_ptr& core);
  void start(const core_ptr& core);
  std::string_view line_of(const detail::check& c, std::string& room) const;
  line_entry& entry_of(const detail::check& c, const queue_rules& rules);
  std::vector<line_entry*> all_lines();
  template <class F>
  void for_joint_lines(const core_ptr& core, std::string_view subject, F f);
  line_entry& known_entry_of(const detail::check& c);
  static line_entry& entry_of(const reservation_request& request) noexcept;
  void remove(line_entry& entry) noexcept;
  void update(const core_ptr& core, line_entry& entry, orders& out);
  void put(const core_ptr& core, line_entry& entry, orders& out);
  void take_answer(const core_ptr& core, reservation_request& request, orders& out);
  std::vector<request_ptr> take_to_start(const core_ptr& core, orders& out);
  void arm(const core_ptr& core);
  /// No answer and no give-back is due.
  bool may_end() const noexcept {
    return entries_.empty() && direct_.empty() && unsent_returns_ == 0;
  }
  void carry_out(const core_ptr& core, orders& out, detail::delivery how);
  void submit(const core_ptr& core);
  void returns_are_sent(const core_ptr& core);

  const queue_rules rules_;
  const bool is_joint_;
  // False if a full queue may drop waiters: all of them have to be in it.
  const bool has_direct_checks_;
  reservation_returns returns_;

  mutable detail::light_mutex mutex_;
  // The mutex guards all members below.
  // The keys are views of line_entry::name.
  boost::unordered_flat_map<std::string_view, std::unique_ptr<line_entry>, detail::key_hash>
      entries_;
  // How many direct checks each subject has, by its hash.
  const detail::key_hash hash_;
  boost::unordered_flat_map<std::uint64_t, std::size_t> direct_;
  std::set<std::pair<cooled, line_entry*>> cooled_lines_;
  detail::agenda<line_entry> agenda_;
  detail::alarm alarm_;  // stopped once the context is gone
  known_cool_downs cool_downs_;
  std::uint64_t last_arrival_ = 0;    // see acquire_request::arrival
  std::uint64_t last_cool_down_ = 0;  // the last arrival before the last cool-down began
  std::vector<request_ptr> to_start_;
  bool is_submitting_ = false;
  std::size_t unsent_returns_ = 0;  // calls of returns_.add(); no request starts before these
  bool closed_ = false;
  std::shared_ptr<void> keep_alive_;  // keeps the closing store until may_end()
};

}  // namespace weir::waiting

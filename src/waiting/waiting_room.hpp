#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/agenda.hpp"
#include "base/alarm.hpp"
#include "base/hash.hpp"
#include "base/light_mutex.hpp"
#include "waiting/known_cool_downs.hpp"
#include "waiting/line_entry.hpp"
#include "waiting/reservation_returns.hpp"

namespace weir::waiting {

/// Runs acquire() for one limiter, or acquire_all() for one store: a waiter_line for each *line*,
/// one timer on the store's executor, and a mutex, because callers come from any thread. The mutex
/// is not held while a store is called or a handler is handed over.
///
/// A line is a subject of the limiter; or, for acquire_all(), a list of limiters, subjects and
/// costs, so that its reservations are interchangeable, too.
///
/// Each caller's own check goes to the store, and most have their results then. Only what the room
/// has to wait for gets a waiter_line: a reservation ahead, a repetition, a give-back.
///
/// The limiter owns it, or the store. Every check and every line keeps its limiter alive, and that
/// keeps the store.
class waiting_room final {
 public:
  using time = detail::check::steady_time;
  using core_ptr = std::shared_ptr<const detail::limiter_spec>;

  /// Sends a validated check to the store, or has it wait. `rules` are those of its first limiter.
  /// The caller's handler does not run inside the call.
  void arrive(detail::check& c, const line_rules& rules);
  void cancel(detail::check& c, detail::cancel_scope scope);
  /// Called when the store has finished a check of this room, or the stand-in of one. False: the
  /// check has its result. True: the room has it, and may finish it before the call returns.
  bool takes(detail::check& c, const line_rules& rules);

  /// Notes a cool-down that the store reported; `left` is its remaining time. All limiters of one
  /// resource are meant.
  void cool_down(const core_ptr& core, std::string_view subject, std::chrono::microseconds left);
  /// Forgets the subject's cool-down, which a reset has ended. Waiters that it has postponed stay
  /// postponed.
  void forget_cool_down(const core_ptr& core, std::string_view subject);

  /// Called when the store closes: ends all waiting and gives the reservations back. `keep_alive`
  /// keeps the store alive until no answer is due.
  void close(std::shared_ptr<void> keep_alive);
  /// See shutdown_listener::context_shut_down().
  void context_shut_down() noexcept;

  /// How many callers wait in lines.
  std::size_t waiting() const;

  /// The number of waiter_lines, plus the number of other lines with checks at the store.
  std::size_t lines() const;

 private:
  static time clock_now() noexcept { return std::chrono::steady_clock::now(); }
  std::uint64_t next_arrival(time now) noexcept;
  void start(const core_ptr& core);
  bool goes_directly(detail::check& c, const line_rules& rules);
  bool ends_here(detail::check& c);
  bool take_in(detail::check& c, const line_rules& rules);
  void take_answer(detail::check& c, const line_rules& rules, room_orders& out);
  void count_off(const detail::check& c) noexcept;
  time cool_down_of(const detail::check& c) const;
  /// Null if the check's line has no entry. A line has one while a check waits in it.
  line_entry* find(const detail::check& c) const noexcept {
    return entries_.empty() ? nullptr : find_entry(c);
  }
  line_entry* find_entry(const detail::check& c) const noexcept;
  line_entry& entry_of(const detail::check& c, const line_rules& rules);
  std::unique_ptr<line_entry> take_out(line_entry& entry) noexcept;
  std::vector<line_entry*> lines_of(std::uint64_t key) const;
  void put(line_entry& entry, room_orders& out);
  void update(line_entry& entry, room_orders& out);
  void arm();
  /// No answer and no give-back is due.
  bool may_end() const noexcept {
    return entries_.empty() && direct_.empty() && unsent_returns_ == 0;
  }
  void on_timer(const core_ptr& core);
  void carry_out(const core_ptr& core, room_orders& out);
  void start_held(const core_ptr& core);
  void returns_are_sent(const core_ptr& core);

  reservation_returns returns_;

  mutable detail::light_mutex mutex_;
  // The mutex guards all members below.
  const line_hash hash_;
  boost::unordered_flat_map<const line_entry*, std::unique_ptr<line_entry>, line_hash, line_equal>
      entries_{0, hash_};
  // What is due to lines that are not in entries_, by their hashes.
  boost::unordered_flat_map<std::uint64_t, answers_due> direct_;
  std::set<std::pair<std::uint64_t, line_entry*>> cooled_lines_;  // by known_cool_downs::key_of()
  detail::agenda<line_entry> agenda_;
  detail::alarm alarm_;  // stopped once the context is gone
  known_cool_downs cool_downs_;
  std::uint64_t last_arrival_ = 0;    // see acquire_request::arrival
  std::uint64_t last_cool_down_ = 0;  // the last arrival before the last cool-down began
  detail::check_list held_;           // checks to start
  bool is_starting_ = false;          // a thread starts them
  std::size_t unsent_returns_ = 0;    // calls of returns_.add(); no check starts before these
  bool closed_ = false;
  std::shared_ptr<void> keep_alive_;  // keeps the closing store until may_end()
};

}  // namespace weir::waiting

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "check/flight.hpp"
#include "check/give_back.hpp"
#include "link/circuit_breaker.hpp"
#include "link/deadline_wheel.hpp"
#include "weir/detail/check.hpp"
#include "weir/error.hpp"
#include "weir/stats.hpp"

namespace weir::detail {

/// A check's share of max_pending. It grows with the subjects' lengths, so that the bound holds for
/// memory, too.
inline std::size_t weight_of(const check& c) noexcept {
  constexpr std::size_t unit = 1024;
  std::size_t bytes = c.subject.view().size();
  for (const term& t : c.further()) bytes += t.subject.view().size();
  return 1 + bytes / unit;
}

/// False for checks without a caller, and for urgent ones: these wait for the next connection.
inline bool may_end_at_once(const check& c) noexcept {
  return !c.flight.is_detached && !c.traits.is_urgent;
}

/// The check's own timeout, within bounds, or the usual one.
inline std::chrono::microseconds timeout_of(const check& c,
                                            std::chrono::microseconds usual) noexcept {
  using std::chrono::microseconds;
  constexpr std::chrono::hours longest{24};  // far from where time points overflow
  if (c.timeout.count() == 0) return usual;
  return std::min<microseconds>(c.timeout, longest);
}

/// For a check whose deadline has passed while the process stood still for `late`: puts it off by
/// as long, at most by the check's timeout. False if that was done before.
inline bool put_off(check& c, std::chrono::steady_clock::time_point now,
                    std::chrono::steady_clock::duration late,
                    std::chrono::microseconds usual) noexcept {
  in_flight& f = c.flight;
  if (late.count() == 0 || f.was_put_off) return false;
  f.was_put_off = true;
  f.deadline = now + std::min<std::chrono::steady_clock::duration>(late, timeout_of(c, usual));
  return true;
}

/// True for a check that may wait beyond max_pending: otherwise leases would be lost. Give-backs
/// and requests that replace a reservation are bounded by the number of reservations.
inline bool is_beyond_bound(const check& c) noexcept {
  return c.traits.is_urgent || c.traits.gives_back || c.flight.replaces;
}

/// The part of a pipeline that does not depend on the protocol: decides which checks may wait,
/// keeps their deadlines and the circuit breaker, and ends them. The pipeline itself keeps the
/// lists of checks.
class admission {
 public:
  using time = std::chrono::steady_clock::time_point;

  /// Ends a check with operation_aborted, unless it is done already or the scope forbids it. A sent
  /// acquire leaves a stand-in; without memory for one, it is not ended.
  void cancel(check& c, cancel_scope scope);

  /// Sets why checks wait: the error of the last attempt to connect, or why the server does not
  /// serve. Until there is a connection or the server serves again, a check gets it at its deadline
  /// instead of timed_out, and new checks get it at once if there is no connection. Zero: unknown.
  void suspect(error why) noexcept { suspicion_ = why; }
  /// Sets the error that the attempt to connect has if it goes no further; zero: unknown. Checks
  /// get it at their deadlines if no attempt has failed before.
  void attempting(error step) noexcept { step_ = step; }

  check_list take_done() {
    check_list taken;
    taken.swap(done_);
    return taken;
  }
  bool has_done() const noexcept { return !done_.empty(); }
  /// In units of max_pending.
  std::size_t pending() const noexcept { return pending_; }
  /// True if no check is pending and take_done() is empty.
  bool is_idle() const noexcept { return pending_ == 0 && done_.empty(); }
  bool is_circuit_open() const noexcept { return breaker_.is_open(); }
  /// For store::stats().
  void read(connection_stats& into) const {
    into.pending = pending_;
    into.requests = requests_;
    into.checks = checks_;
    into.round_trips = round_trips_;
  }

 protected:
  /// Takes the bounds from a pipeline's options.
  template <class Options>
  explicit admission(const Options& o)
      : max_pending_(o.max_pending),
        timeout_(o.timeout),
        breaker_(o.breaker_failures, o.timeout, o.breaker_pause) {}
  ~admission() = default;

  // How a check begins.

  /// Counts a new check and sets its deadline. Returns zero if the check may wait, else the error
  /// with which the caller finishes it. `obstacle` is the pipeline's own reason. A single check of
  /// any weight may wait.
  error admit(check& c, time now, error obstacle = {}) {
    const std::size_t before = pending_, weight = weight_of(c);
    pending_ += weight;
    c.flight.deadline = now + timeout_of(c, timeout_);
    if (refuses(c)) return refusal_;
    if (obstacle != error{}) return obstacle;
    const bool fits = before + weight <= max_pending_ || before == 0 || is_beyond_bound(c);
    // With an open circuit, the failing store is the reason for too many pending checks.
    if (!fits) return breaker_.is_open() ? error::circuit_open : error::overloaded;
    return {};
  }
  /// True if an admitted check may wait. Otherwise ask why_not_wait().
  bool is_served() const noexcept { return connected_ && !breaker_.is_open(); }
  /// Why a new check may not wait for a server that does not answer; zero: it may.
  error why_not_wait(const check& c, time now) noexcept;
  /// True if the check must fail with refusal_. A closed store still takes give-backs and leaves;
  /// give-backs of reservations wait for the next connection within their deadlines, whatever
  /// refusal_ is.
  bool refuses(const check& c) const noexcept {
    if (refusal_ == error{}) return false;
    return ended_ || !(closed_ ? c.traits.gives_back : settles(c) && c.traits.gives_back);
  }
  /// For a sent check that certainly did not run: makes it wait, or ends it if it must not be sent
  /// again.
  void unsend(check& c);

  // How a check ends.

  /// Takes a check out of its list, the wheel and the count.
  void release(check& c) noexcept {
    c.line.unlink();
    deadline_wheel::remove(c);
    pending_ -= weight_of(c);
  }
  /// If there is an error, drops the answer, which memcached did not store.
  void finish(check& c);
  void finish(check& c, error e);
  /// Ends all checks of a list that hold their answers or errors.
  void finish_all(check_list& list) {
    for (check& c : list) {
      deadline_wheel::remove(c);
      c.flight.stage = check_stage::done;
      pending_ -= weight_of(c);
    }
    done_.splice(done_.end(), list);
  }
  void finish_all(check_list& list, const error_code& e) {
    while (!list.empty()) {
      check& c = list.front();
      c.ec = e;
      finish(c);
    }
  }
  template <class Predicate>
  void finish_if(check_list& list, error e, Predicate&& ends) {
    for (auto it = list.begin(); it != list.end();) {
      check& c = *it++;
      if (ends(c)) finish(c, e);
    }
  }
  /// Ends checks whose connection was lost after they had been sent.
  void fail_sent(check_list& list, error reason, time now);
  void end_late(check& c);
  /// True if `late` is so long that round trips must not be judged by it. Timers of a busy process
  /// are often some milliseconds late; then its replies are read late, too, and that is the truth.
  bool process_was_suspended(time::duration late) const noexcept { return 8 * late >= timeout_; }
  /// Takes the time in which the process stood still out of a call's round trip, once: its reply
  /// may have come meanwhile. The timer may have been set a while ahead, so it is twice `late`.
  template <class Call>
  static void take_out(Call& c, time now, time::duration late) noexcept {
    if (!std::exchange(c.was_put_off, true)) c.sent += std::min(2 * late, now - c.sent);
  }
  /// Ends all checks whose deadlines have passed. `is_quiet`: no reply is due, and no write is
  /// under way. `late`: how long the process stood still meanwhile; such a check gets as long
  /// again, once and at most its timeout, because its answer may have come.
  void expire_checks(time now, bool is_quiet, time::duration late);

  // What happens to the connection and the store.

  void begin_connection() noexcept;
  /// Notes an answer, which may be an error, and closes the circuit if it came within the store's
  /// own timeout. The check's own deadline does not matter for that.
  void note_answer(time sent, time now) noexcept {
    round_trips_.add(std::chrono::duration_cast<std::chrono::microseconds>(now - sent));
    if (now - sent > timeout_) return;
    last_answer_ = now;
    breaker_.succeeded();
  }
  /// New checks fail with `reason` until the next connection.
  void refuse(error reason) noexcept { refusal_ = closed_ ? error::store_closed : reason; }
  /// False if it was closed before.
  bool begin_close() noexcept;
  /// Ends the unsent checks of a closed store, except give-backs.
  void close_unsent(check_list& list);
  /// Ends the sent checks of a closed store, except give-backs and acquires.
  void close_sent(check_list& list);

  std::size_t max_pending_;
  std::chrono::microseconds timeout_;
  deadline_wheel wheel_;
  circuit_breaker breaker_;
  check_list done_;
  std::size_t pending_ = 0;
  time last_answer_ = time::min();  // the last answer that came within the timeout
  bool connected_ = false;
  error suspicion_{};  // if not zero, replaces timed_out; see suspect()
  error step_{};       // likewise; see attempting()
  error refusal_{};    // if not zero, fails new checks
  bool closed_ = false;
  bool ended_ = false;
  std::uint64_t requests_ = 0, checks_ = 0;  // sent so far
  duration_histogram round_trips_;

 private:
  bool leave_stand_in(check& c) noexcept;
  bool shows_failure(const check& c, time since, bool is_quiet) const noexcept;
};

}  // namespace weir::detail

#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "check/check_list.hpp"
#include "redis/circuit_breaker.hpp"
#include "redis/coalescer.hpp"
#include "redis/deadline_wheel.hpp"
#include "redis/resp_reader.hpp"
#include "redis/script_call.hpp"
#include "redis/scripts.hpp"
#include "redis/send_window.hpp"

namespace weir::net {

/// The life of checks on one multiplexed connection, without sockets, clocks or locks:
///
///     waiting --> staged --> written --> done        submit, next_write, write_done, consume
///
/// waiting: in line. staged: encoded in the write under way. written: sent, a reply is due.
/// Deadlines and cancellation take a check out at any stage; a reply's place stays, so that later
/// replies still reach their own callers. A check whose script certainly did not run (no such
/// script, the server is loading or busy, the write was cut short) goes back to waiting.
///
/// Under way is no more than the server answers soon, and a check whose answer would most likely
/// come after its deadline is not sent: send_window. One call at least is under way while any
/// waits.
///
/// Whoever drives it does the I/O, passes the time, serialises the calls, and hands the checks of
/// take_done() to their callers.
class pipeline {
 public:
  using time = std::chrono::steady_clock::time_point;

  struct options {
    std::size_t max_pending = 100'000;
    std::size_t max_keys_per_call = 64;
    std::chrono::microseconds timeout = std::chrono::milliseconds{500};
    std::size_t breaker_failures = 0;
    std::chrono::milliseconds breaker_pause{500};
  };

  explicit pipeline(const options& o)
      : options_(o),
        coalescer_(o.max_keys_per_call),
        breaker_(o.breaker_failures, o.timeout, o.breaker_pause),
        window_(o.timeout, full_write()) {}

  // Callers.

  /// Takes a check in, or finishes it at once (into take_done()) when it cannot wait: overloaded,
  /// closed, refused, or left alone by the circuit breaker.
  ///
  /// Renewals and leaves of leases go before all others, and are never turned away as too many:
  /// there is one of each for a lease at the most. A lease's own enter has been answered or given
  /// up before they come, so that none waits here, and what was sent of it went out earlier.
  void submit(detail::check& c, time now);
  void cancel(detail::check& c, detail::cancel_scope scope);

  // The connection.

  /// The handshake is complete; an answer took so long in it (zero: nobody knows). Scripts that the
  /// server does not have are loaded in front of the first calls of theirs.
  void connected(const redis::script_set& known = redis::script_set().set(),
                 std::chrono::microseconds round_trip = {});

  /// The connection is gone, or one could not be made. Of the write under way, `sent` bytes had
  /// been passed on. What was sent fails with outcome_unknown (protocol_error if that was the
  /// reason); the rest waits for the next connection.
  void disconnected(error reason, std::size_t sent, time now);

  /// No connection for a reason that waiting will not mend, such as a wrong password: what waits,
  /// and what comes until the next connected(), fails with it.
  void refused(error reason);

  /// What the last attempt to connect met: until connected(), a check is told so at its deadline
  /// instead of timed_out. Zero: nothing is known.
  void suspect(error why) noexcept { suspicion_ = why; }

  /// Encodes what waits, up to as much as one write should carry; `now` becomes its time of
  /// sending. Empty if there is nothing to write, or no connection, or a write under way, or enough
  /// is under way. The bytes stay valid until write_done() or disconnected().
  const std::string& next_write(time now = {});
  void write_done();

  enum class stream_state : std::uint8_t {
    good,
    broken,  ///< not RESP, or a reply that nobody asked for, or not the one that is due
    /// The server will not serve this connection (a replica, a lost login), and no reply is due:
    /// make a new.
    unwelcome,
    ///< one; nothing has been written since it said so
  };

  /// Answers checks from the replies the reader holds.
  stream_state consume(redis::reply_reader& reader, time now);

  /// Whether the server has done what a call asked of it, on this connection.
  bool has_served() const noexcept { return served_; }

  /// Has the next write ask for a sign of life.
  void ping() { ping_wanted_ = true; }

  /// Ends every check, now and later: with store_closed, or outcome_unknown if it was sent. Until
  /// end(), it still takes what gives back, and waits for the answers to that and for turns that
  /// were asked for.
  void close();
  void end();
  /// No check is pending, and none is done that take_done() has not handed over.
  bool is_idle() const noexcept { return pending_ == 0 && done_.empty(); }

  // Time.

  /// When expire() has to be called next; time::max() for never.
  time wakeup() const noexcept { return std::min(wheel_.next(), held_until_); }
  void expire(time now);

  // Results.

  detail::check_list take_done();
  /// In units of max_pending.
  std::size_t pending() const noexcept { return pending_; }
  std::size_t replies_due() const noexcept { return calls_.size(); }
  bool wants_write() const noexcept {
    return connected_ && !writing_ && !unwelcome_ &&
           (ping_wanted_ || (!held() && (!urgent_.empty() || (may_send_ && has_waiting()))));
  }

  /// Takes out everything without results: the execution context is shutting down.
  detail::check_list abandon();

 private:
  void finish(detail::check& c);
  void finish(detail::check& c, error e) {
    c.ec = e;
    finish(c);
  }
  void give_up(detail::check& c);
  void finish_all(detail::check_list& list, error e);
  std::chrono::microseconds timeout_of(const detail::check& c) const noexcept;
  bool held() const noexcept { return held_until_ != time::max(); }
  void requeue(redis::script_call& c);
  void stage(redis::script_call&& c, time now);
  void stage_load(std::size_t script, time now);
  void stage_ping(time now);
  void loaded(error e, time now);
  std::size_t full_write() const noexcept {
    return std::max(options_.max_keys_per_call, redis::coalescer::max_keys_per_write);
  }
  bool has_waiting() const noexcept { return !waiting_.empty() || !again_.empty(); }
  std::vector<redis::script_call>& pack(time now);
  void heard(const redis::script_call& c, time now);
  bool answer(redis::script_call& c, const redis::reply_view& reply, time now);
  void send_again(redis::script_call& c);
  void recall_give_backs();

  options options_;
  redis::coalescer coalescer_;
  deadline_wheel wheel_;
  circuit_breaker breaker_;
  send_window window_;
  bool may_send_ = true;            // false: what waits has to wait for a reply
  time last_answer_ = time::min();  // that came within the timeout

  detail::check_list urgent_;  // renewals and leaves: go before all others
  detail::check_list waiting_;
  detail::check_list again_;        // not run when sent before: go first
  detail::check_list passed_over_;  // too late to be answered: never sent
  // Staged and written, oldest first; one reply is due for each
  std::deque<redis::script_call> calls_;
  std::size_t staged_ = 0;  // the last so many of calls_ (a ping aside) are in the write under way
  detail::check_list done_;

  std::string out_;
  std::string scratch_;
  std::vector<std::int64_t> numbers_;

  redis::script_set known_scripts_;  // to the server, loads on their way included
  std::array<std::uint32_t, redis::script_count> loads_{};  // sent so far
  error load_failure_{};  // not zero: what the server said to the last load
  time no_loads_before_ = time::min();

  std::size_t pending_ = 0;
  bool connected_ = false;
  bool writing_ = false;
  bool ping_wanted_ = false;
  bool unwelcome_ = false;
  bool served_ = false;
  // Not max: the server asked for patience, nothing is written before
  time held_until_ = time::max();
  error suspicion_{};  // not zero: said in place of timed_out
  error refusal_{};    // not zero: checks are turned away with it
  bool closed_ = false;
  bool ended_ = false;
};

}  // namespace weir::net

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/backoff.hpp"
#include "base/lateness.hpp"
#include "check/check_list.hpp"
#include "weir/error.hpp"

namespace weir::detail {

/// The states and actions of a connection, for any protocol.
struct connection_states {
  enum class state : std::uint8_t {
    pausing,   ///< no connection; the next attempt comes at a set time
    opening,   ///< the driver resolves, connects and secures
    greeting,  ///< the server tells what it is
    ready,
    draining,  ///< given up; closing, until all operations have reported
    stopped,   ///< closed for good
  };

  /// The operations that the driver must start now.
  struct actions {
    bool open = false;
    /// With open: try another address of the name first, because the last one has not served.
    bool elsewhere = false;
    bool read = false;       ///< into room()
    bool close = false;      ///< end all operations; comes with no other action
    std::string_view write;  ///< if not empty; valid until written()
    /// Until this time, poll for replies instead of sleeping. Holds until the next actions.
    std::chrono::steady_clock::time_point poll_until = std::chrono::steady_clock::time_point::min();
  };
};

/// The life of connections, one after the other, without sockets, clocks or locks:
///
///     pausing --> opening --> greeting --> ready --> draining --> pausing ...
///
/// It decides when to open, what to write, when to read, when to give up, and how long to pause.
/// The driver calls next() after every event, starts the actions, and reports each one exactly
/// once: opened(), written(), and the protocol's received(). At most one of each is in progress. A
/// new connection starts only when all operations have reported (draining): then it is known how
/// much a write has sent, and no late report can reach the new connection.
///
/// `Core` derives from it, and adds the protocol:
///
///     void begin_greeting();                      a new connection: nothing is written yet
///     std::string_view write_greeting(time now);  valid until written()
///     void end_greeting();                        what was written is not needed any more
///     void watch(time now);                       ready: sets the next alarm
///     void turned_down(error reason);             without a connection that was ready
///     void paused();                              there is no connection now
template <class Core, class Pipeline, class Options>
class connection_life : public connection_states {
 public:
  using time = typename Pipeline::time;
  using duration = typename time::duration;

  // For callers; see the pipeline.
  void cancel(check& c, cancel_scope scope) { pipeline_.cancel(c, scope); }
  bool replace(check& c, check& successor) { return pipeline_.replace(c, successor); }
  check_list take_done() { return pipeline_.take_done(); }
  bool has_done() const noexcept { return pipeline_.has_done(); }
  check_list abandon() {
    state_ = state::stopped;
    closed_ = stopping_ = true;
    return pipeline_.abandon();
  }
  /// See store::close(). Waits for give-backs until `timeout` has passed, or, after
  /// stop_when_idle(), until no check is pending. False if it was closed before.
  bool close(time now) {
    if (std::exchange(closed_, true)) return false;
    pipeline_.close();
    give_up_ = now + options_.timeout;
    return true;
  }
  void stop_when_idle() noexcept { may_stop_ = true; }
  /// True after close(), until it has stopped.
  bool is_closing() const noexcept { return closed_ && !stopping_; }

  // For the driver.

  actions next(time now);
  /// True if next() would return an action other than a read; cheap.
  bool has_actions() const noexcept {
    return open_wanted_ || close_wanted_ || (is_closing() && may_stop_ && pipeline_.is_idle()) ||
           (state_ == state::greeting && !writing_ && greeting_wanted_) ||
           (state_ == state::ready && !writing_ && pipeline_.wants_write());
  }
  /// Reports how far an open has come: the error with which it ends if it goes no further.
  void attempting(error step) noexcept { pipeline_.attempting(step); }
  /// Reports the end of an open. Zero: connected. tls_failed fails all checks until there is a
  /// connection. Other errors (closed_by_peer, host_not_found, connection_refused,
  /// host_unreachable) may pass: checks that wait get them at their deadlines. After a close, the
  /// error says at which step the attempt was; tls_failed: in the TLS handshake.
  void opened(error e, time now);
  /// Reports the end of a write. `bytes`: how many were passed to the system, also if the write
  /// failed.
  void written(bool ok, std::size_t bytes, time now);
  /// When to call on_time(); time::max(): never.
  time wakeup() const noexcept {
    if (state_ == state::stopped) return time::max();
    return std::min({alarm_, pipeline_.wakeup(), is_closing() ? give_up_ : time::max()});
  }
  /// Called when that time has come, and when a caller has added or cancelled a check.
  void on_time(time now);
  /// Called before each other event: replies that have come while the process stood still must not
  /// look slow, and the calls that wait for them must not expire.
  void before_event(time now) {
    if (lateness(wakeup(), now).count() > 0) on_time(now);
  }

  state current() const noexcept { return state_; }
  const Pipeline& line() const noexcept { return pipeline_; }

 protected:
  template <class... Arguments>
  connection_life(const Options& options, std::uint32_t seed, Arguments&&... of_pipeline)
      : options_(options),
        pipeline_(std::forward<Arguments>(of_pipeline)...),
        backoff_(options.backoff_min, options.backoff_max, seed) {}
  ~connection_life() = default;

  /// The server has told what it is. The core tells the pipeline.
  void become_ready(time now) {
    state_ = state::ready;
    was_ready_ = true;
    ready_at_ = now;
    last_answer_ = now;
    put_off_ = false;
  }
  /// Lets the pipeline read, and notes whether the server serves: only a complete, expected reply
  /// shows that.
  template <class Read>
  auto consume(time now, Read&& read) {
    const std::size_t due = pipeline_.replies_due();
    const auto stream = read();
    if (pipeline_.replies_due() < due) {
      last_answer_ = now;
      put_off_ = false;
    }
    if (pipeline_.has_served()) backoff_.reset();
    return stream;
  }
  /// Gives the connection up. Sent checks fail with `reason`; unsent ones get `suspicion` at their
  /// deadlines.
  void lost(error reason, error suspicion = error{});
  /// The server has closed the connection. If the server had served, it may have restarted: the
  /// next open tries its address first.
  void ended();
  void gone(time now);

  const Options& options_;
  Pipeline pipeline_;
  backoff backoff_;

  state state_ = state::pausing;
  // pausing: the next attempt; opening, greeting: their limit; ready: the next check of silence
  time alarm_{};
  time last_answer_{};  // ready: when the last whole reply that was due came
  // An alarm was put off: since the last whole reply or, while there is no connection, attempt.
  bool put_off_ = false;
  bool greeting_wanted_ = false;
  bool heard_ = false;  // greeting: the server has sent something
  bool reading_ = false;
  bool writing_ = false;
  // The last address has not served or broke the protocol: the next open tries another one.
  bool turned_away_ = false;
  bool stopping_ = false;

 private:
  Core& core() noexcept { return static_cast<Core&>(*this); }
  void stop();
  void start_opening(time now);
  void pause(time now);

  void put_off(time now, duration late);

  time ready_at_{};             // when the connection became ready last
  time last_write_{};           // ready: when the last write began
  time waiting_since_{};        // ready: since when a reply has been due all the time
  time give_up_ = time::max();  // closing: the end of waiting for give-backs
  error reason_{};              // draining: the error for the checks that were sent
  std::size_t sent_ = 0;        // draining: how many bytes of the last write were sent

  bool open_wanted_ = false;
  bool close_wanted_ = false;
  bool opening_ = false;
  bool was_ready_ = false;
  bool closed_ = false;
  bool may_stop_ = false;
};

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::stop() {
  stopping_ = true;
  pipeline_.end();
  open_wanted_ = false;
  alarm_ = time::max();
  close_wanted_ = true;
  state_ = state::draining;
}

template <class Core, class Pipeline, class Options>
connection_states::actions connection_life<Core, Pipeline, Options>::next(time now) {
  actions a;
  if (is_closing() && may_stop_ && pipeline_.is_idle()) stop();
  if (close_wanted_) {
    close_wanted_ = false;
    a.close = true;
    gone(now);
    return a;
  }
  if (open_wanted_) {
    open_wanted_ = false;
    a.open = opening_ = true;
    a.elsewhere = std::exchange(turned_away_, false);
    return a;
  }
  if (state_ != state::greeting && state_ != state::ready) return a;
  if (!reading_) a.read = reading_ = true;
  if (!writing_) {
    if (state_ == state::greeting) {
      if (std::exchange(greeting_wanted_, false)) a.write = core().write_greeting(now);
    } else {
      if (pipeline_.replies_due() == 0) waiting_since_ = now;
      a.write = pipeline_.next_write(now);
      if (!a.write.empty()) last_write_ = now;
    }
    writing_ = !a.write.empty();
  }
  if (options_.spin_time.count() > 0 && pipeline_.replies_due() > 0) {
    a.poll_until = last_write_ + options_.spin_time;
  }
  return a;
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::start_opening(time now) {
  state_ = state::opening;
  open_wanted_ = true;
  put_off_ = false;
  alarm_ = now + options_.connect_timeout;
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::opened(error e, time now) {
  opening_ = false;
  pipeline_.attempting({});
  if (state_ != state::opening) {  // the attempt was given up before
    // The server may only be stuck: checks keep waiting, and get this error at their deadlines.
    if (e != error{}) pipeline_.suspect(e);
    return gone(now);
  }
  if (e != error{}) {
    turned_away_ = true;
    pipeline_.suspect(e);
    if (e == error::tls_failed) core().turned_down(e);
    return pause(now);
  }
  state_ = state::greeting;
  greeting_wanted_ = true;
  heard_ = false;
  core().begin_greeting();
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::pause(time now) {
  state_ = state::pausing;
  alarm_ = now + backoff_.next();
  core().paused();
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::written(bool ok, std::size_t bytes, time now) {
  writing_ = false;
  if (state_ == state::draining) {
    sent_ = bytes;
    return gone(now);
  }
  if (!ok) {
    ended();
    sent_ = bytes;
    return;
  }
  if (state_ == state::ready) core().end_greeting();
  pipeline_.write_done();
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::lost(error reason, error suspicion) {
  pipeline_.suspect(suspicion);
  reason_ = reason;
  state_ = state::draining;
  close_wanted_ = true;
  turned_away_ = true;
  alarm_ = time::max();
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::ended() {
  lost(error::outcome_unknown, was_ready_ ? error{} : error::closed_by_peer);
  if (was_ready_) turned_away_ = !pipeline_.has_served();
}

/// Ends draining, when the close action was returned and all operations have reported.
template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::gone(time now) {
  if (opening_ || reading_ || writing_ || close_wanted_) return;
  if (stopping_) {
    state_ = state::stopped;
    return;
  }
  if (std::exchange(was_ready_, false)) {
    // The connection lasted longer than the longest pause, so longer pauses would not spare the
    // server: a proxy may end old connections.
    const time until = pipeline_.replies_due() == 0 ? now : last_answer_;
    if (until - ready_at_ > options_.backoff_max) backoff_.reset();
    pipeline_.disconnected(reason_, sent_, now);
  } else {
    core().turned_down(reason_);
  }
  pause(now);
}

/// The process stood still: what it waits for may have come. Nobody is given up before it had as
/// long to read that.
template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::put_off(time now, duration late) {
  if (put_off_) return;
  const time later = now + std::min<duration>(late, options_.timeout);
  for (time* limit : {&alarm_, &give_up_}) {
    if (*limit > now || (limit == &alarm_ && state_ == state::pausing)) continue;
    *limit = later;
    put_off_ = true;
  }
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::on_time(time now) {
  const auto late = lateness(wakeup(), now);
  if (late.count() > 0) put_off(now, late);
  pipeline_.expire(now, late);
  if (is_closing() && now >= give_up_) return stop();
  if (now < alarm_) return;
  switch (state_) {
    case state::pausing:
      return start_opening(now);
    case state::opening:
    case state::greeting:
      return lost(error::outcome_unknown, error::timed_out);
    case state::ready:
      // A write may be stuck although no reply is due: all replies may have come before the rest of
      // the write was sent.
      if (pipeline_.replies_due() > 0 || writing_) {
        if (now - std::max(last_answer_, waiting_since_) >= options_.silence_timeout) {
          return lost(error::outcome_unknown);
        }
      } else if (now - last_answer_ >= options_.ping_interval) {
        pipeline_.ping();
      }
      return core().watch(now);
    case state::draining:
    case state::stopped:
      break;
  }
}

}  // namespace weir::detail

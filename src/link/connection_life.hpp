#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/backoff.hpp"
#include "base/lateness.hpp"
#include "check/flight.hpp"
#include "link/connection_states.hpp"
#include "link/link_history.hpp"
#include "weir/error.hpp"

namespace weir::detail {

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
///     duration watch(time now);                   ready: looks at the connection; when again
///     void turned_down(error reason);             without a connection that was ready
///     void paused();                              there is no connection now
template <class Core, class Pipeline, class Options>
class connection_life : public connection_states {
 public:
  using duration = time::duration;

  // For callers; see the pipeline.
  void cancel(check& c, cancel_scope scope) { pipeline_.cancel(c, scope); }
  check_list take_done() { return pipeline_.take_done(); }
  bool has_done() const noexcept { return pipeline_.has_done(); }
  check_list abandon() {
    enter(stopped{});
    closing_ = closing::done;
    return pipeline_.abandon();
  }
  /// See store::close(). Waits for give-backs until `timeout` has passed, or, after
  /// stop_when_idle(), until no check is pending. False if it was closed before.
  bool close(time now) {
    if (closing_ != closing::no) return false;
    closing_ = closing::give_backs_only;
    pipeline_.close();
    give_up_ = {now + options_.timeout};
    return true;
  }
  /// Called after close().
  void stop_when_idle() noexcept {
    if (is_closing()) closing_ = closing::when_idle;
  }
  /// True after close(), until it has stopped.
  bool is_closing() const noexcept {
    return closing_ == closing::give_backs_only || closing_ == closing::when_idle;
  }

  // For the driver.

  actions next(time now) {
    note_state(now);
    const actions a = next_actions(now);
    note_state(now);
    return a;
  }
  /// True if next() would return an action other than a read; cheap.
  bool has_actions() const noexcept {
    if (has_ended()) return true;
    if (in<ready>() != nullptr) return !under_way_.writing && pipeline_.wants_write();
    if (in<opening>() != nullptr) return !under_way_.opening;
    if (const greeting* g = in<greeting>()) return !under_way_.writing && !g->wrote;
    const draining* d = in<draining>();
    return d != nullptr && !d->told;
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
    if (in<stopped>() != nullptr) return time::max();
    return std::min({until_.at, give_up_.at, pipeline_.wakeup()});
  }
  /// Called when that time has come, and when a caller has added or cancelled a check.
  void on_time(time now);
  /// Called before each other event: replies that have come while the process stood still must not
  /// look slow, and the calls that wait for them must not expire.
  void before_event(time now) {
    if (lateness(wakeup(), now).count() > 0) on_time(now);
  }

  state current() const noexcept { return static_cast<state>(phase_.index()); }
  const Pipeline& line() const noexcept { return pipeline_; }

  // For store::stats() and events.
  bool has_happenings() const noexcept { return history_.has_happenings(); }
  link_history::happenings take_happenings() noexcept { return history_.take(); }
  /// The connection that was just opened goes to another server than the last one.
  void note_failover() noexcept { history_.moved(); }
  void read(connection_stats& into, time now, time_point clock) const {
    history_.read(into, now, clock);
    pipeline_.read(into);
  }

 protected:
  template <class... Arguments>
  connection_life(const Options& options, std::uint32_t seed, Arguments&&... of_pipeline)
      : options_(options),
        pipeline_(std::forward<Arguments>(of_pipeline)...),
        backoff_(options.backoff_min, options.backoff_max, seed) {}
  ~connection_life() = default;

  /// What the present state notes; null: it is in another one.
  template <class Phase>
  Phase* in() noexcept {
    return std::get_if<Phase>(&phase_);
  }
  template <class Phase>
  const Phase* in() const noexcept {
    return std::get_if<Phase>(&phase_);
  }

  /// The server has told what it is, and the pipeline knows it.
  void become_ready(time now) {
    history_.connected();
    enter(ready{.since = now, .last_answer = now}, now + core().watch(now));
  }
  /// Notes the end of a read. True if it has brought bytes for the core. If not ok, sent checks
  /// fail with `reason`; `refusal`: what the server has said in a greeting.
  bool has_read(bool ok, time now, error reason, error refusal);
  /// Lets the pipeline read, and notes whether the server serves: only a complete, expected reply
  /// shows that.
  template <class Read>
  auto consume(time now, Read&& read) {
    const std::size_t due = pipeline_.replies_due();
    const auto stream = read();
    if (pipeline_.replies_due() < due) {
      in<ready>()->last_answer = now;
      until_.was_put_off = false;
    }
    if (pipeline_.has_served()) backoff_.reset();
    return stream;
  }
  /// Gives the connection up. Sent checks fail with `reason`; unsent ones get `suspicion` at their
  /// deadlines. `cause`: what is told of it, if it is neither of them.
  void lost(error reason, error suspicion = error{}, error cause = error{});

  const Options& options_;
  Pipeline pipeline_;
  backoff backoff_;
  under_way under_way_;
  // pausing: the next attempt; opening, greeting: their limit; ready: the next look at the silence.
  // Only an attempt that runs and the silence are put off.
  limit until_{time{}};
  // The last address has not served or broke the protocol: the next open tries another one.
  bool tries_another_ = false;
  link_history history_;

 private:
  Core& core() noexcept { return static_cast<Core&>(*this); }
  template <class Phase>
  void enter(Phase p, time until = time::max()) {
    phase_ = p;
    until_ = {until};
  }
  bool is_connected() const noexcept { return in<greeting>() != nullptr || in<ready>() != nullptr; }
  /// True if it has to stop now.
  bool has_ended() const noexcept { return closing_ == closing::when_idle && pipeline_.is_idle(); }
  actions next_actions(time now);
  void note_state(time now);
  void stop();
  void pause(time now);
  void ended();
  void gone(time now);
  void check_silence(ready& r, time now);

  phase phase_;
  closing closing_ = closing::no;
  limit give_up_;  // closing: the end of waiting for give-backs
};

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::stop() {
  closing_ = closing::done;
  give_up_ = {};
  pipeline_.end();
  enter(draining{});
}

template <class Core, class Pipeline, class Options>
connection_states::actions connection_life<Core, Pipeline, Options>::next_actions(time now) {
  actions a;
  if (has_ended()) stop();
  if (draining* d = in<draining>(); d != nullptr && !d->told) {
    d->told = a.close = true;
    gone(now);
    return a;
  }
  if (in<opening>() != nullptr && !under_way_.opening) {
    under_way_.opening = a.open = true;
    a.elsewhere = std::exchange(tries_another_, false);
    return a;
  }
  if (!is_connected()) return a;
  ready* const r = in<ready>();
  if (!under_way_.reading) under_way_.reading = a.read = true;
  if (!under_way_.writing) {
    if (r != nullptr) {
      if (pipeline_.replies_due() == 0) r->waiting_since = now;
      a.write = pipeline_.next_write(now);
      if (!a.write.empty()) r->last_write = now;
    } else if (!std::exchange(in<greeting>()->wrote, true)) {
      a.write = core().write_greeting(now);
    }
    under_way_.writing = !a.write.empty();
  }
  if (r != nullptr && options_.spin_time.count() > 0 && pipeline_.replies_due() > 0) {
    a.poll_until = r->last_write + options_.spin_time;
  }
  return a;
}

/// Tells the history what the last event has changed.
template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::note_state(time now) {
  constexpr connection_state told[] = {connection_state::pausing,    connection_state::connecting,
                                       connection_state::connecting, connection_state::ready,
                                       connection_state::closing,    connection_state::closed};
  history_.entered(told[phase_.index()], now);
  history_.circuit(pipeline_.is_circuit_open());
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::opened(error e, time now) {
  under_way_.opening = false;
  pipeline_.attempting({});
  if (in<opening>() == nullptr) {  // the attempt was given up before
    // The server may only be stuck: checks keep waiting, and get this error at their deadlines.
    if (e != error{}) pipeline_.suspect(e);
    return gone(now);
  }
  if (e != error{}) {
    tries_another_ = true;
    history_.failed(e, now);
    pipeline_.suspect(e);
    if (e == error::tls_failed) core().turned_down(e);
    return pause(now);
  }
  phase_ = greeting{};  // within the limit of the attempt
  core().begin_greeting();
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::pause(time now) {
  enter(pausing{}, now + backoff_.next());
  core().paused();
}

template <class Core, class Pipeline, class Options>
bool connection_life<Core, Pipeline, Options>::has_read(bool ok, time now, error reason,
                                                        error refusal) {
  under_way_.reading = false;
  if (!is_connected()) {
    gone(now);
  } else if (ok) {
    return true;
  } else if (const greeting* g = in<greeting>()) {
    lost(reason, g->heard ? refusal : error::closed_by_peer);
  } else {
    ended();
  }
  return false;
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::written(bool ok, std::size_t bytes, time now) {
  under_way_.writing = false;
  if (!ok && is_connected()) ended();
  if (draining* d = in<draining>()) {
    d->sent = bytes;
    return gone(now);
  }
  if (in<ready>() != nullptr) core().end_greeting();
  pipeline_.write_done();
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::lost(error reason, error suspicion, error cause) {
  pipeline_.suspect(suspicion);
  tries_another_ = true;
  const ready* const r = in<ready>();
  if (cause == error{}) cause = suspicion != error{} ? suspicion : reason;
  enter(draining{
      .reason = reason, .was = r == nullptr ? std::nullopt : std::optional(*r), .cause = cause});
}

/// The server has closed the connection. If the server had served, it may have restarted: the next
/// open tries its address first.
template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::ended() {
  const bool was_ready = in<ready>() != nullptr;
  lost(error::outcome_unknown, was_ready ? error{} : error::closed_by_peer, error::closed_by_peer);
  if (was_ready) tries_another_ = !pipeline_.has_served();
}

/// Ends draining, when the close action was returned and all operations have reported.
template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::gone(time now) {
  const draining* const d = in<draining>();

  if (d == nullptr || under_way_.any() || !d->told) return;
  if (closing_ == closing::done) return enter(stopped{});
  if (d->was) {
    history_.lost(d->cause, now);
    // The connection lasted longer than the longest pause, so longer pauses would not spare the
    // server: a proxy may end old connections.
    const time until = pipeline_.replies_due() == 0 ? now : d->was->last_answer;
    if (until - d->was->since > options_.backoff_max) backoff_.reset();
    pipeline_.disconnected(d->reason, d->sent, now);
  } else {
    history_.failed(d->cause, now);
    core().turned_down(d->reason);
  }
  pause(now);
}

template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::on_time(time now) {
  const duration late = lateness(wakeup(), now);
  pipeline_.expire(now, late);
  if (give_up_.is_over(now, late, options_.timeout)) return stop();
  if (in<pausing>() != nullptr) {
    if (now >= until_.at) enter(opening{}, now + options_.connect_timeout);
  } else if (until_.is_over(now, late, options_.timeout)) {
    ready* const r = in<ready>();
    r == nullptr ? lost(error::outcome_unknown, error::timed_out) : check_silence(*r, now);
  }
}

/// Gives a silent server up, or asks whether it is still there.
template <class Core, class Pipeline, class Options>
void connection_life<Core, Pipeline, Options>::check_silence(ready& r, time now) {
  // A write may be stuck although no reply is due: all replies may have come before the rest of the
  // write was sent.
  if (pipeline_.replies_due() > 0 || under_way_.writing) {
    if (now - std::max(r.last_answer, r.waiting_since) >= options_.silence_timeout) {
      return lost(error::outcome_unknown, error{}, error::no_reply);
    }
  } else if (now - r.last_answer >= options_.ping_interval) {
    pipeline_.ping();
  }
  until_.at = now + core().watch(now);
}

}  // namespace weir::detail

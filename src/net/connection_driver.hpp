#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/light_mutex.hpp"
#include "check/flight.hpp"
#include "link/link_history.hpp"
#include "net/locator.hpp"
#include "net/strand.hpp"
#include "net/stream.hpp"
#include "weir/redis_options.hpp"
#include "weir/stats.hpp"

namespace weir::net {

/// A mutex that does nothing if its owner runs in one thread (redis_options::single_threaded).
class optional_mutex {
 public:
  explicit optional_mutex(bool needed) noexcept : needed_(needed) {}
  void lock() noexcept {
    if (needed_) mutex_.lock();
  }
  void unlock() noexcept {
    if (needed_) mutex_.unlock();
  }

 private:
  detail::light_mutex mutex_;
  const bool needed_;
};

/// Drives a connection core with a stream and one timer: reports each event to the core, then
/// starts the actions that the core names.
///
/// Stream and timer are used on a strand. A mutex guards the core, because callers come from any
/// thread; it is held while checks are encoded or decoded, never during a handler or a system call.
///
/// `Owner` has the driver as a member, and provides:
///
///     std::shared_ptr<...> keep_alive();        each operation in progress holds the result
///     void deliver(detail::check_list&& done);  any thread, without the mutex; may free the owner
///     error before_open();                      on the strand; an error is the attempt's result
///     void on_received(Core& core, time now, error e, std::size_t bytes);  under the mutex
///     bool has_news(const Core& core);          under the mutex
///     void on_news(bool stopped);               on the strand: news, or stopped for good
///     void on_happening(const std::string& address, link_history::happening);  on the strand
template <class Owner, class Core>
class connection_driver final : private stream::listener {
 public:
  using time = typename Core::time;

  template <class... Arguments>
  connection_driver(Owner& owner, const boost::asio::any_io_executor& executor, bool needs_mutex,
                    Arguments&&... of_core)
      : owner_(owner),
        strand_(detail::direct_executor::of(executor)),
        mutex_(needs_mutex),
        core_(std::forward<Arguments>(of_core)...),
        timer_(*strand_) {}

  /// Called once, before wake(). The arguments are those of the stream.
  void make_stream(const redis_options& options, tls_context tls, locator* where = nullptr) {
    stream_.emplace(*strand_, options, std::move(tls), static_cast<listener&>(*this), where);
    peer_ = stream_->address();
  }
  const strand& get_strand() const noexcept { return *strand_; }

  // Any thread.

  /// Lets the strand start what the core wants; first of all, to connect. The caller holds the
  /// owner.
  void wake();

  /// Calls f(core, now) under the mutex; then, if needed, wakes the strand and delivers. False if
  /// the context is gone: then f was not called.
  template <class F>
  bool call(F&& f) {
    const time t = now();
    mutex_.lock();  // by hand: std::unique_lock would cost every check some 20 instructions
    if (context_gone_) {
      mutex_.unlock();
      return false;
    }
    try {
      f(core_, t);
    } catch (...) {  // out of memory
      mutex_.unlock();
      throw;
    }
    const bool wakes = !wake_posted_ && needs_strand();
    if (wakes || core_.has_done()) {
      follow(std::unique_lock(mutex_, std::adopt_lock), wakes);
    } else {
      mutex_.unlock();  // the common case
    }
    return true;
  }

  /// As call(), but leaves the delivery to the strand, and calls f even if the context is gone.
  template <class F>
  void with_core(F&& f) {
    std::unique_lock lock(mutex_);
    const time t = now();
    f(core_, t);
    const bool wakes = needs_strand(core_.has_done());
    // The caller holds the owner.
    const bool is_there = !context_gone_;
    lock.unlock();
    if (wakes && is_there) wake();
  }

  /// Does nothing if the check is done.
  void cancel(detail::check& c, detail::cancel_scope scope) {
    std::unique_lock lock(mutex_);
    if (c.flight.stage == detail::check_stage::done) return;
    core_.cancel(c, scope);
    // A closing store ends with its last check: this may have been the last.
    follow(std::move(lock), core_.is_closing() && needs_strand(true));
  }

  /// Begins to close; give-backs are still taken, until stop_when_idle() and no check is pending.
  /// False if it was closed before.
  bool close() {
    std::unique_lock lock(mutex_);
    if (context_gone_ || !core_.close(now())) return false;
    follow(std::move(lock), true);  // the strand arms the timer that bounds the closing
    return true;
  }

  void stop_when_idle() {
    call([](Core& core, time) { core.stop_when_idle(); });
  }

  /// For store::stats(): adds nothing if the context is gone.
  void describe(std::vector<connection_stats>& into) const {
    const std::lock_guard lock(mutex_);
    if (context_gone_) return;
    connection_stats& made = into.emplace_back();
    made.address = peer_;
    core_.read(made, now(), detail::system_time());
  }

  /// See shutdown_listener::context_shut_down(). Returns the checks that are left.
  detail::check_list context_shut_down() noexcept {
    const std::lock_guard lock(mutex_);
    context_gone_ = true;
    detail::check_list dropped = core_.abandon();
    timer_.reset();
    stream_.reset();
    strand_.reset();
    return dropped;
  }

  // On the strand.

  /// Reports an event with event(core, now), then starts the core's next actions.
  template <class Event>
  void drive(Event&& event);

 private:
  static time now() noexcept { return std::chrono::steady_clock::now(); }

  std::shared_ptr<void> keep_alive() override { return owner_.keep_alive(); }
  void on_step(error e) override {
    const std::lock_guard lock(mutex_);
    core_.attempting(e);
  }
  void on_opened(error e) override {
    drive([&](Core& core, time t) {
      core.opened(e, t);
      if (e != error{} || peer_ == stream_->address()) return;
      if (!peer_.empty()) core.note_failover();
      peer_ = stream_->address();
    });
  }
  void on_received(error e, std::size_t bytes) override {
    drive([&](Core& core, time t) { owner_.on_received(core, t, e, bytes); });
  }
  void on_written(bool ok, std::size_t bytes) override {
    drive([&](Core& core, time t) { core.written(ok, bytes, t); });
  }

  /// True if the strand must be woken: for the core's actions, an earlier timer, or `anyway`. Any
  /// thread; requires the mutex.
  bool needs_strand(bool anyway = false) {
    if (wake_posted_ || !(anyway || core_.has_actions() || core_.wakeup() < armed_)) return false;
    wake_posted_ = true;
    return true;
  }

  /// Ends a call under the mutex: wakes the strand, and hands on the checks that it has finished.
  void follow(std::unique_lock<optional_mutex> lock, bool wakes) {
    // After the unlock the checks may be freed, and with them the last handle of the owner.
    const auto alive = owner_.keep_alive();
    detail::check_list done = core_.take_done();
    lock.unlock();
    if (wakes) wake();
    if (!done.empty()) owner_.deliver(std::move(done));
  }

  /// Wakes the strand behind the handlers that were just posted, because they often start further
  /// checks. A check that woke it itself would wait until Asio has looked for events once more.
  void expect_checks() {
    {
      const std::lock_guard lock(mutex_);
      if (context_gone_ || !needs_strand(true)) return;
    }
    wake();
  }

  /// Returns how many bytes were written at once; no report follows for these.
  std::size_t perform(const typename Core::actions& a, std::span<char> room) {
    if (a.close) stream_->close();
    if (a.open) open(a.elsewhere);
    if (a.read) stream_->read(room);
    const std::size_t at_once = !a.write.empty() && stream_->write(a.write) ? a.write.size() : 0;
    stream_->poll_until(a.poll_until);
    return at_once;
  }

  void open(bool elsewhere) {
    const error e = owner_.before_open();
    if (e == error{}) return stream_->open(elsewhere);
    boost::asio::post(*strand_, [this, e, alive = owner_.keep_alive()] { on_opened(e); });
  }

  /// Reports a write that ended at once. The next one is posted, as after any other write: replies
  /// that have come are read first.
  void wrote_at_once(std::size_t bytes) {
    std::unique_lock lock(mutex_);
    const time t = now();
    core_.written(true, bytes, t);
    const bool wakes = needs_strand();
    if (wakes || core_.has_done()) follow(std::move(lock), wakes);
  }

  void arm_timer(time when) {
    timer_->expires_at(when);
    timer_->async_wait([this, alive = owner_.keep_alive()](error_code ec) {
      if (ec) return;
      drive([this](Core& core, time t) {
        armed_ = time::max();
        core.on_time(t);
      });
    });
  }

  Owner& owner_;
  std::optional<strand> strand_;

  mutable optional_mutex mutex_;
  // Guarded by the mutex:
  Core core_;
  std::string peer_;          // the stream's address
  time armed_ = time::max();  // the expiry of the timer; time::max(): not armed
  bool wake_posted_ = false;
  bool context_gone_ = false;

  // Used on the strand only:
  std::optional<stream> stream_;
  std::optional<timer> timer_;
};

template <class Owner, class Core>
void connection_driver<Owner, Core>::wake() {
  try {
    boost::asio::post(*strand_, [this, alive = owner_.keep_alive()] {
      drive([](Core& core, time t) { core.on_time(t); });
    });
  } catch (...) {  // out of memory: the next call posts it; the caller still holds the owner
    const std::lock_guard lock(mutex_);
    wake_posted_ = false;
    throw;
  }
}

template <class Owner, class Core>
template <class Event>
void connection_driver<Owner, Core>::drive(Event&& event) {
  for (bool first = true;; first = false) {
    typename Core::actions a;
    std::span<char> room;
    time rearm = time::max();
    bool stopped = false, closing = false, news = false;
    detail::check_list done;
    detail::link_history::happenings happened;
    {
      const std::lock_guard lock(mutex_);
      const time t = now();
      if (first) {
        wake_posted_ = false;  // first: the event may throw
        core_.before_event(t);
        event(core_, t);
      }
      a = core_.next(t);
      if (a.read) room = core_.room();
      if (core_.wakeup() < armed_) rearm = armed_ = core_.wakeup();
      stopped = core_.current() == Core::state::stopped;
      done = core_.take_done();
      closing = core_.is_closing() && !done.empty();  // these may have been the last checks
      news = stopped || owner_.has_news(core_);
      if (core_.has_happenings()) happened = core_.take_happenings();
    }
    if (stopped) {
      timer_->cancel();
    } else if (rearm != time::max()) {
      arm_timer(rearm);
    }
    for (const auto& one : happened) owner_.on_happening(stream_->address(), one);
    // I/O starts before the handlers are posted, so that handlers never delay it.
    const std::size_t at_once = perform(a, room);
    if (at_once > 0) wrote_at_once(at_once);
    if (!done.empty()) {
      owner_.deliver(std::move(done));
      if (!stopped) expect_checks();
    }
    if (news) owner_.on_news(stopped);
    if (at_once > 0) return;  // the strand was woken if there is more to do
    // After a read or a write has started, nothing is left to do until it ends, or until a caller
    // wakes the strand.
    if (!closing && !a.open && !a.close) return;
  }
}

}  // namespace weir::net

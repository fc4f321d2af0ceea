#include "net/session.hpp"

#include <boost/asio/post.hpp>
#include <random>
#include <utility>

namespace weir::net {

namespace asio = boost::asio;
using detail::check;
using detail::check_list;

namespace {

redis::connection_core::time now() { return std::chrono::steady_clock::now(); }

std::unique_ptr<sentinel_watch> watch_for(const strand& s, const redis_options& options,
                                          sentinel_watch::owner& owner) {
  if (options.sentinel.addresses.empty()) return nullptr;
  return std::make_unique<sentinel_watch>(s, options, owner);
}

}  // namespace

session::session(const asio::any_io_executor& executor, redis_options&& options, tls_context tls,
                 std::size_t replicas)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      executor_(executor),
      strand_(detail::direct_executor::of(executor)),
      mutex_(!options_.single_threaded),
      core_(options_, std::random_device{}(), replicas),
      watch_(watch_for(*strand_, options_, *this)),
      stream_(std::in_place, *strand_, options_, tls_, static_cast<stream::listener&>(*this),
              watch_.get()),
      timer_(*strand_) {}

void session::open() {
  detail::shutdown_service::add(executor_, weak_from_this());
  wake_strand();
}

std::shared_ptr<detail::store_backend> session::waiting_for(
    std::size_t replicas, const std::shared_ptr<detail::store_backend>& whole,
    std::unique_ptr<detail::completion_sink> sink) {
  return replicated_.get(replicas, [&] {
    return beside(whole,
                  std::make_shared<session>(executor_, redis_options(options_), tls_, replicas),
                  std::move(sink));
  });
}

// ---- called by limiters, on any thread

bool session::needs_strand(time t, bool anyway) {
  if (wake_posted_ || !(anyway || core_.has_actions(t) || core_.wakeup() < armed_)) return false;
  wake_posted_ = true;
  return true;
}

void session::wake_strand() {
  asio::post(*strand_, [self = shared_from_this()] {
    self->drive([](redis::connection_core& core, time t) { core.woken(t); });
  });
}

void session::start(check& c) {
  const time t = now();
  mutex_.lock();  // without a guard, which has more to ask and to note; nothing here throws
  if (context_gone_) {
    mutex_.unlock();
    return c.finish(detail::delivery::discard);
  }
  core_.submit(c, t);
  const bool wake = !wake_posted_ && needs_strand(t);
  if (!wake && !core_.has_done()) return mutex_.unlock();  // the common case
  follow(std::unique_lock(mutex_, std::adopt_lock), wake);
}

void session::start_all(std::span<check* const> checks) {
  const time t = now();
  std::unique_lock lock(mutex_);
  if (context_gone_) {
    lock.unlock();
    for (check* c : checks) c->finish(detail::delivery::discard);
    return;
  }
  for (check* c : checks) core_.submit(*c, t);
  if (const bool wake = needs_strand(t); wake || core_.has_done()) follow(std::move(lock), wake);
}

/// Ends a call under the mutex: wakes the strand, and hands on the checks that it has finished.
void session::follow(std::unique_lock<optional_mutex> lock, bool wake) {
  // After the unlock the checks may be freed, and with them the last handle of this session.
  const std::shared_ptr<session> self = shared_from_this();
  check_list done = core_.take_done();
  lock.unlock();
  if (wake) wake_strand();
  if (!done.empty()) sink().complete(std::move(done));
}

void session::cancel(check& c, detail::cancel_scope scope) {
  check_list done;
  bool was_done = false;
  // As in start_all().
  std::shared_ptr<session> self;
  {
    const std::lock_guard lock(mutex_);
    was_done = flight_of(c).stage == detail::check_stage::done;
    if (!was_done) core_.cancel(c, scope);
    done = core_.take_done();
    if (core_.is_closing() && needs_strand(now())) self = shared_from_this();
  }
  if (was_done) sink().cancel(c, scope);
  if (!done.empty()) sink().complete(std::move(done));
  if (self != nullptr) self->wake_strand();
}

void session::close() {
  check_list done;
  {
    const std::lock_guard lock(mutex_);
    if (context_gone_ || !core_.close(now())) return;
    done = core_.take_done();
  }
  replicated_.close();
  if (!done.empty()) sink().complete(std::move(done));
  wake_strand();  // the strand arms the timer that bounds the closing
  // Held here and by limiters that wait for an answer; its end lets the session stop.
  const std::shared_ptr<void> hold(nullptr,
                                   [self = shared_from_this()](void*) { self->may_stop(); });
  close_limiters(hold);
  if (has_sink()) sink().close(hold);  // no sink: making the first handle failed
}

void session::may_stop() {
  {
    const std::lock_guard lock(mutex_);
    if (context_gone_) return;
    core_.stop_when_idle();
  }
  wake_strand();
}

void session::context_shut_down() noexcept {
  check_list dropped;
  {
    const std::lock_guard lock(mutex_);
    context_gone_ = true;
    dropped = core_.abandon();
    timer_.reset();
    stream_.reset();
    watch_.reset();
    strand_.reset();
    executor_ = {};
  }
  detail::discard(std::move(dropped));
  sink().context_shut_down();
  end_limiters();
}

// ---- the strand

template <class Event>
void session::drive(Event&& event) {
  for (bool first = true;; first = false) {
    redis::connection_core::actions a;
    std::span<char> room;
    time rearm = time::max();
    bool stopped = false, closing = false, news = false;
    check_list done;
    {
      const std::lock_guard lock(mutex_);
      const time t = now();
      if (first) {
        event(core_, t);
        wake_posted_ = false;
      }
      a = core_.next(t);
      if (a.read) room = core_.room();
      if (core_.wakeup() < armed_) rearm = armed_ = core_.wakeup();
      stopped = core_.current() == redis::connection_core::state::stopped;
      done = core_.take_done();
      closing = core_.is_closing() && !done.empty();  // these may have been the last checks
      news = cluster_ != nullptr && (core_.has_news() || stopped);
    }
    if (stopped) {
      timer_->cancel();
      if (watch_ != nullptr) watch_->stop();
    } else if (rearm != time::max()) {
      arm_timer(rearm);
    }
    // I/O starts before the handlers are posted, so that handlers never delay it.
    const std::size_t at_once = perform(a, room);
    if (at_once > 0) wrote_at_once(at_once);
    if (!done.empty()) {
      sink().complete(std::move(done));
      if (!stopped) expect_checks();
    }
    if (news) stopped ? cluster_->on_ended() : cluster_->on_news();
    if (at_once > 0) return;  // the strand was woken if there is more to do
    // After a read or a write has started, nothing is left to do until it ends, or until a caller
    // wakes the strand.
    if (!closing && !a.open && !a.close) return;
  }
}

/// Wakes the strand behind the handlers that were just posted, because they often start further
/// checks. A check that woke it itself would wait until Asio has looked for events once more.
void session::expect_checks() {
  {
    const std::lock_guard lock(mutex_);
    if (context_gone_ || !needs_strand({}, true)) return;
  }
  wake_strand();
}

std::size_t session::perform(const redis::connection_core::actions& a, std::span<char> room) {
  if (a.close) stream_->close();
  if (a.open) open_stream(a.elsewhere);
  if (a.read) stream_->read(room);
  const std::size_t at_once = !a.write.empty() && stream_->write(a.write) ? a.write.size() : 0;
  stream_->poll_until(a.poll_until);
  return at_once;
}

/// Reports a write that ended at once. The next one is posted, as after any other write: replies
/// that have come are read first.
void session::wrote_at_once(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  const time t = now();
  core_.written(true, bytes, t);
  if (const bool wake = needs_strand(t); wake || core_.has_done()) follow(std::move(lock), wake);
}

/// Asks for the credentials first, which is the caller's own code: without the mutex.
void session::open_stream(bool elsewhere) {
  if (options_.credentials) {
    try {
      redis_credentials login = options_.credentials();
      const std::lock_guard lock(mutex_);
      core_.log_in_with(std::move(login));
    } catch (...) {
      return asio::post(
          *strand_, [self = shared_from_this()] { self->on_opened(error::authentication_failed); });
    }
  }
  stream_->open(elsewhere);
}

void session::on_opened(error e) {
  drive([e](redis::connection_core& core, time t) { core.opened(e, t); });
}

void session::on_received(error e, std::size_t bytes) {
  drive([&](redis::connection_core& core, time t) { core.received(e == error{}, bytes, t, e); });
}

void session::on_written(bool ok, std::size_t bytes) {
  drive([&](redis::connection_core& core, time t) { core.written(ok, bytes, t); });
}

void session::master_moved() {
  drive([](redis::connection_core& core, time t) { core.relocate(t); });
}

void session::arm_timer(time when) {
  timer_->expires_at(when);
  timer_->async_wait([self = shared_from_this()](error_code ec) {
    if (!ec) self->on_timer();
  });
}

void session::on_timer() {
  drive([this](redis::connection_core& core, time t) {
    armed_ = time::max();
    core.on_time(t);
  });
}

}  // namespace weir::net

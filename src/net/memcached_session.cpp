#include "net/memcached_session.hpp"

#include <boost/asio/post.hpp>
#include <random>
#include <utility>

#include "check/clock.hpp"

namespace weir::net {

namespace asio = boost::asio;
using detail::check;
using detail::check_list;

namespace {

memcached::connection_core::time steady_now() { return std::chrono::steady_clock::now(); }

redis_options link_to(const memcached_options& o, const memcached_server& server) {
  redis_options link;
  link.host = server.host;
  link.port = server.port;
  link.connect_timeout = o.connect_timeout;
  return link;
}

}  // namespace

memcached_session::memcached_session(const asio::any_io_executor& executor,
                                     const memcached_options& options,
                                     const memcached_server& server, owner& o)
    : options_(options),
      link_(link_to(options, server)),
      owner_(o),
      strand_(detail::direct_executor::of(executor)),
      core_(options, std::random_device{}()),
      stream_(std::in_place, *strand_, link_, tls_context(), static_cast<stream::listener&>(*this)),
      timer_(*strand_) {}

// ---- called by the store, on any thread

bool memcached_session::needs_strand(time now, bool anyway) {
  if (wake_posted_ || !(anyway || core_.has_actions(now) || core_.wakeup() < armed_)) return false;
  wake_posted_ = true;
  return true;
}

void memcached_session::wake_strand() {
  asio::post(*strand_,
             [this, alive = owner_.hold()] { drive([](core& c, time now) { c.woken(now); }); });
}

void memcached_session::start(check& c, std::string_view key) {
  const time now = steady_now();
  std::unique_lock lock(mutex_);
  if (context_gone_) {
    lock.unlock();
    return c.finish(detail::delivery::discard);
  }
  core_.submit(c, key, now);
  const bool wake = needs_strand(now);
  if (!wake && !core_.has_done()) return;
  // After the unlock the check may be freed, and with it the last handle of the store.
  const std::shared_ptr<void> alive = owner_.hold();
  check_list done = core_.take_done();
  lock.unlock();
  if (wake) wake_strand();
  if (!done.empty()) owner_.deliver(std::move(done));
}

bool memcached_session::cancel(check& c, detail::cancel_scope scope) {
  std::unique_lock lock(mutex_);
  if (flight_of(c).stage == detail::check_stage::done) return false;
  core_.cancel(c, scope);
  const std::shared_ptr<void> alive = owner_.hold();
  check_list done = core_.take_done();
  const bool wake = core_.is_closing() && needs_strand(steady_now());
  lock.unlock();
  if (wake) wake_strand();
  if (!done.empty()) owner_.deliver(std::move(done));
  return true;
}

bool memcached_session::close() {
  check_list done;
  {
    const std::lock_guard lock(mutex_);
    if (context_gone_ || !core_.close(steady_now())) return false;
    done = core_.take_done();
  }
  if (!done.empty()) owner_.deliver(std::move(done));
  wake_strand();  // the strand arms the timer that bounds the closing
  return true;
}

void memcached_session::may_stop() {
  {
    const std::lock_guard lock(mutex_);
    if (context_gone_) return;
    core_.stop_when_idle();
  }
  wake_strand();
}

check_list memcached_session::context_shut_down() noexcept {
  const std::lock_guard lock(mutex_);
  context_gone_ = true;
  check_list dropped = core_.abandon();
  timer_.reset();
  stream_.reset();
  strand_.reset();
  return dropped;
}

// ---- the strand

template <class Event>
void memcached_session::drive(Event&& event) {
  for (bool first = true;; first = false) {
    core::actions a;
    std::span<char> room;
    time rearm = time::max();
    bool stopped = false, closing = false;
    check_list done;
    {
      const std::lock_guard lock(mutex_);
      const time now = steady_now();
      if (first) {
        event(core_, now);
        wake_posted_ = false;
      }
      a = core_.next(now);
      if (a.read) room = core_.room();
      if (core_.wakeup() < armed_) rearm = armed_ = core_.wakeup();
      stopped = core_.current() == core::state::stopped;
      done = core_.take_done();
      closing = core_.is_closing() && !done.empty();  // these may have been the last checks
    }
    if (stopped) {
      timer_->cancel();
    } else if (rearm != time::max()) {
      arm_timer(rearm);
    }
    // I/O starts before the handlers are posted, so that handlers never delay it.
    const std::size_t at_once = perform(a, room);
    if (at_once > 0) wrote_at_once(at_once);
    if (!done.empty()) {
      owner_.deliver(std::move(done));
      if (!stopped) expect_checks();
    }
    if (at_once > 0) return;  // the strand was woken if there is more to do
    // See session::drive().
    if (!closing && !a.open && !a.close) return;
  }
}

std::size_t memcached_session::perform(const core::actions& a, std::span<char> room) {
  if (a.close) stream_->close();
  if (a.open) stream_->open(a.elsewhere);
  if (a.read) stream_->read(room);
  const std::size_t at_once = !a.write.empty() && stream_->write(a.write) ? a.write.size() : 0;
  stream_->poll_until(a.poll_until);
  return at_once;
}

/// See session::expect_checks().
void memcached_session::expect_checks() {
  {
    const std::lock_guard lock(mutex_);
    if (context_gone_ || !needs_strand({}, true)) return;
  }
  wake_strand();
}

/// Reports a write that ended at once. The next one is posted, as after any other write.
void memcached_session::wrote_at_once(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const time now = steady_now();
  core_.written(true, bytes, now);
  if (needs_strand(now) || core_.has_done()) wake_strand();
}

void memcached_session::on_opened(error e) {
  drive([e](core& c, time now) { c.opened(e, now); });
}

void memcached_session::on_received(error e, std::size_t bytes) {
  drive([&](core& c, time now) {
    c.received(e == error{}, bytes, now, detail::read_clock(options_.clock));
  });
}

void memcached_session::on_written(bool ok, std::size_t bytes) {
  drive([&](core& c, time now) { c.written(ok, bytes, now); });
}

void memcached_session::arm_timer(time when) {
  timer_->expires_at(when);
  timer_->async_wait([this, alive = owner_.hold()](error_code ec) {
    if (ec) return;
    drive([this](core& c, time now) {
      armed_ = time::max();
      c.on_time(now);
    });
  });
}

}  // namespace weir::net

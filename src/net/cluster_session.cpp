#include "net/cluster_session.hpp"

#include <boost/asio/post.hpp>
#include <random>
#include <utility>
#include <vector>

namespace weir::net {

namespace asio = boost::asio;
using detail::cancel_scope;
using detail::check;
using detail::check_list;

namespace {

redis::cluster_core::time current_time() { return std::chrono::steady_clock::now(); }

/// The options of one node's connection.
redis_options options_of_node(const redis_options& all, const redis_address& at) {
  redis_options one = all;
  one.host = at.host;
  one.port = at.port;
  return one;
}

}  // namespace

/// A session as the core sees it.
class cluster_session::node final : public redis::cluster_node {
 public:
  explicit node(std::shared_ptr<session> s) : session_(std::move(s)) {}

  void start(check& c) override { session_->start(c); }
  void describe(std::vector<connection_stats>& into) const { session_->describe(into); }

 private:
  void with_core(const std::function<void(redis::connection_core&, time)>& f) override {
    session_->with_core(f);
  }

  const std::shared_ptr<session> session_;
};

/// What a node's session reports to. It belongs to the session, and keeps the cluster alive until
/// the session has stopped.
class cluster_session::node_sink final : public detail::completion_sink, public session::cluster {
 public:
  node_sink(std::shared_ptr<cluster_session> whole, index i, std::weak_ptr<node> link)
      : whole_(std::move(whole)), index_(i), link_(std::move(link)) {}

  void complete(check& c) override {
    check_list one;
    one.push_back(c);
    complete(std::move(one));
  }
  void complete(check_list&& done) override { whole_->node_finished(std::move(done)); }
  void on_news() override {
    if (const auto link = link_.lock()) whole_->node_has_news(index_, *link);
  }
  void on_ended() override {
    if (const auto link = link_.lock()) whole_->node_ended(index_, *link);
  }
  // Only the cluster's own sink is asked for these.
  void wait(check&) override {}
  void cancel(check&, cancel_scope) override {}
  void close(const std::shared_ptr<void>&) override {}
  void context_shut_down() noexcept override {}

 private:
  const std::shared_ptr<cluster_session> whole_;
  const index index_;
  const std::weak_ptr<node> link_;
};

cluster_session::cluster_session(const asio::any_io_executor& executor, redis_options&& options,
                                 tls_context tls)
    : store_backend(executor, std::move(options.on_event)),
      options_(std::move(options)),
      tls_(std::move(tls)),
      mutex_(!options_.single_threaded),
      core_(
          options_,
          [this](const redis_address& at, index i) -> std::shared_ptr<redis::cluster_node> {
            return make_node(at, i);
          },
          std::random_device{}()),
      strand_(detail::direct_executor::of(executor)),
      timer_(*strand_) {}

void cluster_session::open() {
  detail::shutdown_service::add(get_executor(), weak_from_this());
  std::unique_lock lock(mutex_);
  core_.open(current_time());
  follow(lock);
}

/// Requires the mutex.
std::shared_ptr<redis::cluster_node> cluster_session::make_node(const redis_address& at, index i) {
  const auto one = std::make_shared<session>(get_executor(), options_of_node(options_, at),
                                             tls_contexts{tls_, nullptr});
  one->report_through(*this);
  const auto link = std::make_shared<node>(one);
  auto sink = std::make_unique<node_sink>(shared_from_this(), i, link);
  one->join(*sink);
  one->attach(std::move(sink));
  one->open();
  if (core_.is_closed()) link->close();
  return link;
}

// ---- called by limiters, on any thread

void cluster_session::start(check& c) {
  std::unique_lock lock(mutex_);
  if (context_gone_) {
    lock.unlock();
    return c.finish(detail::delivery::discard);
  }
  const auto at = core_.submit(c, current_time());
  follow(lock);
  if (at != nullptr) at->start(c);
}

void cluster_session::cancel(check& c, cancel_scope scope) {
  std::unique_lock lock(mutex_);
  if (context_gone_) return;
  core_.cancel(c, scope);
  const std::shared_ptr<cluster_session> self = shared_from_this();
  follow(lock);
}

void cluster_session::close() {
  std::unique_lock lock(mutex_);
  if (context_gone_ || !core_.close(current_time())) return;
  const auto nodes = core_.links();
  follow(lock);
  for (const auto& one : nodes) one->close();
  // See session::close().
  const std::shared_ptr<void> hold(nullptr,
                                   [self = shared_from_this()](void*) { self->stop_when_idle(); });
  tell_of_close(hold);
}

void cluster_session::stop_when_idle() {
  std::unique_lock lock(mutex_);
  if (context_gone_) return;
  stops_when_idle_ = true;
  follow(lock);
}

void cluster_session::describe(std::vector<connection_stats>& into) const {
  std::unique_lock lock(mutex_);
  if (context_gone_) return;
  const auto nodes = core_.links();
  lock.unlock();
  // make_node() has made them all.
  for (const auto& one : nodes) static_cast<const node&>(*one).describe(into);
}

void cluster_session::context_shut_down() noexcept {
  check_list dropped;
  std::vector<std::shared_ptr<redis::cluster_node>> nodes;
  {
    const std::lock_guard lock(mutex_);
    context_gone_ = true;
    dropped = core_.abandon(nodes);
    timer_.reset();
    strand_.reset();
  }
  tell_of_shutdown(std::move(dropped));
}

// ---- called by the nodes' sessions

void cluster_session::node_finished(check_list&& done) {
  std::unique_lock lock(mutex_);
  if (context_gone_) {
    lock.unlock();
    return detail::discard(std::move(done));
  }
  core_.finished(done, current_time());
  follow(lock);
  sink().complete(std::move(done));
}

void cluster_session::node_has_news(index i, const redis::cluster_node& link) {
  std::unique_lock lock(mutex_);
  if (context_gone_) return;
  core_.on_node_event(i, link, current_time());
  follow(lock);
}

void cluster_session::node_ended(index i, const redis::cluster_node& link) {
  std::unique_lock lock(mutex_);
  if (context_gone_) return;
  core_.ended(i, link);
  follow(lock);
}

// ---- what follows a call, and the timer

void cluster_session::follow(std::unique_lock<optional_mutex>& lock) {
  check_list done = core_.take_done();
  std::vector<std::shared_ptr<redis::cluster_node>> stops;
  is_stopping_ = is_stopping_ || (stops_when_idle_ && core_.is_idle());
  // A give-back may still be sent on to a node that had no connection.
  if (is_stopping_) stops = core_.links();
  const bool ends = is_stopping_ && !has_ended_ && stops.empty();
  if (ends) {
    has_ended_ = true;
    core_.end();
  }
  const bool wake = !context_gone_ && !wake_posted_ && (core_.wakeup() < armed_ || ends);
  if (wake) wake_posted_ = true;
  // The checks may hold the last handle of this object.
  const std::shared_ptr<cluster_session> self = wake || !done.empty() || !stops.empty()
                                                    ? shared_from_this()
                                                    : nullptr;
  lock.unlock();
  if (wake) asio::post(*strand_, [self] { self->on_strand(); });
  for (const auto& one : stops) one->stop_when_idle();
  if (!done.empty()) sink().complete(std::move(done));
}

void cluster_session::on_strand() {
  std::unique_lock lock(mutex_);
  wake_posted_ = false;
  core_.on_time(current_time());
  const time next = core_.wakeup();
  const bool ends = has_ended_;
  const bool rearm = next < armed_;
  if (rearm) armed_ = next;
  follow(lock);
  if (ends) {
    timer_->cancel();
  } else if (rearm) {
    timer_->expires_at(next);
    timer_->async_wait([self = shared_from_this()](error_code ec) {
      if (ec) return;
      {
        const std::lock_guard again(self->mutex_);
        self->armed_ = time::max();
      }
      self->on_strand();
    });
  }
}

}  // namespace weir::net

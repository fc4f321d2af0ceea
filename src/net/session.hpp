#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "check/shutdown_service.hpp"
#include "check/store_backend.hpp"
#include "net/optional_mutex.hpp"
#include "net/replica_stores.hpp"
#include "net/sentinel_watch.hpp"
#include "net/strand.hpp"
#include "net/stream.hpp"
#include "redis/connection_core.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// A Redis store: drives a connection_core with a stream and one timer.
///
/// Stream and timer are used on a strand. A mutex guards the core, because callers come from any
/// thread; it is held while checks are encoded or decoded, never during a handler or a system call.
class session final : public detail::store_backend,
                      public std::enable_shared_from_this<session>,
                      public detail::shutdown_listener,
                      private stream::listener,
                      private sentinel_watch::owner {
 public:
  /// A Redis Cluster that has this session as a node. It is called on any thread, without locks.
  class cluster {
   public:
    virtual void on_news() = 0;   ///< see connection_core::has_news()
    virtual void on_ended() = 0;  ///< the connection has stopped for good

   protected:
    ~cluster() = default;
  };

  /// With replicas, a call is answered only when so many of them have its count.
  session(const boost::asio::any_io_executor& executor, redis_options&& options, tls_context tls,
          std::size_t replicas = 0);

  /// Makes this a node of a cluster. Called before open().
  void join(cluster& c) noexcept { cluster_ = &c; }
  /// For a cluster: calls f(core, now) under the mutex, and lets the strand do what follows. Runs
  /// no handler.
  template <class F>
  auto with_core(F&& f) {
    std::unique_lock lock(mutex_);
    const time now = std::chrono::steady_clock::now();
    auto result = f(core_, now);
    const bool wake = needs_strand(now, core_.has_done());
    // The caller holds this session.
    const bool is_there = !context_gone_;
    lock.unlock();
    if (wake && is_there) wake_strand();
    return result;
  }

  /// Starts connecting.
  void open();

  void start(detail::check& c) override;
  void start_all(std::span<detail::check* const> checks) override;
  void cancel(detail::check& c, detail::cancel_scope scope) override;
  void close() override;
  const boost::asio::any_io_executor& get_executor() const noexcept override { return executor_; }
  bool has_hash_tags() const noexcept override { return true; }
  std::string_view key_prefix() const noexcept override { return options_.key_prefix; }
  std::shared_ptr<detail::store_backend> waiting_for(
      std::size_t replicas, const std::shared_ptr<detail::store_backend>& whole,
      std::unique_ptr<detail::completion_sink> sink) override;

 private:
  using time = redis::connection_core::time;

  void context_shut_down() noexcept override;

  std::shared_ptr<void> keep_alive() override { return shared_from_this(); }
  void on_opened(error e) override;
  void on_received(error e, std::size_t bytes) override;
  void on_written(bool ok, std::size_t bytes) override;
  void master_moved() override;
  void on_timer();

  /// On the strand: reports an event to the core, then starts the core's next actions.
  template <class Event>
  void drive(Event&& event);
  /// How many bytes it has written at once, without a report to come.
  std::size_t perform(const redis::connection_core::actions& a, std::span<char> room);
  void wrote_at_once(std::size_t bytes);
  void open_stream(bool elsewhere);
  void arm_timer(time when);

  /// True if the strand must be woken: for the core's actions, an earlier timer, or `anyway`. Any
  /// thread; requires the mutex.
  bool needs_strand(time now, bool anyway = false);
  void follow(std::unique_lock<optional_mutex> lock, bool wake);
  void expect_checks();
  void wake_strand();
  void may_stop();

  const redis_options options_;
  const tls_context tls_;
  replica_stores replicated_;
  cluster* cluster_ = nullptr;
  boost::asio::any_io_executor executor_;
  std::optional<strand> strand_;

  optional_mutex mutex_;
  // Guarded by the mutex:
  redis::connection_core core_;
  time armed_ = time::max();  // the expiry of the timer; time::max(): not armed
  bool wake_posted_ = false;
  bool context_gone_ = false;

  // Used on the strand only:
  std::unique_ptr<sentinel_watch> watch_;  // null without Sentinels
  std::optional<stream> stream_;
  std::optional<timer> timer_;
};

}  // namespace weir::net

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "check/check_list.hpp"
#include "check/light_mutex.hpp"
#include "memcached/connection_core.hpp"
#include "net/strand.hpp"
#include "net/stream.hpp"
#include "weir/memcached_options.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// The connection to one server of a Memcached store: drives a connection_core with a stream and
/// one timer, as session does for Redis. The store owns it, and takes its finished checks.
class memcached_session final : private stream::listener {
 public:
  class owner {
   public:
    /// Each operation in progress holds the result.
    virtual std::shared_ptr<void> hold() = 0;
    /// Takes finished checks. Called without a lock; may free the store.
    virtual void deliver(detail::check_list&& done) = 0;

   protected:
    ~owner() = default;
  };

  /// `options` and the owner outlive this object.
  memcached_session(const boost::asio::any_io_executor& executor, const memcached_options& options,
                    const memcached_server& server, owner& o);

  /// Starts connecting.
  void open() { wake_strand(); }

  void start(detail::check& c, std::string_view key);
  /// False if the check is done already: then its sink has it.
  bool cancel(detail::check& c, detail::cancel_scope scope);

  /// Begins to close; give-backs are still taken, until may_stop() and no check is pending. False
  /// if it was closed before.
  bool close();
  void may_stop();

  /// See shutdown_listener::context_shut_down(). Returns the checks that are left.
  detail::check_list context_shut_down() noexcept;

 private:
  using core = memcached::connection_core;
  using time = core::time;

  std::shared_ptr<void> keep_alive() override { return owner_.hold(); }
  void on_opened(error e) override;
  void on_received(error e, std::size_t bytes) override;
  void on_written(bool ok, std::size_t bytes) override;

  template <class Event>
  void drive(Event&& event);
  /// How many bytes were written at once; 0: nothing was, or on_written() comes later.
  std::size_t perform(const core::actions& a, std::span<char> room);
  void wrote_at_once(std::size_t bytes);
  void arm_timer(time when);
  bool needs_strand(time now, bool anyway = false);
  void expect_checks();
  void wake_strand();

  const memcached_options& options_;
  const redis_options link_;  // what a stream needs to know
  owner& owner_;
  std::optional<strand> strand_;

  detail::light_mutex mutex_;
  // Guarded by the mutex:
  core core_;
  time armed_ = time::max();  // the expiry of the timer; time::max(): not armed
  bool wake_posted_ = false;
  bool context_gone_ = false;

  // Used on the strand only:
  std::optional<stream> stream_;
  std::optional<timer> timer_;
};

}  // namespace weir::net

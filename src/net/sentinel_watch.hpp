#pragma once

#include <memory>

#include "net/locator.hpp"
#include "net/strand.hpp"
#include "net/stream.hpp"
#include "redis/topology/sentinel_core.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// Names the master to a session's stream, and tells the session when the master has moved: drives
/// a sentinel_core with a stream and a timer. Everything is on the session's strand.
class sentinel_watch final : public locator, private stream::listener {
 public:
  class owner {
   public:
    /// Each operation in progress holds the result.
    virtual std::shared_ptr<void> keep_alive() = 0;
    virtual void master_moved() = 0;

   protected:
    ~owner() = default;
  };

  /// `options` must outlive this.
  sentinel_watch(const strand& s, const redis_options& options, tls_context tls, owner& o);

  void ask(bool elsewhere, report r) override;
  void leave() override;
  /// Ends the connection and the timer. A second call does nothing.
  void stop();

 private:
  using clock = std::chrono::steady_clock;
  using core = redis::sentinel_core;

  std::shared_ptr<void> keep_alive() override { return owner_.keep_alive(); }
  void on_step(error) override {}
  void on_opened(error e) override;
  void on_received(error e, std::size_t bytes) override;
  void on_written(bool ok, std::size_t bytes) override;

  /// Starts the core's next actions, then tells its results.
  void advance();
  void arm_timer();

  owner& owner_;
  redis_options link_;  // to the Sentinel in use
  core core_;
  report report_;  // of the pending ask()
  core::time armed_ = core::time::max();
  strand strand_;
  stream stream_;
  timer timer_;
};

}  // namespace weir::net

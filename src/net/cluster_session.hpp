#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/shutdown_service.hpp"
#include "check/store_backend.hpp"
#include "net/connection_driver.hpp"
#include "net/session.hpp"
#include "net/strand.hpp"
#include "redis/topology/cluster_core.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// The store on a Redis Cluster: drives a cluster_core with one session for each node and a timer.
///
/// Each node has its own strand and mutex, so none waits for another. This object's mutex guards
/// the routing. It may be held while a session's mutex is taken, never the other way round.
class cluster_session final : public detail::store_backend,
                              public std::enable_shared_from_this<cluster_session>,
                              public detail::shutdown_listener {
 public:
  cluster_session(const boost::asio::any_io_executor& executor, redis_options&& options,
                  tls_context tls);

  /// Starts to look for the slot map.
  void open();

  void start(detail::check& c) override;
  void cancel(detail::check& c, detail::cancel_scope scope) override;
  void close() override;
  void describe(std::vector<connection_stats>& into) const override;
  bool has_hash_tags() const noexcept override { return true; }
  std::string_view key_prefix() const noexcept override { return options_.key_prefix; }

 private:
  using index = redis::cluster_core::index;
  using time = redis::cluster_core::time;
  class node;
  class node_sink;

  void context_shut_down() noexcept override;

  std::shared_ptr<redis::cluster_node> make_node(const redis_address& at, index i);
  void node_finished(detail::check_list&& done);
  void node_has_news(index i, const redis::cluster_node& link);
  void node_ended(index i, const redis::cluster_node& link);

  /// Ends a call under the mutex: delivers the checks that the core has finished, sets the timer,
  /// and stops the nodes if nothing is pending after a close.
  void follow(std::unique_lock<optional_mutex>& lock);
  void stop_when_idle();
  void on_strand();

  const redis_options options_;
  const tls_context tls_;

  mutable optional_mutex mutex_;
  // Guarded by the mutex:
  redis::cluster_core core_;
  time armed_ = time::max();  // the expiry of the timer; time::max(): not armed
  bool wake_posted_ = false;
  bool stops_when_idle_ = false;
  bool is_stopping_ = false;  // the nodes stop as soon as nothing is pending there
  bool has_ended_ = false;    // all nodes have stopped
  bool context_gone_ = false;
  std::optional<strand> strand_;

  std::optional<timer> timer_;  // used on the strand only
};

}  // namespace weir::net

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "redis/connection_core.hpp"

namespace weir::redis {

/// A node of a Redis Cluster as cluster_core sees it: a connection with its pipeline. No call runs
/// handlers. start() may end the check at once, and then calls the cluster, so it must be called
/// without the cluster's mutex; no other call does that.
class cluster_node {
 public:
  using predicate = std::function<bool(const detail::check&)>;

  virtual ~cluster_node() = default;

  /// Takes over a check that cluster_core::submit() has routed here.
  virtual void start(detail::check& c) = 0;
  /// Does nothing if the check was finished before.
  virtual void cancel(detail::check& c, detail::cancel_scope scope) = 0;
  /// As store_backend::replace().
  virtual bool replace(detail::check& c, detail::check& successor) = 0;

  // See pipeline.
  virtual void resume(detail::check_list&& checks) = 0;
  virtual void take_redirected(std::vector<pipeline::redirected_checks>& out) = 0;
  virtual void proceed() = 0;
  virtual void take_unsent(const predicate& elsewhere, detail::check_list& out) = 0;
  virtual void ask_map() = 0;
  virtual std::optional<pipeline::map_answer> take_map() = 0;
  /// See connection_core.
  virtual connection_core::link_news take_news() = 0;

  /// Ends the connection. No check is pending.
  virtual void end() = 0;
};

}  // namespace weir::redis

#pragma once

#include <functional>

#include "redis/connection_core.hpp"

namespace weir::redis {

/// A node of a Redis Cluster as cluster_core sees it: a connection.
class cluster_node {
 public:
  using time = connection_core::time;

  virtual ~cluster_node() = default;

  /// Takes over a check that cluster_core::submit() has routed here. If it ends the check at once,
  /// it calls the cluster, so it must be called without the cluster's mutex.
  virtual void start(detail::check& c) = 0;

  /// Calls f(core, now) under the connection's mutex, and has the connection do what follows. Runs
  /// no handler.
  template <class F>
  void use(F&& f) {
    with_core(std::ref(f));
  }

  // How the cluster ends the connection.
  void close() {
    use([](connection_core& core, time now) { core.close(now); });
  }
  void stop_when_idle() {
    use([](connection_core& core, time) { core.stop_when_idle(); });
  }

 private:
  virtual void with_core(const std::function<void(connection_core&, time)>& f) = 0;
};

}  // namespace weir::redis

#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "support/redis_client.hpp"
#include "support/redis_server.hpp"
#include "weir/redis_options.hpp"

namespace weir::test {

struct sentinel_group_options {
  int replicas = 2;
  int sentinels = 3;
  std::string password = {};           ///< of the master and the replicas
  std::string sentinel_password = {};  ///< of the Sentinels
  redis_server_tls tls = {};           ///< of the master and the replicas
  redis_server_tls sentinel_tls = {};  ///< of the Sentinels; its CAs sign the servers', too
};

/// A real master with replicas, and Sentinels that watch it and know each other. A master that does
/// not answer for 500 ms is replaced by a replica one to three seconds later.
class sentinel_group {
 public:
  explicit sentinel_group(sentinel_group_options options = {});

  /// Options of a store on it, patient with failovers. Those of TLS are left to the test.
  redis_options options() const;

  std::deque<redis_server> servers;  ///< the first is the master at the start
  std::deque<redis_server> sentinels;

  /// The server that the Sentinel names.
  redis_server& master(std::size_t sentinel = 0);
  /// Has a Sentinel make a planned failover, and waits until all know it. On a busy machine, it may
  /// find no replica to choose, or give up: it is asked again.
  void fail_over();
  /// Waits until all Sentinels that run name another server than `old`, which is a master.
  void wait_for_failover_from(const redis_server& old);
  /// No master is replaced any more, however long it does not answer.
  void stop_failovers();
  /// Waits until the server says that it is a replica with a link to its master.
  static void wait_for_replica(redis_server& s);

 private:
  sentinel_group_options options_;
};

/// Waits until `holds`, which is asked again and again. Throws after 30 s.
void wait_until(const std::function<bool()>& holds, const std::string& what);

}  // namespace weir::test

#pragma once

#include "redis/slot.hpp"
#include "support/limiter_fixture.hpp"
#include "support/redis_cluster.hpp"
#include "support/test.hpp"

namespace weir::test {

using namespace std::chrono_literals;

/// A Redis Cluster of three masters, and stores on it. Without replicas no master is ever replaced,
/// however slow the machine is.
struct cluster_fixture : limiter_fixture {
  explicit cluster_fixture(std::size_t replicas = 0, const char* node_timeout = "10000")
      : own(std::make_unique<redis_cluster>(
            3, replicas, std::vector<std::string>{"--cluster-node-timeout", node_timeout})),
        cluster(*own) {}
  /// On a cluster that several cases share: two seconds pass before a new one takes writes.
  explicit cluster_fixture(redis_cluster& shared) : cluster(shared) {}

  const std::unique_ptr<redis_cluster> own;
  redis_cluster& cluster;

  redis_options options(std::chrono::microseconds timeout = 20s) {
    redis_options o = parse_redis_url(cluster.url());
    o.timeout = timeout;
    o.backoff_min = 1ms;
    o.backoff_max = 50ms;
    o.breaker_failures = 0;
    return o;
  }
  store open(std::chrono::microseconds timeout = 20s) {
    return make_redis_store(io.get_executor(), options(timeout));
  }
  static fixed_window plenty() { return {.limit = 1'000'000, .window = 24h}; }

  void run_for(std::chrono::milliseconds d) {
    bool over = false;
    asio::steady_timer timer(io, d);
    timer.async_wait([&](error_code) { over = true; });
    run_until(io, [&] { return over; });
  }
  /// Lets the callers go on until a server says so.
  void run_while_waiting(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + watchdog;
    while (!holds()) {
      BOOST_TEST_REQUIRE((std::chrono::steady_clock::now() < limit));
      run_for(5ms);
    }
  }

  /// What the servers have counted for a subject of the resource "r".
  std::int64_t counted(const limiter& l, const std::string& subject) {
    return answer([&](auto h) { l.fetch(subject, h); }).used;
  }
};

/// Each master has a replica, which replaces it if it is gone for 1.5 s.
struct replicated_cluster : cluster_fixture {
  replicated_cluster() : cluster_fixture(3, "1500") {}
};

inline std::uint16_t slot_of(const std::string& resource, const std::string& subject) {
  return redis::slot_of_tag(resource + ":" + subject);
}

}  // namespace weir::test

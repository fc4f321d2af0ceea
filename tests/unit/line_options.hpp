#pragma once

#include <chrono>
#include <string>

#include "weir/redis_options.hpp"

namespace weir::redis::test {

/// The options that a pipeline takes notice of. Without a word about it, there is no circuit
/// breaker: most tests are not about that.
struct line_options {
  std::size_t max_pending = 100'000;
  std::size_t max_keys_per_call = 64;
  std::chrono::microseconds timeout = std::chrono::milliseconds{500};
  std::size_t breaker_failures = 0;
  std::chrono::microseconds breaker_pause = std::chrono::milliseconds{500};
  bool in_cluster = false;
  std::string host = "h";

  operator redis_options() const {  // NOLINT(google-explicit-constructor)
    redis_options o;
    o.max_pending = max_pending;
    o.max_keys_per_call = max_keys_per_call;
    o.timeout = timeout;
    o.breaker_failures = breaker_failures;
    o.breaker_pause = breaker_pause;
    o.host = host;
    if (in_cluster) o.cluster_seeds = {{.host = host}};
    return o;
  }
};

}  // namespace weir::redis::test

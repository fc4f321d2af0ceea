#pragma once

#include "support/leases.hpp"
#include "support/limiter_fixture.hpp"
#include "support/test.hpp"

namespace weir::test {

/// A server, gates on its own stores, and what the server knows of them.
struct gate_fixture : server_fixture {
  const std::string key = "weir:{gate:a}:c";

  redis_options options() const { return patient_options(server); }
  concurrency_limiter gate(std::int64_t limit,
                           std::chrono::microseconds length = std::chrono::hours{1}) {
    return {open(), "gate", {.limit = limit, .lease_duration = length}};
  }
  lease enter(const concurrency_limiter& g) { return test::enter(io, g, "a"); }
  std::int64_t inside() { return client.must("ZCARD", key).integer; }
  /// When the last lease lapses, by the server's clock.
  double end() {
    const auto last = client.must("ZRANGE", key, -1, -1, "WITHSCORES").children;
    return last.empty() ? 0 : std::stod(last.at(1).text);
  }
};

/// One that enters through a gate, and may be cancelled.
struct entrance {
  asio::cancellation_signal signal;
  error_code ec;
  lease got;
  bool done = false;

  entrance(const concurrency_limiter& g, enter_options how = {}) {
    g.enter("a", how, asio::bind_cancellation_slot(signal.slot(), [this](error_code e, lease l) {
              ec = e;
              got = std::move(l);
              done = true;
            }));
  }
};

}  // namespace weir::test

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/redis_client.hpp"

namespace weir::test {

/// Runs a production script, its text unmodified, in a real server but under a clock of the test's
/// own. A prelude puts a local `redis` in front of the real one:
///
///   TIME     the time set by set_clock()
///   SET PX   the real command with a TTL of eleven days, as simulated and real time differ; the
///            end of the TTL that was asked for is
///   PEXPIRE  recorded for requested_ttl(). One below 1 ms, or not whole, fails the script; and so
///            does a PEXPIREAT of that clock's past
///   PTTL     what is left until the recorded end, or -1 and -2 as the server says
///
/// Everything else is the server's.
class script_harness {
 public:
  script_harness(redis_client& client, std::string_view script);

  /// The queueing half, for pipelining: one reply each.
  void send_clock(std::int64_t now);
  void send_run(std::span<const std::string> keys, std::span<const std::int64_t> arguments,
                std::span<const std::int64_t> counts);
  void send_run(std::span<const std::string> keys, std::span<const std::string> arguments,
                std::span<const std::int64_t> counts);
  /// When the TTL ends, in microseconds; null if there is none.
  void send_requested_end(std::string_view key);

  /// The same, one at a time.
  void set_clock(std::int64_t now);
  reply run(std::span<const std::string> keys, std::span<const std::int64_t> arguments,
            std::span<const std::int64_t> counts);

  /// In milliseconds from the last clock set here; empty if the scripts have not set any for that
  /// key since forget_ttl().
  std::optional<std::int64_t> requested_ttl(std::string_view key);
  void forget_ttl(std::string_view key);

 private:
  redis_client& client_;
  std::string sha_;
  std::int64_t clock_ = 0;
};

}  // namespace weir::test

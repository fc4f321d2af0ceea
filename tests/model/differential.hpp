#pragma once

#include <memory>

#include "support/random_source.hpp"
#include "support/redis_client.hpp"
#include "weir/policy.hpp"

namespace weir::model {

/// What the traces came to: a test that never saw a refusal has shown nothing.
struct tally {
  std::int64_t steps = 0;      // one key's part of one call
  std::int64_t decisions = 0;  // equal checks that travelled together count one by one
  std::int64_t refused = 0;
  std::int64_t fetched = 0;
  std::int64_t behind = 0;  // the clock had stepped back
};

/// Runs random traces through the reference model, the kernel in C++ and, if there is a client, the
/// kernel's script in a real server under a mock clock, and compares every field of every decision
/// and the TTL of what was written. Throws at the first difference; the text has all that is needed
/// to run it again.
class differential {
 public:
  differential(test::redis_client* client, std::uint64_t seed, std::uint32_t stream);
  ~differential();

  /// One trace of about that many steps, on several subjects with empty state.
  void trace(const policy& p, std::int64_t steps);

  test::random_source& random() noexcept { return random_; }
  const tally& totals() const noexcept { return totals_; }

 private:
  struct scripts;

  std::uint64_t seed_;
  test::random_source random_;
  test::redis_client* client_;
  std::unique_ptr<scripts> scripts_;
  std::int64_t traces_ = 0;
  tally totals_;
};

}  // namespace weir::model

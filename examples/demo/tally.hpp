#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <vector>

namespace demo {

/// The two parts of the demo.
enum class phase { unthrottled, throttled };

/// What a number of callers saw in one phase.
struct tally {
  std::int64_t requests = 0;
  std::int64_t ok = 0;
  std::int64_t refused = 0;  ///< answered 429
  int served = 0;            ///< callers that were answered 200 at least once

  /// One for each call answered 200: from wanting to call until the request that got it was sent.
  std::vector<std::chrono::microseconds> waits;

  tally& operator+=(const tally& other);
};

/// The wait that `part` (0.5, 0.99) of all calls did not exceed; zero if there were none.
std::chrono::microseconds wait_percentile(const tally& t, double part);

// One line of text, on which a worker process sends its tally to its parent.
std::ostream& operator<<(std::ostream& out, const tally& t);
std::istream& operator>>(std::istream& in, tally& t);

}  // namespace demo

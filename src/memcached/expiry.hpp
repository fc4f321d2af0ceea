#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/arithmetic.hpp"

namespace weir::memcached {

/// memcached takes a larger number of seconds for a time since 1970.
inline constexpr std::int64_t longest_relative_expiry = 30 * 24 * 3600;
/// It reads the number as 32 bits with a sign: nothing lasts beyond 2038-01-19.
inline constexpr std::int64_t latest_expiry = 2'147'483'647;

/// The expiry of an item whose state matters until `ends`, as the argument of T: the time until
/// then and the grace, rounded up to seconds, and one more, because memcached's clock moves once a
/// second. `now` is the caller's clock. A long state's expiry is a time of the server's clock:
/// `server_ahead` is how far that is known to be ahead, and clocks_differ is added for what is not
/// known.
inline std::int64_t expiry_of(policies::instant ends, policies::instant now,
                              policies::span server_ahead = 0) noexcept {
  constexpr std::int64_t second = 1'000'000, clocks_differ = 6;
  const policies::span left = std::max<policies::span>(ends - now, 0) + policies::grace;
  const std::int64_t seconds = (left + second - 1) / second + 1;
  if (seconds <= longest_relative_expiry) return seconds;
  const policies::instant theirs = now + std::max<policies::span>(server_ahead, 0);
  return std::min(theirs / second + seconds + clocks_differ, latest_expiry);
}

}  // namespace weir::memcached

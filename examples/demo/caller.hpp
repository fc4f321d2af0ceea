#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <weir/limiter.hpp>
#include <weir/policy.hpp>

#include "tally.hpp"

namespace demo {

using time_point = std::chrono::steady_clock::time_point;

/// The limit that all callers share, whichever process they are in.
struct throttle {
  weir::limiter limiter;
  std::string account;
  std::chrono::microseconds ahead_of_store{0};  ///< our steady clock's time minus the store's
};

/// The policy that keeps to a vendor's `allowance` per second, with up to `max_waiters` at a time.
weir::leaky_bucket policy_for(int allowance, int max_waiters);

/// One caller: calls the vendor again and again until `end`, and repeats each call until it
/// succeeds. Without a throttle it calls at once, and after a 429 waits as long as the vendor asks.
/// `throttle` and `results` have to outlive it.
boost::asio::awaitable<void> make_calls(boost::asio::ip::tcp::endpoint vendor,
                                        const throttle* throttle, time_point end, tally* results);

}  // namespace demo

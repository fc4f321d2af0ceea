#pragma once

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "support/grants.hpp"
#include "support/limiter_fixture.hpp"
#include "weir/weir.hpp"

/// Limiters with waiters, in memory and at a real server.
namespace weir::test::waiting {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::cancellation_type;

using test::cancellable_crowd;

inline const auto aborted = asio::error::operation_aborted;
inline constexpr token_bucket one_a_day{.capacity = 1, .refill = per_day(1)};
/// A reservation comes within a day of the one before: half of it passes until that one leaves the
/// present window.
inline constexpr sliding_window at_least_one_a_day{.limit = 1, .window = 12h};
inline constexpr acquire_options patiently{.max_wait = 31 * 24h};

struct fixture : server_fixture {
  /// Lets everything happen that does not need time: the answers of as many fetches have come.
  void settle(const limiter& l) {
    for (int i = 0; i < 3; ++i) answer([&](auto h) { l.fetch("another", h); });
  }
};

/// How many script calls make `n` equal reservations at most, all requested before the first write.
/// Nearly every call is full: a write takes whole calls as long as the send window holds at least
/// one write. A new connection begins with one key and doubles that.
inline constexpr std::int64_t full_calls(std::int64_t n, std::int64_t in_call) {
  return (n + in_call - 1) / in_call + 12;
}

inline time_point reserved_time_of(const decision& d) { return d.decided_at + d.delay; }

/// Whether the reservations of a sliding window are ones that its formula allows: the counts of the
/// windows, aligned as in the store.
inline void check_window(const std::vector<time_point>& turns, const sliding_window& policy) {
  std::map<std::int64_t, std::int64_t> counts;
  const std::int64_t w = policy.window.count();
  std::vector<std::int64_t> times;
  for (const auto& t : turns) times.push_back(t.time_since_epoch().count());
  std::sort(times.begin(), times.end());
  for (const std::int64_t t : times) {
    const std::int64_t number = t / w, left = w - t % w;
    const auto current = ++counts[number];
    const auto before = counts.find(number - 1);
    const std::int64_t previous = before == counts.end() ? 0 : before->second;
    BOOST_REQUIRE(previous * left + current * w <= policy.limit * w);
  }
}

/// All callers were allowed. Those that a cool-down delayed (`is_earlier` is false) have
/// reservations from `end` on, and no window holds more than the log allows.
inline void check_pause(const crowd& c, const std::vector<bool>& is_earlier, time_point end,
                        const sliding_log& rule) {
  std::vector<grant> all;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const time_point reserved = reserved_time_of(c[i].d);
    BOOST_TEST(c[i].d.allowed);
    BOOST_TEST((is_earlier[i] || reserved >= end));
    all.push_back({reserved.time_since_epoch().count(), 1});
  }
  const auto excess = first_excess(rule, all);
  BOOST_TEST(!excess, excess.value_or(""));
}

}  // namespace weir::test::waiting

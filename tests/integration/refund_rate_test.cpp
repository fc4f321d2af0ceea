// What callers give back in a real server is of use to others: an hour passes on the server's
// clock.
#include <queue>

#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/shifted_clock.hpp"
#include "support/stores.hpp"

namespace refund_rate_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t units_a_second = 10;
// A full bucket lets more through at first.
constexpr auto measured_from = 300s, measured_to = is_sanitized ? 400s : 3900s;

struct fixture {
  shifted_clock clock;
  redis_server server{{.environment = clock.environment()}};
  asio::io_context io;
  weir::store store = make_redis_store(io.get_executor(), patient_options(server));

  /// Twenty callers a second take four units each, and settle for one after five seconds.
  double use_of(const limiter& l) {
    constexpr std::chrono::microseconds step = 100ms, begin = 1'790'000'000s;
    std::queue<std::pair<std::chrono::microseconds, decision>> due;
    std::int64_t used = 0;
    for (std::chrono::microseconds at{0}; at < measured_to; at += step) {
      clock.stop_at(begin + at);
      crowd settled, asked;
      for (; !due.empty() && due.front().first <= at; due.pop()) {
        l.settle("a", due.front().second, 1, settled.caller());
      }
      for (int i = 0; i < 2; ++i) l.record("a", {.cost = 4}, asked.caller());
      run_until_complete(io, settled);
      run_until_complete(io, asked);
      BOOST_TEST_REQUIRE(settled.allowed() == settled.size());
      for (const auto& o : asked) {
        BOOST_TEST_REQUIRE(!o.ec.failed());
        if (!o.d.allowed) continue;
        due.emplace(at + 5s, o.d);
        if (at >= measured_from) ++used;
      }
    }
    return static_cast<double>(used) /
           static_cast<double>(std::chrono::seconds(measured_to - measured_from).count());
  }
};

BOOST_FIXTURE_TEST_SUITE(refund_rate_suite, fixture)

BOOST_AUTO_TEST_CASE(a_bucket_lets_its_rate_of_settled_units_through) {
  const token_bucket bucket{.capacity = 60 * units_a_second, .refill = per_second(units_a_second)};
  const gcra fast{.rate = per_second(10 * units_a_second), .burst = 10 * units_a_second};
  const limiter one(store, "one", bucket);
  const limiter two(store, "two", tiers(fast, bucket), {.group = "all"});
  for (const auto& [name, l] : {std::pair("bucket", one), std::pair("tiers in a group", two)}) {
    const double used = use_of(l);
    BOOST_TEST_MESSAGE(name << ": " << used << " units a second of " << units_a_second);
    BOOST_TEST(used >= 0.97 * units_a_second);
    BOOST_TEST(used <= 1.01 * units_a_second);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refund_rate_test

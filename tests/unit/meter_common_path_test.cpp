// A bucket's record() takes a short path for plain states. record_from() never does: both decide
// and write alike, whatever the state, the clock and the cost.
#include "policy/meter.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace meter_common_path_test {

namespace policies = weir::policies;

/// decision::operator== does not compare receipts.
bool same_receipt(const weir::decision& a, const weir::decision& b) {
  const auto& x = a.receipt.buckets[0];
  const auto& y = b.receipt.buckets[0];
  return x.whole == y.whole && x.part == y.part && x.returned == y.returned;
}

BOOST_AUTO_TEST_SUITE(meter_common_path_suite)

BOOST_AUTO_TEST_CASE(decides_and_writes_as_the_full_path_does) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    weir::test::random_source random(seed);
    int allowed = 0, refused = 0;
    for (int policy = 0; policy < 400; ++policy) {
      const std::int64_t count = random.one_in(3) ? random.between(1, 7) : 1;
      const std::int64_t burst = random.magnitude(1000);
      const std::int64_t period = random.magnitude(policies::span{1} << 38);
      const policies::meter kernel(count, period, burst, random.one_in(2));
      const std::int64_t full = burst * period / count;
      policies::instant now = random.one_in(4) ? random.between(0, 3) : 1'700'000'000'000'000;
      policies::meter::state state;
      for (int i = 0; i < 200; ++i) {
        // Now and then something that the short path must not take: a part of a microsecond, which
        // this rate may not have, a reservation, units given back, a state far ahead, a clock that
        // stepped back.
        if (random.one_in(20)) state = {.whole = random.between(0, now + 3 * full)};
        if (random.one_in(60)) state.part = random.between(0, count - 1);
        if (random.one_in(60)) state.ahead = {now, now + random.between(1, full + 1)};
        if (random.one_in(60)) state.returned = random.between(1, full + 1);
        if (random.one_in(60)) state.until = now + random.between(-full, full);
        now = std::max<policies::instant>(0, now + random.between(-full / 8, full / 4 + 2));
        const std::int64_t cost = random.between(1, random.one_in(2) ? 2 : burst);
        const policies::request_time at(now,
                                        now + (random.one_in(10) ? random.between(0, full) : 0));

        const weir::decision looked = kernel.fetch(state, at, cost);
        policies::meter::state by_full = state;
        const weir::decision expected = kernel.record_from(0, by_full, at, cost);
        const weir::decision got = kernel.record(state, at, cost);
        BOOST_TEST_REQUIRE((got == expected));
        BOOST_TEST_REQUIRE(same_receipt(got, expected));
        BOOST_TEST_REQUIRE((state == by_full));
        BOOST_TEST_REQUIRE(looked.allowed == got.allowed);
        BOOST_TEST_REQUIRE((looked.retry_after == got.retry_after));
        BOOST_TEST_REQUIRE((looked.delay == got.delay));
        // What stands before the request: that of the same look after a request that was refused.
        if (!got.allowed) BOOST_TEST_REQUIRE((looked == got));
        if (got.allowed && at.when == now) {
          BOOST_TEST_REQUIRE(looked.remaining >= got.remaining + cost - 1);
        }
        ++(got.allowed ? allowed : refused);
      }
    }
    BOOST_TEST(allowed > 10'000);
    BOOST_TEST(refused > 10'000);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace meter_common_path_test

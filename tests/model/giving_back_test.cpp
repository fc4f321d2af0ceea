// What comes back is never more than was taken: of random requests, bookings, refunds and charges
// on a few buckets, those that were kept all pass when they are replayed without what was given
// back. In C++ only, so that there can be a million.
#include "giving_back_trace.hpp"

namespace giving_back_test {

using namespace weir;
using namespace weir::test::giving_back;
using policies::any_state;
using policies::instant;

void check_traces(limiters which, bool leaky, bool steps_back, std::uint32_t stream) {
  test::random_source random(test::run_seed(), stream);
  std::int64_t taken = 0, reserved = 0, returned = 0, came_back = 0, mixed = 0;
  for (int steps = 0; steps < steps_wanted / 4; steps += steps_per_trace) {
    trace t(random, which, leaky, steps_back);
    t.run();
    taken += t.taken;
    reserved += t.reserved;
    returned += t.returned;
    came_back += t.came_back;
    mixed += t.mixed;
  }
  BOOST_TEST_MESSAGE(taken << " recorded, " << reserved << " reserved ahead, " << returned
                           << " given back, of which " << came_back << " changed a state; " << mixed
                           << " tiers charged with them");
  BOOST_TEST(taken > steps_wanted / 80);
  BOOST_TEST(reserved > steps_wanted / 400);
  BOOST_TEST(came_back > steps_wanted / 200);
  BOOST_TEST(mixed > steps_wanted / 400);
}

BOOST_AUTO_TEST_SUITE(giving_back_suite)

// With a unit of 1 to 3.6 us, the rounding hid the request behind: a refund gave back a unit or two
// of theirs.
BOOST_AUTO_TEST_CASE(a_queue_of_few_microseconds_a_unit_gives_back_its_last_only) {
  test::random_source random(test::run_seed(), 914);
  for (int n = 0; n < 200; ++n) {
    const std::int64_t count = random.between(50, 150);
    const std::int64_t period = n < 50 ? 126 : random.between(count, 3 * count);
    const policies::kernel k = policies::meter(n < 50 ? 110 : count, period, 100'000, true);
    any_state s = policies::meter::state{};
    const auto ask = [&](std::int64_t cost, instant now) {
      const policies::tier<any_state> one[] = {{&k, &s, cost}};
      return policies::record_all<any_state>(one, now);
    };
    instant now = t0;
    for (int i = 0; i < 100; ++i) {
      now += random.between(0, 2);
      const std::int64_t cost = random.between(1, 3);
      const decision first = ask(cost, now);
      ask(1, now);
      const auto state = [&] { return std::get<policies::meter::state>(s); };
      const auto before = state();
      const policies::tier<any_state> one[] = {{&k, &s, cost}};
      policies::settle_all(one, now, policies::tickets_of(first));
      BOOST_TEST_REQUIRE((state() == before), "WEIR_TEST_SEED=" << test::run_seed());
      const auto found = state();
      const decision last = ask(cost, now);
      policies::settle_all(one, now, policies::tickets_of(last));
      BOOST_TEST_REQUIRE((state() == found), "WEIR_TEST_SEED=" << test::run_seed());
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_minted_by_one_limiter) {
  check_traces(limiters::one, true, false, 910);
}

BOOST_AUTO_TEST_CASE(nothing_is_minted_in_a_group) {
  check_traces(limiters::of_equal_rates, true, false, 911);
}

BOOST_AUTO_TEST_CASE(nothing_is_minted_among_limiters_of_other_rates) {
  check_traces(limiters::of_any_rates, false, false, 912);
}

BOOST_AUTO_TEST_CASE(a_clock_that_steps_back_mints_no_more_than_the_step) {
  check_traces(limiters::of_equal_rates, false, true, 913);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace giving_back_test

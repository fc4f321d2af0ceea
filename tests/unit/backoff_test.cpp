#include "base/backoff.hpp"

#include "support/test.hpp"

namespace backoff_test {

using namespace std::chrono_literals;
using weir::detail::backoff;

BOOST_AUTO_TEST_SUITE(backoff_suite)

BOOST_AUTO_TEST_CASE(the_ceiling_doubles_up_to_its_maximum_and_pauses_stay_below_it) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    backoff b(20ms, 100ms, seed);
    for (const auto ceiling : {20ms, 40ms, 80ms, 100ms, 100ms}) {
      const auto pause = b.next();
      BOOST_TEST((pause >= 0us && pause <= ceiling));
    }
  }
}

BOOST_AUTO_TEST_CASE(pauses_are_spread_over_the_whole_range) {
  backoff b(1s, 1s, 7);
  int low = 0;
  int high = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto pause = b.next();
    low += pause < 250ms;
    high += pause > 750ms;
  }
  BOOST_TEST(low > 150);
  BOOST_TEST(high > 150);
}

BOOST_AUTO_TEST_CASE(clients_with_different_seeds_do_not_come_back_in_step) {
  std::set<backoff::duration> first;
  for (unsigned seed = 1; seed <= 100; ++seed) first.insert(backoff(1s, 1s, seed).next());
  BOOST_TEST(first.size() > 90u);
}

BOOST_AUTO_TEST_CASE(a_healthy_handshake_starts_over) {
  backoff b(10us, 1h, 3);
  for (int i = 0; i < 40; ++i) b.next();
  b.reset();
  BOOST_TEST((b.next() <= 10us));
}

BOOST_AUTO_TEST_CASE(odd_bounds_are_put_right) {
  backoff none(0us, 0us, 1);
  BOOST_TEST((none.next() <= 1us));
  // No pause at first, and yet they grow; and a maximum below the minimum counts for nothing.
  backoff from_nothing(0us, 1s, 1);
  backoff reversed(1s, 1ms, 1);
  backoff::duration longest_from_nothing{0};
  backoff::duration longest_reversed{0};
  for (int i = 0; i < 50; ++i) {
    longest_from_nothing = std::max(longest_from_nothing, from_nothing.next());
    longest_reversed = std::max(longest_reversed, reversed.next());
  }
  BOOST_TEST((longest_from_nothing > 500ms && longest_from_nothing <= 1s));
  BOOST_TEST((longest_reversed > 500ms && longest_reversed <= 1s));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace backoff_test

#include "link/circuit_breaker.hpp"

#include "support/test.hpp"

namespace circuit_breaker_test {

using namespace std::chrono_literals;
using weir::detail::circuit_breaker;
using moment = circuit_breaker::time;

const moment start{1000h};

BOOST_AUTO_TEST_SUITE(circuit_breaker_suite)

BOOST_AUTO_TEST_CASE(none_is_a_number_of_failures_that_opens_it) {
  circuit_breaker breaker(0, 0us, 1s);
  for (int i = 0; i < 100; ++i) breaker.failed(start, start + 1h);
  BOOST_TEST(breaker.lets_through(start + 1h));
}

// Whichever failure is reported first, the oldest call says how long the store has been silent.
BOOST_AUTO_TEST_CASE(the_oldest_of_short_calls_counts) {
  for (const bool oldest_first : {true, false}) {
    circuit_breaker breaker(3, 500ms, 1s);
    breaker.failed(start + (oldest_first ? 0ms : 30ms), start + 50ms);
    breaker.failed(start + (oldest_first ? 30ms : 0ms), start + 50ms);
    BOOST_TEST(breaker.lets_through(start + 499ms));
    breaker.failed(start + 450ms, start + 500ms);
    BOOST_TEST(!breaker.lets_through(start + 500ms));
  }
}

// Twenty callers, one after the other, had to wait for a whole timeout each.
BOOST_AUTO_TEST_CASE(a_call_without_an_answer_for_a_whole_timeout_is_enough) {
  circuit_breaker breaker(20, 500ms, 1s);
  breaker.failed(start, start + 499ms);
  BOOST_TEST(breaker.lets_through(start + 499ms));
  breaker.failed(start, start + 500ms);
  BOOST_TEST(!breaker.lets_through(start + 500ms));
}

// Calls that were under way when it opened fail one after the other: that must not put the probe
// off.
BOOST_AUTO_TEST_CASE(later_failures_do_not_delay_the_probe) {
  circuit_breaker breaker(1, 0us, 1s);
  breaker.failed(start, start);
  for (int i = 1; i <= 10; ++i) {
    breaker.failed(start, start + i * 100ms);
    BOOST_TEST(breaker.lets_through(start + i * 100ms) == (i == 10));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace circuit_breaker_test

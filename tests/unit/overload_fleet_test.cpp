// What callers get if some processes together ask one server for more than it can do: simulated
// time, no sockets.
#include "overload_fleet.hpp"
#include "support/sanitized.hpp"

namespace overload_fleet_test {

using namespace std::chrono_literals;
using weir::redis::test::overload_fleet;
using scene = overload_fleet::scene;

void show(const char* when, const overload_fleet::tally& t) {
  BOOST_TEST_MESSAGE(when << ": executed " << t.executed << ", in time " << t.in_time);
}

BOOST_AUTO_TEST_SUITE(overload_fleet_suite)

// Calls of 100 ms at a store of 500 ms: 6 % of what the server did was answered in time.
BOOST_AUTO_TEST_CASE(calls_with_shorter_timeouts_than_their_store_are_answered_in_time) {
  const overload_fleet::timeouts asked[] = {{50ms}, {100ms}, {200ms}, {50ms, 100ms, 200ms}};
  for (const std::size_t processes : {1, 4}) {
    for (const auto& timeouts : asked) {
      if (weir::test::is_sanitized && timeouts.size() == 1 && timeouts.front() != 100ms) continue;
      BOOST_TEST_CONTEXT(processes << " processes, first timeout " << timeouts.front().count()
                                   << " ms, of " << timeouts.size()) {
        overload_fleet f({.processes = processes, .rate = 1000, .asked = timeouts}, 1);
        show("at first", f.run(1s));
        const auto later = f.run(2s);
        show("later", later);
        BOOST_TEST(later.in_time >= 0.8);
        BOOST_TEST(later.in_time >= 0.8 * later.executed);
      }
    }
  }
}

// 3 % of what this server did was answered in time.
BOOST_AUTO_TEST_CASE(short_calls_to_a_faster_server_are_answered_in_time) {
  for (const std::size_t processes : {1, 4}) {
    BOOST_TEST_CONTEXT(processes << " processes") {
      overload_fleet f({.processes = processes, .rate = 5000, .asked = {50ms}, .load = 20.0}, 1);
      show("at first", f.run(1s));
      const auto later = f.run(1s);
      show("later", later);
      BOOST_TEST(later.in_time >= 0.8);
      BOOST_TEST(later.in_time >= 0.8 * later.executed);
    }
  }
}

// Eight processes at 100 keys a second got nothing for 12 s: each sent some 200 keys before it knew
// better, and then all circuits were open.
BOOST_AUTO_TEST_CASE(a_fleet_that_meets_a_slow_server_cold_is_served) {
  for (const std::size_t processes : {1, 4, 8, 16}) {
    for (const double rate : {20.0, 50.0, 100.0, 200.0, 1000.0}) {
      if (weir::test::is_sanitized && rate > 200) continue;
      BOOST_TEST_CONTEXT(processes << " processes, " << rate << "/s") {
        double first = 0, later = 0;
        const unsigned runs = rate < 100 ? 8 : 2;  // few keys: much is chance
        for (unsigned seed = 1; seed <= runs; ++seed) {
          overload_fleet f({.processes = processes, .rate = rate, .load = rate < 500 ? 50.0 : 20.0},
                           seed);
          first += f.run(2s).in_time / runs;
          later += f.run(rate < 100 ? 8s : 4s).in_time / runs;
        }
        BOOST_TEST_MESSAGE(processes << " x " << rate << ": " << first << ", later " << later);
        BOOST_TEST(first >= (rate < 50 && processes > 8 ? 0.45 : 0.5));
        BOOST_TEST(later >= 0.8);
      }
    }
  }
}

// A new connection begins with one key under way, but not for long.
BOOST_AUTO_TEST_CASE(a_fast_server_is_asked_at_full_rate_soon) {
  for (const auto round_trip : {std::chrono::nanoseconds(200us), std::chrono::nanoseconds(20ms)}) {
    BOOST_TEST_CONTEXT(round_trip.count()) {
      overload_fleet f({.processes = 1, .rate = 50'000, .load = 0.5, .round_trip = round_trip}, 1);
      show("at first", f.run(20 * round_trip));
      const auto later = f.run(500ms);
      show("later", later);
      BOOST_TEST(later.in_time >= 0.45);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace overload_fleet_test

// A store on a real memcached whose clients' clocks differ from each other, and from the server's.
#include "support/memcached_fixture.hpp"

namespace memcached_clocks_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(memcached_clocks_suite, memcached_fixture)

BOOST_AUTO_TEST_CASE(clocks_that_differ_fail_calls_until_they_agree) {
  memcached_options o = server().patient_options();
  auto offset = std::make_shared<std::atomic<std::int64_t>>(60'000'000);
  o.clock = [offset] {
    return std::chrono::time_point_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now()) +
           std::chrono::microseconds(offset->load());
  };
  o.clock_check_interval = 100ms;
  const store s = open(o);
  limiter l(s, "r", fixed_window{.limit = 10, .window = 24h});
  WEIR_TEST_ERROR(error_of_record(l), error::clock_skew);
  *offset = 0;
  poll_until([&] { return !error_of_record(l); });
  *offset = -60'000'000;
  poll_until([&] { return error_of_record(l) == error::clock_skew; });
}

// The process that was behind took the other's states for those of a clock that had been set back,
// and moved them to its own time, where they were over for the other one: 40 of 5 passed.
BOOST_AUTO_TEST_CASE(clocks_that_differ_by_more_than_a_window_keep_the_limit) {
  const auto begin = std::chrono::time_point_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now());
  for (const std::chrono::milliseconds behind : {1200ms, 3500ms}) {
    const auto open_at = [&](std::chrono::milliseconds offset) {
      memcached_options o = server().patient_options();
      o.key_prefix = "apart" + std::to_string(behind.count());
      o.max_clock_skew = 1min;  // the clocks stand still
      o.clock = [at = begin + offset] { return at; };
      return make_memcached_store(io.get_executor(), std::move(o));
    };
    // Neither is further from the server than max_clock_skew.
    const store ahead = open_at(behind / 2), late = open_at(-behind / 2);
    constexpr rate five_a_second = per_second(5);
    const named_policy policies[] = {
        {"fixed_window", fixed_window{.limit = 5, .window = 1s}},
        {"of the epoch", fixed_window{.limit = 5, .window = 1s, .anchor = anchor::epoch}},
        {"sliding_window", sliding_window{.limit = 5, .window = 1s}},
        {"sliding_log", sliding_log{.limit = 5, .window = 1s}},
        {"with a resolution", sliding_log{.limit = 5, .window = 1s, .resolution = 100ms}},
        {"token_bucket", token_bucket{.capacity = 5, .refill = five_a_second}},
        {"leaky_bucket", leaky_bucket{.capacity = 5, .leak = five_a_second}},
    };
    for (const named_policy& p : policies) {
      BOOST_TEST_CONTEXT(p.name << ", " << behind.count() << " ms apart") {
        limiter of_ahead(ahead, p.name, p.policy), of_late(late, p.name, p.policy);
        int allowed = 0;
        for (int i = 0; i < 20; ++i) {
          allowed += record(of_ahead, "a").allowed ? 1 : 0;
          allowed += record(of_late, "a").allowed ? 1 : 0;
        }
        BOOST_TEST(allowed == 5);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_clocks_test

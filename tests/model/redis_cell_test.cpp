// gcra{.rate = n per p, .burst = m + 1} answers as redis-cell's `CL.THROTTLE key m n p [cost]`
// does. The vectors follow from its documentation: T = p / n; limit = m + 1; refused if the new
// arrival time lies more than (m + 1) * T ahead; remaining = (tolerance - ttl) / T; reset_after =
// the ttl; retry_after = how much too early, -1 if allowed or hopeless.
#include "model/kernel_subject.hpp"
#include "support/test.hpp"

namespace redis_cell_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

struct throttle {
  milliseconds at;
  std::int64_t cost;
  bool limited;
  std::int64_t remaining;
  milliseconds retry_after;  // ours is 0 where redis-cell's is -1
  milliseconds reset_after;
};

void answers_alike(std::int64_t max_burst, const rate& r, std::initializer_list<throttle> vectors) {
  model::kernel_subject subject(gcra{.rate = r, .burst = max_burst + 1});
  for (const throttle& v : vectors) {
    BOOST_TEST_CONTEXT("at " << v.at.count() << " ms, cost " << v.cost) {
      const decision d = subject.record(t0 + v.at.count() * 1000, v.cost);
      BOOST_TEST(!d.allowed == v.limited);
      BOOST_TEST(d.limit == max_burst + 1);
      BOOST_TEST(d.remaining == v.remaining);
      BOOST_TEST((d.retry_after == v.retry_after));
      BOOST_TEST((d.reset_after == v.reset_after));
    }
  }
}

BOOST_AUTO_TEST_SUITE(redis_cell_suite)

// The documented example, CL.THROTTLE user123 15 30 60: "0 16 15 -1 2".
BOOST_AUTO_TEST_CASE(the_documented_example) {
  answers_alike(15, {30, 60s}, {{0ms, 1, false, 15, 0ms, 2s}});
}

BOOST_AUTO_TEST_CASE(fills_up_refuses_and_drains) {
  answers_alike(4, per_second(1),
                {
                    {0ms, 1, false, 4, 0ms, 1s},
                    {0ms, 2, false, 2, 0ms, 3s},
                    {0ms, 3, true, 2, 1s, 3s},
                    {0ms, 2, false, 0, 0ms, 5s},
                    {0ms, 1, true, 0, 1s, 5s},
                    {250ms, 1, true, 0, 750ms, 4750ms},
                    {999ms, 1, true, 0, 1ms, 4001ms},
                    {1000ms, 1, false, 0, 0ms, 5s},
                    {3500ms, 1, false, 1, 0ms, 3500ms},
                    {3500ms, 5, true, 1, 3500ms, 3500ms},
                    {7000ms, 1, false, 4, 0ms, 1s},
                    {60'000ms, 5, false, 0, 0ms, 5s},
                });
}

BOOST_AUTO_TEST_CASE(a_burst_of_zero_spaces_calls_strictly) {
  answers_alike(0, {2, 1s},
                {
                    {0ms, 1, false, 0, 0ms, 500ms},
                    {499ms, 1, true, 0, 1ms, 1ms},
                    {500ms, 1, false, 0, 0ms, 500ms},
                    {1500ms, 1, false, 0, 0ms, 500ms},
                });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace redis_cell_test

// Turns keep a window to the microsecond on the store's clock. What goes out is later than its turn
// by what the process needs to wake: how much more that puts into one window, and what keeps it
// out.
#include "model/kernel_subject.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace sends_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t limit = 250;
constexpr std::chrono::microseconds window = 1s;
constexpr std::int64_t latest_wake_up = 17'000;
constexpr std::int64_t start = 1'790'000'000'000'000;

enum class callers_come { at_once, one_by_one };

/// When 10,000 requests go out, in order: each is reserved behind those before, and sent when its
/// caller wakes. Callers whose turns come at one time wake together.
std::vector<std::int64_t> sends(const sliding_log& policy, callers_come how,
                                test::random_source& random) {
  model::kernel_subject subject{weir::policy(policy)};
  std::map<std::int64_t, std::int64_t> lateness;
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const std::int64_t comes = how == callers_come::at_once ? start : start + i * 3'000;
    const decision d = subject.acquire(comes, std::int64_t{3600} * 1'000'000);
    BOOST_REQUIRE(d.allowed);
    const std::int64_t turn = (d.decided_at + d.delay).time_since_epoch().count();
    const auto [late, is_first] = lateness.try_emplace(turn, 0);
    if (is_first) late->second = random.between(0, latest_wake_up);
    all.push_back(turn + late->second);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::int64_t most_in_a_window(const std::vector<std::int64_t>& times) {
  std::size_t first = 0, most = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    while (times[i] - times[first] >= window.count()) ++first;
    most = std::max(most, i - first + 1);
  }
  return static_cast<std::int64_t>(most);
}

BOOST_AUTO_TEST_SUITE(sends_suite)

BOOST_AUTO_TEST_CASE(late_wake_ups_exceed_a_window_unless_it_has_a_margin) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  test::random_source random(test::run_seed(), 970);
  const auto most = [&](const sliding_log& policy, callers_come how) {
    const auto times = sends(policy, how, random);
    const std::int64_t n = most_in_a_window(times);
    BOOST_TEST_MESSAGE((how == callers_come::at_once ? "at once" : "one by one")
                       << ", window " << policy.window.count() << " us, resolution "
                       << policy.resolution.count() << " us: " << n << " of " << limit << ", "
                       << std::int64_t{10'000} * 1'000'000 / (times.back() - times.front())
                       << " per second");
    return n;
  };
  for (const auto how : {callers_come::at_once, callers_come::one_by_one}) {
    BOOST_TEST(most({.limit = limit, .window = window}, how) > limit);
    BOOST_TEST(most({.limit = limit, .window = window + 20ms}, how) <= limit);
  }
  // All turns lie at the buckets' ends then.
  BOOST_TEST(most({.limit = limit, .window = window, .resolution = 20ms}, callers_come::at_once) <=
             limit);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sends_test

// For every policy: the reference model, the kernel in C++ and the kernel's script in a real server
// agree on every field of every decision.
#include "model/differential.hpp"
#include "model/policy_shapes.hpp"
#include "support/redis_server.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"

namespace differential_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t steps_with_script = test::is_sanitized ? 25'000 : 100'000;
constexpr std::int64_t steps_in_process = test::is_sanitized ? 12'500 : 50'000;
constexpr std::int64_t steps_per_trace = 400;

// What users ask for first; the random ones come after.
template <class Policy>
std::vector<Policy> named_policies();
template <>
std::vector<fixed_window> named_policies() {
  return {{1'000'000, 1s}, {1'000'000, 24h}, {1'000'000, 24h, anchor::epoch}, {unlimited, 1s}};
}
template <>
std::vector<sliding_log> named_policies() {
  return {{1'000'000, 1s}, {1'000'000, 24h}, {1'000'000, 24h, 1min}, {unlimited, 1s, 10ms}};
}
template <>
std::vector<sliding_window> named_policies() {
  return {{1'000'000, 1s}, {1'000'000, 24h}, {unlimited, 1s}};
}
template <>
std::vector<token_bucket> named_policies() {
  return {
      {1'000'000, per_second(1'000'000)}, {1'000'000, per_day(1'000'000)}, {20, per_second(100)}};
}
template <>
std::vector<gcra> named_policies() {
  return {
      {per_second(1'000'000), 1'000'000}, {per_day(1'000'000), 1'000'000}, {per_day(999'983), 7}};
}
template <>
std::vector<leaky_bucket> named_policies() {
  return {{1'000'000, per_second(1'000'000)}, {1'000'000, per_day(1'000'000)}, {20, {7, 3s}}};
}

template <class Policy>
void run_traces(model::differential& all, std::int64_t steps) {
  for (const Policy& p : named_policies<Policy>()) all.trace(p, 2 * steps_per_trace);
  while (all.totals().steps < steps) {
    all.trace(model::random_policy<Policy>(all.random()), steps_per_trace);
  }
}

template <class Policy>
void compare_all(std::uint32_t stream) {
  const std::uint64_t seed = test::run_seed();
  const test::redis_server server({.unix_socket = true});
  test::redis_client client(server);
  model::differential with_script(&client, seed, stream);
  run_traces<Policy>(with_script, steps_with_script);
  model::differential in_process(nullptr, seed, stream + 100);
  run_traces<Policy>(in_process, steps_in_process);

  // The traces went where they should.
  BOOST_TEST(with_script.totals().steps >= steps_with_script);
  for (const model::tally& t : {with_script.totals(), in_process.totals()}) {
    BOOST_TEST_MESSAGE(t.steps << " steps, " << t.decisions << " decisions: " << t.refused
                               << " refused, " << t.fetched << " fetched, " << t.behind
                               << " with the clock behind");
    BOOST_TEST(t.refused > t.decisions / 20);
    BOOST_TEST(t.refused < t.decisions - t.decisions / 20);
    BOOST_TEST(t.fetched > t.steps / 10);
    BOOST_TEST(t.behind > t.decisions / 200);
  }
}

BOOST_AUTO_TEST_SUITE(differential_suite)

BOOST_AUTO_TEST_CASE(fixed_window_agrees) { compare_all<fixed_window>(0); }
BOOST_AUTO_TEST_CASE(sliding_log_agrees) { compare_all<sliding_log>(1); }
BOOST_AUTO_TEST_CASE(sliding_window_agrees) { compare_all<sliding_window>(2); }
BOOST_AUTO_TEST_CASE(token_bucket_agrees) { compare_all<token_bucket>(3); }
BOOST_AUTO_TEST_CASE(gcra_agrees) { compare_all<gcra>(4); }
BOOST_AUTO_TEST_CASE(leaky_bucket_agrees) { compare_all<leaky_bucket>(5); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace differential_test

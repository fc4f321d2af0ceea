// A store on a Redis Cluster whose masters hand over, are killed, or hang.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

#include "cluster_fixture.hpp"
#include "support/load.hpp"

namespace cluster_failover_test {
namespace {

using namespace std::chrono_literals;
using weir::test::data_loss;
using weir::test::load;
using weir::test::redis_client;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cluster_failover_suite, weir::test::replicated_cluster)

// The replica asks its master to hand over: nothing is lost, and nothing is counted twice.
BOOST_AUTO_TEST_CASE(a_planned_failover_under_load) {
  const weir::limiter l(open(), "r", plenty());
  load all(io, l, 40);
  all.run_on(5);
  for (std::size_t i = 0; i < 3; ++i) {
    redis_client(cluster.node(3 + i)).must("CLUSTER", "FAILOVER");
    run_while_waiting([&] { return !cluster.slots_of(3 + i).empty(); });
    all.run_on(3);
  }
  all.end();
  for (const auto& c : all.callers) {
    BOOST_TEST(c->failures == 0);
    BOOST_TEST(counted(l, c->subject) == c->successes);
  }
}

// What the replica had not got is lost, and may be admitted again. The test prints how much.
BOOST_AUTO_TEST_CASE(a_master_is_killed_under_load) {
  const weir::limiter l(open(40s), "r", plenty());
  load all(io, l, 40, data_loss::latest);
  all.run_on(5);
  cluster.replicate(0, 3);
  all.mark_replicated();
  all.run_on(2);
  const auto killed = std::chrono::steady_clock::now();
  cluster.node(0).kill();
  all.run_on(5);  // also those for the slots of the lost master; some answers were on their way
  const auto served = std::chrono::steady_clock::now();
  all.run_on(3);
  all.end();
  std::int64_t told = 0, counts = 0, unknown = 0;
  for (const auto& c : all.callers) {
    told += c->successes;
    unknown += c->failures;
    const std::int64_t here = counted(l, c->subject);
    counts += here;
    BOOST_TEST(here <= c->successes + c->failures);
  }
  BOOST_TEST_MESSAGE(
      "served after "
      << std::chrono::duration_cast<std::chrono::milliseconds>(served - killed).count() << " ms; "
      << told << " allowed, " << unknown << " of unknown outcome, " << counts
      << " counted: " << std::max<std::int64_t>(0, told - counts) << " lost");
  BOOST_TEST(unknown <= 40);  // those that were sent
}

// A master that hangs is replaced; the calls that were sent to it end, and later ones are served.
BOOST_AUTO_TEST_CASE(a_master_hangs_under_load) {
  weir::redis_options o = options(40s);  // however long the failover takes
  o.silence_timeout = 500ms;
  const weir::limiter l(weir::make_redis_store(io.get_executor(), o), "r", plenty());
  load all(io, l, 20, data_loss::latest);
  all.run_on(5);
  cluster.replicate(1, 4);
  all.mark_replicated();
  all.run_on(2);
  cluster.node(1).pause();
  run_while_waiting([&] { return !cluster.slots_of(4).empty(); });
  all.run_on(3);
  all.end();
  cluster.node(1).resume();
  for (const auto& c : all.callers) BOOST_TEST(c->failures <= 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_failover_test

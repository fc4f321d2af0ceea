// A store on a Redis Cluster whose masters hand over, are killed, or hang.
#include "cluster_fixture.hpp"
#include "support/load.hpp"

namespace cluster_failover_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(cluster_failover_suite, replicated_cluster)

// A master that hangs is replaced; the calls that were sent to it end, and later ones are served.
BOOST_AUTO_TEST_CASE(a_master_hangs_under_load) {
  redis_options o = options(40s);  // however long the failover takes
  o.silence_timeout = 500ms;
  const limiter l(make_redis_store(io.get_executor(), o), "r", plenty());
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

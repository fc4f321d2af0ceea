// A store on a Redis Cluster whose slots move, and whose nodes come and go.
#include "cluster_fixture.hpp"
#include "support/load.hpp"

namespace cluster_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(cluster_suite, cluster_fixture)

BOOST_AUTO_TEST_CASE(subjects_are_counted_on_all_masters) {
  const limiter l(open(), "r", fixed_window{.limit = 3, .window = 24h});
  crowd c;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 300; ++i) l.record("s" + std::to_string(i), c.caller());
  }
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 900u);
  BOOST_TEST(c.refused() == 300u);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(redis_client(cluster.node(i)).must("DBSIZE").integer > 50);
  }
}

// Each caller sees its own count rise by one, whatever the slots do: a check sent twice, lost, or
// overtaken by a later one of its key would show.
BOOST_AUTO_TEST_CASE(slots_move_back_and_forth_under_load) {
  const limiter l(open(), "r", plenty());
  load all(io, l, 40);
  all.run_on(5);
  std::size_t moves = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 40; i += 4) {
      const std::uint16_t slot = slot_of("r", "subject " + std::to_string(i));
      const std::size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
      cluster.begin_move(slot, from, to);
      all.run_on(1);  // at the old node, or at the new one by ASK
      cluster.move_keys(slot, from, to, 1);
      all.run_on(1);
      cluster.end_move(slot, from, to);
      ++moves;
    }
    all.run_on(2);
  }
  all.end();
  // The nodes learn of a move one after the other: such a call may fail, and is counted nowhere.
  std::int64_t failures = 0;
  for (const auto& c : all.callers) {
    failures += c->failures;
    BOOST_TEST(counted(l, c->subject) == c->successes);
  }
  BOOST_TEST_MESSAGE(failures << " calls failed");
  BOOST_TEST(moves == 40u);
}

// Each node has a connection of its own.
BOOST_AUTO_TEST_CASE(a_master_that_hangs_delays_no_check_of_another) {
  const limiter l(open(), "r", plenty());
  std::vector<std::string> subjects(3);  // one of each master
  for (int i = 0; subjects[0].empty() || subjects[1].empty() || subjects[2].empty(); ++i) {
    const std::string s = std::to_string(i);
    subjects[cluster.owner_of(slot_of("r", s))] = s;
  }
  for (const std::string& s : subjects) BOOST_TEST(counted(l, s) == 0);
  cluster.node(0).pause();
  crowd stuck, others;
  l.record(subjects[0], stuck.caller());
  for (int i = 0; i < 100; ++i) {
    l.record(subjects[1 + i % 2], others.caller());
    run_until_complete(io, others);
  }
  BOOST_TEST(stuck.answered() == 0u);
  BOOST_TEST(others.allowed() == 100u);
  cluster.node(0).resume();
  run_until_complete(io, stuck);
  BOOST_TEST(stuck.allowed() == 1u);
}

// Calls with several keys wait until their slot has moved: until then, some keys are here and some
// there. A subject with a cool-down has two.
BOOST_AUTO_TEST_CASE(calls_with_several_keys_wait_for_the_end_of_a_migration) {
  const auto store = open();
  const limiter l(store, "r", plenty(), {.cool_downs = true});
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).used == 1);
  answer([&](auto h) { l.cool_down("a", 1us, h); });
  const std::uint16_t slot = slot_of("r", "a");
  const std::size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
  cluster.begin_move(slot, from, to);
  cluster.move_keys(slot, from, to, 1);
  crowd c;
  for (int i = 0; i < 5; ++i) l.record("a", c.caller());
  // Its deadline nearly always falls into a pause between two attempts.
  error_code hasty = error::no_reply;
  const auto is_other = [&] { return hasty == error::no_reply || hasty == error::timed_out; };
  for (int i = 0; i < 10 && is_other(); ++i) {
    hasty = outcome_of([&](auto h) { l.record("a", {.timeout = 60ms}, h); }).ec;
  }
  WEIR_TEST_ERROR(hasty, error::slot_migrating);
  BOOST_TEST(c.answered() == 0u);
  cluster.end_move(slot, from, to);
  run_until_complete(io, c);
  for (std::size_t i = 0; i < c.size(); ++i) {
    WEIR_TEST_ERROR(c[i].ec, error_code());
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(2 + i));
  }
}

// The first node that is asked accepts connections and says nothing.
BOOST_AUTO_TEST_CASE(a_seed_that_hangs_delays_the_first_call_only) {
  redis_server hangs;
  hangs.pause();
  for (std::size_t i = 0; i < 3; ++i) {
    // The other seed is in front of it or behind it, at random.
    redis_options o = options();
    o.cluster_seeds = {{"127.0.0.1", static_cast<std::uint16_t>(hangs.port())},
                       {"127.0.0.1", static_cast<std::uint16_t>(cluster.node(1).port())}};
    const limiter l(make_redis_store(io.get_executor(), o), "r", plenty());
    crowd c;
    for (int k = 0; k < 30; ++k) l.record("s" + std::to_string(k), c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 30u);
  }
  hangs.resume();
}

BOOST_AUTO_TEST_CASE(no_node_serves_the_slot) {
  redis_client(cluster.node(0)).must("CONFIG", "SET", "cluster-require-full-coverage", "no");
  for (std::size_t i = 0; i < 3; ++i) {
    redis_client(cluster.node(i)).must("CLUSTER", "DELSLOTS", std::to_string(slot_of("r", "a")));
  }
  const limiter l(open(300ms), "r", plenty());
  const auto o = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(o.ec, error::cluster_down);
  BOOST_CHECK(o.ec == condition::not_counted);
}

BOOST_AUTO_TEST_CASE(a_server_that_is_no_cluster_is_told_at_once) {
  redis_server single;
  redis_options o = options();
  o.cluster_seeds = {{"127.0.0.1", static_cast<std::uint16_t>(single.port())}};
  const limiter l(make_redis_store(io.get_executor(), o), "r", plenty());
  const auto told = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(told.ec, error::server_is_not_cluster);
}

BOOST_AUTO_TEST_CASE(no_seed_can_be_reached) {
  redis_options o = options(200ms);
  o.cluster_seeds = {{"127.0.0.1", 1}, {"127.0.0.1", 2}};
  const limiter l(make_redis_store(io.get_executor(), o), "r", plenty());
  const auto told = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(told.ec, error::connection_refused);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_test

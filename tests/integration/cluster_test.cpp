// A store on a Redis Cluster whose slots move, and whose nodes come and go.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster_fixture.hpp"
#include "support/load.hpp"

namespace cluster_test {
namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::test::crowd;
using weir::test::load;
using weir::test::redis_client;
using weir::test::run_until_complete;
using weir::test::slot_of;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cluster_suite, weir::test::cluster_fixture)

BOOST_AUTO_TEST_CASE(subjects_are_counted_on_all_masters) {
  const weir::limiter l(open(), "r", weir::fixed_window{.limit = 3, .window = 24h});
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
  const weir::limiter l(open(), "r", plenty());
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
  const weir::limiter l(open(), "r", plenty());
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

// The owner of a slot says MOVED before the new one knows that it is the owner: the check goes back
// and forth, and arrives.
BOOST_AUTO_TEST_CASE(nodes_that_name_each_other_for_a_moment) {
  const weir::limiter l(open(), "r", plenty());
  BOOST_TEST(counted(l, "a") == 0);
  const std::uint16_t slot = slot_of("r", "a");
  const std::size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
  cluster.begin_move(slot, from, to);
  const std::string s = std::to_string(slot);
  redis_client(cluster.node(from)).must("CLUSTER", "SETSLOT", s, "NODE", cluster.id(to));
  crowd c;
  l.record("a", c.caller());
  run_for(15ms);
  BOOST_TEST(c.answered() == 0u);
  redis_client(cluster.node(to)).must("CLUSTER", "SETSLOT", s, "NODE", cluster.id(to));
  run_until_complete(io, c);
  WEIR_TEST_ERROR(c[0].ec, weir::error_code());
  BOOST_TEST(c[0].d.used == 1);
}

BOOST_AUTO_TEST_CASE(nodes_that_never_agree_end_the_call) {
  const weir::limiter l(open(500ms), "r", plenty());
  BOOST_TEST(counted(l, "a") == 0);
  const std::uint16_t slot = slot_of("r", "a");
  const std::size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
  const std::string s = std::to_string(slot);
  // The third node keeps the new one from being told that it is no owner.
  redis_client(cluster.node(from)).must("CLUSTER", "SETSLOT", s, "NODE", cluster.id(to));
  const auto o = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(o.ec, error::too_many_redirects);
  BOOST_CHECK(o.ec == weir::condition::not_counted);
}

// Calls with several keys wait until their slot has moved: until then, some keys are here and some
// there. A subject with a cool-down has two.
BOOST_AUTO_TEST_CASE(calls_with_several_keys_wait_for_the_end_of_a_migration) {
  const auto store = open();
  const weir::limiter l(store, "r", plenty(), {.cool_downs = true});
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).used == 1);
  answer([&](auto h) { l.cool_down("a", 1us, h); });
  const std::uint16_t slot = slot_of("r", "a");
  const std::size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
  cluster.begin_move(slot, from, to);
  cluster.move_keys(slot, from, to, 1);
  crowd c;
  for (int i = 0; i < 5; ++i) l.record("a", c.caller());
  // Its deadline nearly always falls into a pause between two attempts.
  weir::error_code hasty = error::no_reply;
  const auto is_other = [&] { return hasty == error::no_reply || hasty == error::timed_out; };
  for (int i = 0; i < 10 && is_other(); ++i) {
    hasty = outcome_of([&](auto h) { l.record("a", {.timeout = 60ms}, h); }).ec;
  }
  WEIR_TEST_ERROR(hasty, error::slot_migrating);
  BOOST_TEST(c.answered() == 0u);
  cluster.end_move(slot, from, to);
  run_until_complete(io, c);
  for (std::size_t i = 0; i < c.size(); ++i) {
    WEIR_TEST_ERROR(c[i].ec, weir::error_code());
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(2 + i));
  }
}

BOOST_AUTO_TEST_CASE(a_node_joins_takes_slots_gives_them_back_and_leaves) {
  const weir::limiter l(open(), "r", plenty());
  load all(io, l, 20);
  all.run_on(5);
  const std::size_t added = cluster.add();
  std::map<std::uint16_t, std::size_t> moved;
  for (int i = 0; i < 20; i += 2) {
    const std::uint16_t slot = slot_of("r", "subject " + std::to_string(i));
    const std::size_t from = cluster.owner_of(slot);
    cluster.move(slot, from, added);
    moved[slot] = from;
    all.run_on(1);
  }
  BOOST_TEST(redis_client(cluster.node(added)).must("DBSIZE").integer > 0);
  for (const auto& [slot, from] : moved) {
    cluster.move(slot, added, from);
    all.run_on(1);
  }
  all.run_on(2);  // now the store knows the owners, too
  cluster.remove(added);
  all.run_on(5);
  all.end();
  for (const auto& c : all.callers) {
    BOOST_TEST(c->failures == 0);
    BOOST_TEST(counted(l, c->subject) == c->successes);
  }
}

// The first node that is asked accepts connections and says nothing.
BOOST_AUTO_TEST_CASE(a_seed_that_hangs_delays_the_first_call_only) {
  weir::test::redis_server hangs;
  hangs.pause();
  for (std::size_t i = 0; i < 3; ++i) {
    // The other seed is in front of it or behind it, at random.
    weir::redis_options o = options();
    o.cluster_seeds = {{"127.0.0.1", static_cast<std::uint16_t>(hangs.port())},
                       {"127.0.0.1", static_cast<std::uint16_t>(cluster.node(1).port())}};
    const weir::limiter l(weir::make_redis_store(io.get_executor(), o), "r", plenty());
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
  const weir::limiter l(open(300ms), "r", plenty());
  const auto o = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(o.ec, error::cluster_down);
  BOOST_CHECK(o.ec == weir::condition::not_counted);
}

BOOST_AUTO_TEST_CASE(a_server_that_is_no_cluster_is_told_at_once) {
  weir::test::redis_server single;
  weir::redis_options o = options();
  o.cluster_seeds = {{"127.0.0.1", static_cast<std::uint16_t>(single.port())}};
  const weir::limiter l(weir::make_redis_store(io.get_executor(), o), "r", plenty());
  const auto told = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(told.ec, error::server_is_not_cluster);
}

BOOST_AUTO_TEST_CASE(no_seed_can_be_reached) {
  weir::redis_options o = options(200ms);
  o.cluster_seeds = {{"127.0.0.1", 1}, {"127.0.0.1", 2}};
  const weir::limiter l(weir::make_redis_store(io.get_executor(), o), "r", plenty());
  const auto told = outcome_of([&](auto h) { l.record("a", h); });
  WEIR_TEST_ERROR(told.ec, error::connection_refused);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_test

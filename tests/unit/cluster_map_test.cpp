// How often the client of a cluster asks for the slot map, and whom it connects to.
#include "cluster_play.hpp"

namespace cluster_map_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::redis::slot_of_tag;

struct fixture {
  simulated_cluster c{1};
  core_ptr limiter = make_core("r", plenty);

  fixture() { step_while_busy(c); }

  /// So many subjects whose slots that master has.
  std::vector<std::string> subjects_of(int master, std::size_t count) {
    std::vector<std::string> found;
    for (int i = 0; found.size() < count; ++i) {
      std::string s = std::to_string(i);
      if (c.servers[0].view[slot_of_tag("r:" + s)] == master) found.push_back(std::move(s));
    }
    return found;
  }
  /// Gives the slots of node 1 to node 3, with their counts.
  void move_slots() {
    for (simulated_node& n : c.servers) {
      for (std::uint16_t& owner : n.view) {
        if (owner == 1) owner = 3;
      }
    }
    c.servers[3].counts.merge(c.servers[1].counts);
  }
  simulated_link& link_to(int node) {
    return **std::ranges::find(c.links, node, [](const auto& l) { return l->node; });
  }
  int maps_asked() const {
    int sum = 0;
    for (const simulated_node& n : c.servers) sum += n.maps;
    return sum;
  }
};

BOOST_FIXTURE_TEST_SUITE(cluster_map_suite, fixture)

BOOST_AUTO_TEST_CASE(many_redirects_ask_for_the_map_once) {
  const auto subjects = subjects_of(1, 50);
  for (const std::string& s : subjects) c.submit(limiter, s);
  step_while_busy(c);
  BOOST_TEST(c.servers[1].executed == 50);
  move_slots();
  c.now += std::chrono::seconds{1};  // later than a map that has just come
  const int before = maps_asked();
  for (const std::string& s : subjects) c.submit(limiter, s);
  calm_down(c);
  judge(c);
  BOOST_TEST(c.servers[3].executed == 50);
  BOOST_TEST(c.servers[1].moved >= 50);
  BOOST_TEST(maps_asked() - before == 1);
}

BOOST_AUTO_TEST_CASE(a_master_without_checks_gets_no_connection) {
  for (const std::string& s : subjects_of(2, 20)) c.submit(limiter, s);
  step_while_busy(c);
  BOOST_TEST(c.servers[2].executed == 20);
  std::multiset<int> connected;
  for (const auto& l : c.links) connected.insert(l->node);
  BOOST_TEST(connected.count(1) == 0u);
  BOOST_TEST(connected.count(2) == 1u);
  // One of the two seeds was asked for the map.
  BOOST_TEST(connected.count(0) + connected.count(4) == 1u);
}

// The connection would stay open, and the node would be asked for the map, for ever.
BOOST_AUTO_TEST_CASE(a_node_that_has_lost_its_slots_is_left_when_it_owes_no_answer) {
  for (const bool owes : {false, true}) {
    BOOST_TEST_CONTEXT("it owes an answer: " << owes) {
      fixture f;
      const auto subjects = f.subjects_of(1, 2);
      f.c.submit(f.limiter, subjects[0]);
      calm_down(f.c);
      simulated_link& old = f.link_to(1);
      if (owes) f.c.submit(f.limiter, subjects[1]);
      const int before = f.c.servers[1].executed;
      while (f.c.servers[1].executed < before + owes) f.c.step(old);
      f.move_slots();
      const auto but = owes ? &old : nullptr;
      for (const int maps = f.maps_asked(); f.maps_asked() == maps;) {
        if (!step_all(f.c, but)) f.c.wait();
      }
      while (step_all(f.c, but)) continue;
      BOOST_TEST((old.core.is_closing() || old.is_stopped()) == !owes);
      step_while_busy(f.c);
      BOOST_TEST(old.is_stopped());
      judge(f.c);
    }
  }
}

// A missing reply may mean that the node is no master any more.
BOOST_AUTO_TEST_CASE(a_check_without_a_reply_asks_for_the_map) {
  c.options.timeout = 2s;
  const auto subjects = subjects_of(1, 1);
  c.submit(limiter, subjects[0]);
  calm_down(c);
  simulated_link& silent = link_to(1);
  const fake_check& check = c.submit(limiter, subjects[0]);
  while (c.servers[1].executed < 2) c.step(silent);
  const int before = maps_asked();
  while (check.finished == 0) {
    if (!step_all(c, &silent)) c.wait();
  }
  BOOST_TEST((check.ec == error::no_reply), check.ec.message());
  const moment end = c.now + 1s;  // sooner than the next map that nothing asks for
  while (c.now < end && maps_asked() == before) {
    if (!step_all(c, &silent)) c.wait();
  }
  BOOST_TEST(maps_asked() == before + 1);
}

// While the next seed was being asked, calls were decided as if there were no cluster.
BOOST_AUTO_TEST_CASE(failure_policies_wait_for_the_end_of_a_round) {
  const core_ptr opens = make_core("r", plenty, {.on_failure = on_failure::open});
  simulated_cluster other(1'234'567'890);  // its first pause is not zero
  for (simulated_node& n : other.servers) n.is_up = false;
  const auto ends = [&] {
    return other.submit(opens, "a").stage == weir::detail::check_stage::done;
  };
  const auto fail_last = [&] {
    const auto last = other.links.back();
    other.pump(*last);
    other.step(*last);
  };
  BOOST_TEST(!ends());
  fail_last();
  BOOST_TEST(!ends());  // the other seed may be there
  fail_last();
  BOOST_TEST(ends());
}

// Each later round of questions had calls wait for 500 ms again, although no seed had answered.
BOOST_AUTO_TEST_CASE(failure_policies_decide_at_once_while_no_seed_is_there) {
  const core_ptr opens = make_core("r", plenty, {.on_failure = on_failure::open});
  simulated_cluster other(1);
  for (simulated_node& n : other.servers) n.is_up = false;
  const auto ends = [&] {
    return other.submit(opens, "a").stage == weir::detail::check_stage::done;
  };
  for (int steps = 0; !ends(); ++steps) {
    BOOST_TEST_REQUIRE(steps < 1000, "no round has ended");
    if (!step_all(other)) other.wait();
  }
  for (int events = 0; events < 100; ++events) {
    BOOST_TEST_REQUIRE(ends());
    if (!step_all(other)) other.wait();
  }
}

// Every refused check wanted a new map: ten each second from every process, of masters that were
// electing.
BOOST_AUTO_TEST_CASE(a_cluster_that_is_down_is_seldom_asked_for_its_map) {
  for (simulated_node& n : c.servers) n.is_down = true;
  c.submit(limiter, "a");
  const int before = maps_asked();
  for (const moment end = c.now + 20s; c.now < end;) {
    if (!step_all(c) || c.core.wakeup() <= c.now) c.wait();
  }
  BOOST_TEST(maps_asked() - before >= 10);
  BOOST_TEST(maps_asked() - before <= 60);
  for (simulated_node& n : c.servers) n.is_down = false;
  calm_down(c);
}

// Each map without news let the next pause grow, also those that came every 30 s.
BOOST_AUTO_TEST_CASE(after_a_calm_time_the_next_map_comes_soon) {
  const auto next_map = [&] {
    for (const int before = maps_asked(); maps_asked() == before;) {
      if (!step_all(c)) c.wait();
    }
  };
  for (int i = 0; i < 20; ++i) next_map();
  step_while_busy(c);
  const moment last = c.now;
  for (simulated_node& n : c.servers) n.is_down = true;
  c.submit(limiter, "a");
  next_map();
  BOOST_TEST((c.now - last <= 200ms));
  for (simulated_node& n : c.servers) n.is_down = false;
  calm_down(c);
}

// A slot that its master did not serve had the policies decide the calls of all its other slots.
BOOST_AUTO_TEST_CASE(failure_policies_leave_the_slots_alone_that_a_node_serves) {
  c.options.breaker_failures = 20;
  const core_ptr opens = make_core("r", plenty, {.on_failure = on_failure::open});
  const auto subjects = subjects_of(1, 10);
  c.servers[1].refuses = "CLUSTERDOWN Hash slot not served";
  for (const std::string& s : subjects) {
    c.submit(opens, s);
    step_while_busy(c);
  }
  calm_down(c);
  judge(c);
  for (const fake_check& check : c.checks) BOOST_TEST(!check.ec);
}

// With full coverage, one lost shard makes all masters refuse: each call waited for its deadline.
BOOST_AUTO_TEST_CASE(calls_end_at_once_while_a_node_says_that_the_cluster_is_down) {
  c.options.breaker_failures = 20;
  c.options.breaker_pause = 500ms;
  const core_ptr opens = make_core("r", plenty, {.on_failure = on_failure::open});
  const auto subjects = subjects_of(1, 10);
  const auto ends = [&](const core_ptr& core, std::size_t subject) {
    const fake_check& check = c.submit(core, subjects[subject]);
    step_while_busy(c);
    return check.finished > 0 && check.ec == error::cluster_down;
  };
  for (simulated_node& n : c.servers) n.is_down = true;
  BOOST_TEST(!ends(opens, 0));  // nothing is known yet
  for (std::size_t i = 0; i < 5; ++i) BOOST_TEST(ends(opens, i));
  BOOST_TEST(ends(limiter, 5));  // with a failure policy or without
  c.now += 500ms;
  BOOST_TEST(!ends(opens, 6));  // one finds out whether the cluster is still down
  BOOST_TEST(ends(opens, 7));
  for (simulated_node& n : c.servers) n.is_down = false;
  calm_down(c);
  const fake_check& served = c.submit(opens, subjects[8]);
  calm_down(c);
  BOOST_TEST((served.finished == 1 && !served.ec));
}

// The order in which the seeds were asked decided whether all calls failed.
BOOST_AUTO_TEST_CASE(calls_wait_for_a_seed_that_restarts_though_another_one_rejects_the_login) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    simulated_cluster other(seed);
    other.servers[4].rejects_login = true;
    other.servers[0].is_up = false;
    const auto& check = other.submit(limiter, "a");
    for (int i = 0; i < 200; ++i) {
      if (!step_all(other)) other.wait();
    }
    BOOST_TEST(check.finished == 0, check.ec.message());
    other.servers[0].is_up = true;
    calm_down(other);
    BOOST_TEST((check.finished == 1 && !check.ec), check.ec.message());
  }
}

BOOST_AUTO_TEST_CASE(calls_fail_when_all_seeds_reject_the_login) {
  simulated_cluster other(1);
  for (simulated_node& n : other.servers) n.rejects_login = true;
  const auto& check = other.submit(limiter, "a");
  calm_down(other);
  BOOST_TEST((check.finished == 1 && check.ec == error::authentication_failed));
  // Later calls do not wait, also while no connection is being tried.
  for (int i = 0; i < 300; ++i) {
    if (!step_all(other)) other.wait();
    const auto& later = other.submit(limiter, "a");
    BOOST_TEST((later.finished == 1 && later.ec == error::authentication_failed));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_map_test

// Checks on a Redis Cluster whose slots move at random: each runs at most once, in order.
#include "redis/topology/cluster_core.hpp"

#include "moving_slot.hpp"
#include "support/sanitized.hpp"

namespace cluster_core_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::redis::slot_of_tag;

constexpr int subjects = 6;

std::string subject(int i) { return std::string(1, static_cast<char>('a' + i)); }

/// What happens to the nodes.
struct operator_of {
  simulated_cluster& c;
  std::vector<std::uint16_t> slots;  // that have keys
  struct move {
    int from, to;
  };
  std::map<std::uint16_t, move> moves;

  simulated_node& node(int i) { return c.servers[static_cast<std::size_t>(i)]; }
  int owner(std::uint16_t slot) {
    for (const simulated_node& n : c.servers) {
      if (n.view[slot] == n.number) return n.number;
    }
    return -1;
  }
  void begin(std::uint16_t slot) {
    const int from = owner(slot), to = static_cast<int>(c.random.between(0, 4));
    if (from < 0 || from == to || moves.contains(slot)) return;
    node(to).importing[slot] = from;
    node(from).migrating[slot] = to;
    moves[slot] = {from, to};
  }
  void move_keys(std::uint16_t slot, bool all) {
    const auto m = moves.find(slot);
    if (m == moves.end()) return;
    auto& counts = node(m->second.from).counts;
    for (auto it = counts.begin(); it != counts.end();) {
      const auto key = it++;
      if (simulated_node::slot_of_key(key->first) != slot) continue;
      node(m->second.to).counts[key->first] = key->second;
      counts.erase(key);
      if (!all) return;
    }
  }
  void end(std::uint16_t slot) {
    const auto found = moves.find(slot);
    if (found == moves.end()) return;
    move_keys(slot, true);
    const move m = found->second;
    node(m.to).view[slot] = static_cast<std::uint16_t>(m.to);
    node(m.to).importing.erase(slot);
    node(m.from).view[slot] = static_cast<std::uint16_t>(m.to);
    node(m.from).migrating.erase(slot);
    moves.erase(found);
  }
  void gossip(int to) {
    for (std::size_t s = 0; s < weir::redis::slot_count; ++s) {
      const int now_at = owner(static_cast<std::uint16_t>(s));
      if (now_at >= 0) node(to).view[s] = static_cast<std::uint16_t>(now_at);
    }
  }
  /// All slots of a node, with their data, go to another node.
  void fail_over(int from, int to) {
    if (from == to) return;
    for (const auto& [slot, m] : std::map(moves)) {
      if (m.from == from || m.to == from || m.from == to || m.to == to) end(slot);
    }
    for (std::size_t s = 0; s < weir::redis::slot_count; ++s) {
      if (node(from).view[s] != from) continue;
      node(to).view[s] = static_cast<std::uint16_t>(to);
      node(from).view[s] = static_cast<std::uint16_t>(to);
    }
    for (const auto& [key, count] : node(from).counts) node(to).counts[key] = count;
    node(from).counts.clear();
  }
  void act() {
    const std::uint16_t slot = slots[static_cast<std::size_t>(
        c.random.between(0, static_cast<std::int64_t>(slots.size()) - 1))];
    const int some = static_cast<int>(c.random.between(0, 4));
    switch (c.random.between(0, 9)) {
      case 0:
      case 1:
        return begin(slot);
      case 2:
        return move_keys(slot, false);
      case 3:
      case 4:
        return end(slot);
      case 5:
        return gossip(some);
      case 6:
        if (c.random.one_in(4)) fail_over(some, static_cast<int>(c.random.between(0, 4)));
        return;
      case 7:
        node(some).is_down = c.random.one_in(3);
        return;
      case 8:
        if (c.random.one_in(4)) node(some).loaded.clear();
        return;
      default:
        node(some).is_up = !c.random.one_in(4);
        if (!node(some).is_up) {
          for (const auto& l : std::vector(c.links)) {
            if (l->node == some) c.cut(*l);
          }
        }
        return;
    }
  }
  /// All is well again.
  void settle() {
    for (const auto& [slot, m] : std::map(moves)) end(slot);
    for (int i = 0; i < 5; ++i) {
      gossip(i);
      node(i).is_up = true;
      node(i).is_down = false;
    }
  }
};

struct tally {
  std::size_t checks = 0, allowed = 0, unknown = 0, redirected = 0, other = 0;
};

void play(std::uint64_t seed, tally& total) {
  BOOST_TEST_CONTEXT("WEIR_TEST_CLUSTER_SEED=" << seed) {
    simulated_cluster c(seed);
    // With buckets, three subjects share a slot.
    const limiter_options options{.subject_buckets = c.random.one_in(2) ? 2u : 0u};
    const auto one = make_core("r", plenty, options);
    const auto two = make_core("r", tiers(plenty, plenty), options);
    operator_of ops{c, {}, {}};
    for (int i = 0; i < subjects; ++i) {
      std::string key;
      one->append_key(key, subject(i));
      ops.slots.push_back(simulated_node::slot_of_key(key));
    }
    const auto calls = c.random.between(20, 120);
    while (c.submitted < calls) {
      const std::int64_t what = c.random.between(0, 20);
      if (what < 3) {
        const int i = static_cast<int>(c.random.between(0, subjects - 1));
        // The last subjects have two keys each.
        c.submit(i < subjects - 2 ? one : two, subject(i));
      } else if (what == 3) {
        ops.act();
      } else if (what == 4 && c.random.one_in(4)) {
        c.wait();
      } else if (what == 5 && c.random.one_in(8) && !c.checks.empty()) {
        auto& some = c.checks[static_cast<std::size_t>(
            c.random.between(0, static_cast<std::int64_t>(c.checks.size()) - 1))];
        if (some.finished == 0) {
          c.core.cancel(some, weir::detail::cancel_scope::any);
          c.collect(c.core.take_done());
        }
      } else if (what == 6 && c.random.one_in(20) && !c.links.empty()) {
        c.cut(*std::vector(c.links)[static_cast<std::size_t>(
            c.random.between(0, static_cast<std::int64_t>(c.links.size()) - 1))]);
      } else if (!c.links.empty()) {
        const auto l = c.links[static_cast<std::size_t>(
            c.random.between(0, static_cast<std::int64_t>(c.links.size()) - 1))];
        c.step(*l);
      }
    }
    ops.settle();
    calm_down(c);
    judge(c);
    for (const auto& check : c.checks) {
      ++total.checks;
      total.allowed += !check.ec;
      total.unknown += check.ec == error::outcome_unknown;
      total.redirected += check.ec == error::too_many_redirects;
      total.other += check.ec && check.ec != error::outcome_unknown &&
                     check.ec != error::too_many_redirects &&
                     check.ec != boost::asio::error::operation_aborted;
    }
  }
}

BOOST_AUTO_TEST_SUITE(cluster_core_suite)

BOOST_AUTO_TEST_CASE(checks_go_to_the_master_of_their_slot) {
  simulated_cluster c(1);
  const auto r = make_core("r", plenty);
  for (int i = 0; i < subjects; ++i) c.submit(r, subject(i));
  calm_down(c);
  judge(c);
  for (const auto& check : c.checks) BOOST_TEST(!check.ec);
  int executed = 0;
  for (int i = 0; i < 3; ++i) executed += c.servers[static_cast<std::size_t>(i)].executed;
  BOOST_TEST(executed == subjects);
}

// It was held for the pause of a third redirect, and then sent to the node that had said ASK: until
// it had been redirected too often.
BOOST_FIXTURE_TEST_CASE(a_check_that_was_moved_twice_follows_ask_at_once, moving_slot) {
  c.submit(one, "b");
  calm_down(c);
  begin_move();
  owner.refuses = "MOVED $ n4:7000";  // which says MOVED back
  c.submit(one, "a");
  end_well();
  BOOST_TEST(third.executed == 1);
}

// A call whose keys are partly at another node is split: only a check that has such keys itself
// waits for the end of the migration. The other one may have little time left.
BOOST_AUTO_TEST_CASE(a_check_with_one_key_that_has_to_try_again_does_so_at_once) {
  for (const bool has_two : {false, true}) {
    simulated_cluster c(1);
    const auto r = has_two ? make_core("r", tiers(plenty, plenty)) : make_core("r", plenty);
    c.submit(r, "a");
    calm_down(c);
    for (simulated_node& n : c.servers) n.refuses = "TRYAGAIN Multiple keys request";
    const auto& again = c.submit(r, "a");
    if (!has_two) again.deadline = c.now + 5ms;
    for (bool any = true; any;) {
      any = false;
      for (const auto& l : std::vector(c.links)) any = c.step(*l) || any;
    }
    BOOST_TEST(again.finished == (has_two ? 0 : 1));
    calm_down(c);
    judge(c);
    BOOST_TEST(!again.ec);
  }
}

// With other checks in its call, it could be refused again and again.
BOOST_FIXTURE_TEST_CASE(a_check_is_sent_alone_after_try_again, moving_slot) {
  owner.refuses = "TRYAGAIN Multiple keys request";
  const auto& check = c.submit(one, "a");
  end_well();
  BOOST_TEST((check.check().route.value & weir::detail::cluster_route::alone) != 0);
}

// The first check was sent again, and then sent to the other node, behind the second one.
BOOST_AUTO_TEST_CASE(a_check_that_did_not_run_is_not_overtaken_by_one_that_asks) {
  for (const char* refusal : {"NOSCRIPT No matching script.", "LOADING Redis is loading",
                              "BUSY Redis is busy running a script.", "READONLY a replica"}) {
    BOOST_TEST_CONTEXT(refusal) {
      moving_slot f;
      f.begin_move();
      f.owner.refuses = refusal;
      f.c.submit(f.one, "a");
      f.c.submit(f.one, "a");
      f.end_well();
      BOOST_TEST(f.third.executed == 2);
    }
  }
}

// It would wait there until its deadline, though the slot does not move any more.
BOOST_FIXTURE_TEST_CASE(a_check_that_asks_at_a_node_that_is_gone_comes_back, moving_slot) {
  begin_move();
  third.is_up = false;
  const auto& check = c.submit(one, "a");
  play_until([&] {
    const auto route = check.check().route.value;
    return c.all.at(1).has_asked && (route & weir::detail::cluster_route::asks) == 0;
  });
  BOOST_TEST(check.finished == 0);
  owner.migrating.clear();
  end_well();
  BOOST_TEST(owner.executed == 1);
}

// Random migrations, failovers, cut connections, nodes that are behind the times. No check is sent
// while an earlier one of its key waits (simulated_cluster requires it), none runs twice, and each
// gets its own answer.
BOOST_AUTO_TEST_CASE(whatever_the_cluster_does_each_check_runs_once_and_in_order) {
  tally total;
  // To repeat one run: its seed in WEIR_TEST_CLUSTER_SEED.
  if (const char* given = std::getenv("WEIR_TEST_CLUSTER_SEED")) {
    return play(std::stoull(given), total);
  }
  random_source seeds(run_seed());
  const int runs = is_sanitized ? 100 : 500;
  for (int i = 0; i < runs; ++i) {
    play(static_cast<std::uint64_t>(seeds.between(1, 1'000'000'000'000)), total);
  }
  BOOST_TEST_MESSAGE("seed " << run_seed() << ": " << total.checks << " checks, " << total.allowed
                             << " allowed, " << total.unknown << " of unknown outcome, "
                             << total.redirected << " redirected too often, " << total.other
                             << " other errors");
  BOOST_TEST(total.allowed > total.checks / 2);
  BOOST_TEST(total.unknown > 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_core_test

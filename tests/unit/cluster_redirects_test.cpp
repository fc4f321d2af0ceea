// Where the checks of one slot wait, and for how long, when nodes redirect them or are gone.
#include "moving_slot.hpp"

namespace cluster_redirects_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::redis::slot_of_tag;

BOOST_FIXTURE_TEST_SUITE(cluster_redirects_suite, moving_slot)

// After six redirects within 70 ms it got too_many_redirects. Nodes may need longer to agree, on a
// busy machine, or if who moves the slot is far away and tells them one after the other.
BOOST_AUTO_TEST_CASE(a_check_waits_until_nodes_that_name_each_other_agree) {
  owner.view[slot] = 3;
  const fake_check& check = c.submit(one, "a");
  const moment begin = c.now;
  play_until([&] { return c.now > begin + 2s; });
  BOOST_TEST(check.finished == 0, check.ec.message());
  for (simulated_node& n : c.servers) n.view[slot] = 3;
  end_well();
  BOOST_TEST(third.executed == 1);
  BOOST_TEST((c.now < begin + 3s));
}

BOOST_AUTO_TEST_CASE(nodes_that_ask_each_other_do_not_send_a_check_round_without_a_pause) {
  c.options.timeout = 2s;
  begin_move();
  const fake_check& check = c.submit(one, "a");
  int asked = 0;
  play_until([&] {
    if (check.finished == 0 && third.refuses.empty()) {
      third.refuses = "ASK $ n" + std::to_string(from) + ":7000";
      ++asked;
    }
    return check.finished > 0;
  });
  judge(c);
  BOOST_TEST((check.ec == error::too_many_redirects), check.ec.message());
  BOOST_TEST(asked < 20);
}

// After six attempts within some milliseconds, it had been redirected too often.
BOOST_AUTO_TEST_CASE(a_check_waits_for_an_importing_node_that_is_down) {
  begin_move();
  third.is_up = false;
  const fake_check& check = c.submit(one, "a");
  const moment begin = c.now;
  play_until([&] { return c.now > begin + 10s; });
  BOOST_TEST(check.finished == 0, check.ec.message());
  third.is_up = true;
  end_well();
  BOOST_TEST(third.executed == 1);
  BOOST_TEST((c.now < begin + 30s));
}

BOOST_AUTO_TEST_CASE(a_check_for_an_importing_node_that_stays_down_ends_with_the_cause) {
  c.options.timeout = 5s;
  begin_move();
  third.is_up = false;
  const fake_check& check = c.submit(one, "a");
  const moment begin = c.now;
  play_until([&] { return check.finished > 0; });
  judge(c);
  BOOST_TEST((check.ec == error::connection_refused), check.ec.message());
  BOOST_CHECK(check.ec == condition::not_counted);
  BOOST_TEST((c.now >= begin + 5s));
}

// The importing node said BUSY each time; the sixth ASK was one too many.
BOOST_AUTO_TEST_CASE(a_check_waits_for_an_importing_node_that_is_busy) {
  begin_move();
  const fake_check& check = c.submit(one, "a");
  for (const moment begin = c.now; c.now < begin + 2s;) {
    third.refuses = "BUSY Redis is busy running a script.";
    if (!step_all(c)) c.wait();
  }
  BOOST_TEST(check.finished == 0, check.ec.message());
  third.refuses.clear();
  end_well();
  BOOST_TEST(third.executed == 1);
}

// The owner has neither key and says ASK, the importing node has not both and says TRYAGAIN.
BOOST_AUTO_TEST_CASE(a_check_with_two_new_keys_waits_for_the_end_of_a_migration) {
  begin_move();
  const fake_check& check = c.submit(make_core("r", tiers(plenty, plenty)), "a");
  const moment begin = c.now;
  play_until([&] { return c.now > begin + 2s; });
  BOOST_TEST(check.finished == 0, check.ec.message());
  owner.migrating.clear();
  third.importing.clear();
  for (simulated_node& n : c.servers) n.view[slot] = 3;
  calm_down(c);
  judge(c);
  BOOST_TEST(!check.ec, check.ec.message());
  BOOST_TEST(third.executed == 1);
}

// Both are of one key. The first one comes back from a node that is gone; without it, the second
// one would run first once the operator has cancelled the move.
BOOST_AUTO_TEST_CASE(a_check_that_comes_back_from_a_lost_node_keeps_its_place) {
  begin_move();
  third.is_up = false;
  c.submit(one, "a");
  const auto link_to_third = [&] {
    return std::find_if(c.links.begin(), c.links.end(), [](const auto& l) { return l->node == 3; });
  };
  while (link_to_third() == c.links.end()) {
    if (!step_all(c)) c.wait();
  }
  simulated_link& link = **link_to_third();
  while (!link.opening) BOOST_TEST_REQUIRE(c.step(link));
  c.submit(one, "a");  // unsent
  while (c.all.at(1).has_asked && !c.checks[0].check().route.is_held) c.step(link);
  owner.migrating.clear();
  end_well();
  BOOST_TEST(owner.executed == 2);
}

// Nothing ended it after the core had ended all that was held.
BOOST_AUTO_TEST_CASE(a_check_that_comes_back_after_the_end_is_not_held) {
  begin_move();
  third.is_up = false;
  const fake_check& check = c.submit(one, "a");
  play_until([&] {
    return std::any_of(c.links.begin(), c.links.end(),
                       [](const auto& l) { return l->node == 3 && l->opening; });
  });
  c.core.end();
  step_while_busy(c);
  BOOST_TEST_REQUIRE(check.finished == 1);
  BOOST_TEST((check.ec == error::store_closed), check.ec.message());
}

// Idle nodes stopped while a store closed, and a give-back that another node sent on to them was
// lost.
BOOST_AUTO_TEST_CASE(a_cluster_is_not_idle_while_a_node_may_send_a_check_on) {
  c.submit(one, "a");
  BOOST_TEST(!c.core.is_idle());  // it waits for the map
  play_until([&] { return owner.executed == 1; });
  BOOST_TEST(!c.core.is_idle());
  calm_down(c);
  BOOST_TEST(c.core.is_idle());

  const fake_check& check = c.submit(one, "a");
  BOOST_TEST(!c.core.is_idle());
  c.core.end();  // its nodes end the check
  BOOST_TEST(c.core.is_idle());
  step_while_busy(c);
  BOOST_TEST(check.finished == 1);
}

// Each check that another node served took the pauses back to the first one, so a slot that no node
// served was asked for 40 times a second.
BOOST_AUTO_TEST_CASE(pauses_of_a_slot_that_is_down_grow_while_others_are_served) {
  std::string other = "b0";
  for (int i = 1; owner.view[slot_of_tag("r:" + other)] == from; ++i) {
    other = "b" + std::to_string(i);
  }
  const fake_check& down = c.submit(one, "a");
  const fake_check* served = &c.submit(one, other);
  int asked = 0, answered = 0;
  for (const moment end = c.now + 10s; c.now < end;) {
    if (owner.refuses.empty()) {
      ++asked;
      owner.refuses = "CLUSTERDOWN Hash slot not served";
    }
    if (served->finished > 0) {
      ++answered;
      c.now += 5ms;  // the round trip
      served = &c.submit(one, other);
    }
    if (!step_all(c) || c.core.wakeup() <= c.now) c.wait();
  }
  BOOST_TEST(down.finished == 0);
  BOOST_TEST(answered > 500);
  BOOST_TEST(asked > 20);
  BOOST_TEST(asked < 100);
  owner.refuses.clear();
  end_well();
}

// The pauses of all slots were one row, so that the fifth slot began with the longest.
BOOST_AUTO_TEST_CASE(many_slots_that_are_down_for_a_moment_pause_for_a_moment) {
  for (int i = 0; i < 30; ++i) c.submit(one, "warm" + std::to_string(i));
  calm_down(c);
  owner.is_down = true;
  for (int i = 0; i < 200; ++i) c.submit(one, "s" + std::to_string(i));
  step_while_busy(c);
  owner.is_down = false;
  const moment begin = c.now;
  end_well();
  BOOST_TEST((c.now < begin + 40ms));
}

// Each call made the slot's pause longer, so that ten calls began with the longest.
BOOST_AUTO_TEST_CASE(many_calls_to_a_slot_that_is_down_for_a_moment_pause_for_a_moment) {
  const auto limiter = [](int i) {
    return make_core("r" + std::to_string(i), plenty, {.group = "g"});
  };
  for (int i = 0; i < 10; ++i) c.submit(limiter(i), "warm");
  calm_down(c);
  for (simulated_node& n : c.servers) n.is_down = true;
  for (int i = 0; i < 10; ++i) c.submit(limiter(i), "a");
  step_while_busy(c);
  for (simulated_node& n : c.servers) n.is_down = false;
  const moment begin = c.now;
  end_well();
  BOOST_TEST((c.now < begin + 40ms));
}

// A node that names itself cannot serve the slot at present, and knows no other that can.
BOOST_AUTO_TEST_CASE(a_node_that_moves_a_check_to_itself_is_asked_again_later) {
  c.submit(one, "a");
  calm_down(c);
  owner.refuses = "MOVED $ " + simulated_node::address(from);
  const moment begin = c.now;
  c.submit(one, "a");
  end_well();
  BOOST_TEST(owner.executed == 2);
  BOOST_TEST((c.now > begin));
}

// A node says one thing for ever. A node that named itself ended the call with timed_out, a MOVED
// without an address with cluster_down or server_is_cluster, CROSSSLOT with server_is_cluster.
BOOST_AUTO_TEST_CASE(what_a_node_says_for_ever_is_the_error_of_the_call) {
  const std::string self = simulated_node::address(from);
  const std::string in_script = " script: 01ab, on @user_script:31.";
  const std::string in_script_6 =
      "ERR Error running script (call to f_01ab): @user_script:31: "
      "@user_script: 31: Lua script attempted to access ";
  struct row {
    std::string reply;
    error reason;
    bool is_at_once = false;
  };
  const row table[] = {
      {"MOVED $ " + self, error::too_many_redirects},
      {"ASK $ " + self, error::too_many_redirects},
      {"MOVED $ ?:7000", error::too_many_redirects},  // itself, too
      {"MOVED", error::too_many_redirects},
      {"MOVED $", error::too_many_redirects},
      {"MOVED $ n1", error::too_many_redirects},
      {"MOVED $ n1:0", error::too_many_redirects},
      {"MOVED $ n1:65536", error::too_many_redirects},
      {"MOVED $ a host:7000", error::too_many_redirects},
      {"MOVED 99999 " + simulated_node::address(3), error::too_many_redirects},
      {"ASK", error::too_many_redirects},
      {"ASK $ n1:-1", error::too_many_redirects},
      // The map names the first node again.
      {"MOVED $ " + simulated_node::address(4), error::too_many_redirects},
      {"ASK $ " + simulated_node::address(4), error::connection_refused},
      {"TRYAGAIN Multiple keys request during rehashing of slot", error::slot_migrating},
      {"CLUSTERDOWN Hash slot not served", error::cluster_down},
      {"CLUSTERDOWN The cluster is down", error::cluster_down},
      {"CROSSSLOT Keys in request don't hash to the same slot", error::cross_slot, true},
      {"ERR Script attempted to access keys that do not hash to the same slot" + in_script,
       error::cross_slot, true},
      {in_script_6 + "keys that do not hash to the same slot", error::cross_slot, true},
      // A script that may have written is not sent again.
      {"ERR Script attempted to access a non local key in a cluster node" + in_script,
       error::outcome_unknown, true},
      {in_script_6 + "a non local key in a cluster node", error::outcome_unknown, true},
      {"ERR TRYAGAIN Slot is being trimmed" + in_script, error::outcome_unknown, true},
  };
  c.options.timeout = 2s;
  c.servers[4].is_up = false;
  for (const row& r : table) {
    BOOST_TEST_CONTEXT(r.reply) {
      const fake_check& check = c.submit(one, "a");
      const moment begin = c.now;
      int asked = 0;
      play_until([&] {
        if (check.finished == 0 && owner.refuses.empty()) {
          owner.refuses = r.reply;
          ++asked;
        }
        return check.finished > 0;
      });
      BOOST_TEST((check.ec == r.reason), check.ec.message());
      BOOST_CHECK(check.ec == (r.reason == error::outcome_unknown ? condition::may_have_counted
                                                                  : condition::not_counted));
      BOOST_TEST((c.now <= begin + 2s));
      BOOST_TEST((c.now - begin < 1s) == r.is_at_once);
      BOOST_TEST(asked < 100);
      owner.refuses.clear();
      c.submit(one, "a");  // the store goes on
      calm_down(c);
      BOOST_TEST(!c.checks.back().ec, c.checks.back().ec.message());
    }
  }
}

// Both were under way. The first one waits because of CLUSTERDOWN; without may_ask(), the second
// one ran at the other node before it.
BOOST_AUTO_TEST_CASE(a_check_does_not_ask_while_an_earlier_one_of_its_slot_is_held) {
  begin_move();
  owner.refuses = "CLUSTERDOWN The cluster is down";
  c.submit(one, "a");
  c.submit(one, "a");
  end_well();
  BOOST_TEST(third.executed == 2);
}

// The first check waits for a connection to node 3, where nothing of the slot arrives any more.
BOOST_AUTO_TEST_CASE(checks_of_a_slot_do_not_ask_at_two_nodes) {
  c.submit(make_core("other", plenty), "b");
  begin_move();
  third.is_up = false;
  c.submit(one, "a");
  play_until([&] { return c.all.at(2).has_asked; });
  third.importing.clear();
  third.is_up = true;
  begin_move(4);
  c.submit(one, "a");
  end_well();
  BOOST_TEST(c.servers[4].executed == 2);
}

// Sent again at once, it kept both ends busy for as long as the slot moved.
BOOST_AUTO_TEST_CASE(a_check_with_two_keys_pauses_before_it_tries_again) {
  const core_ptr two = make_core("r", tiers(plenty, plenty));
  c.submit(two, "a");
  calm_down(c);
  begin_move();
  auto moved = owner.counts.extract(std::prev(owner.counts.end()));  // one of its two keys
  const fake_check& check = c.submit(two, "a");
  step_while_busy(c);
  BOOST_TEST(check.finished == 0);
  owner.migrating.clear();
  owner.counts.insert(std::move(moved));
  const moment begin = c.now;
  end_well();
  BOOST_TEST((c.now >= begin + 20ms));
}

// The end of the first one sent the second one to its node, out of the list that was being read.
BOOST_AUTO_TEST_CASE(held_checks_expire_together_when_their_pause_is_over) {
  c.options.timeout = 100ms;
  c.submit(one, "a");
  calm_down(c);
  owner.is_down = true;
  const fake_check& first = c.submit(one, "a");
  const fake_check& second = c.submit(one, "a");
  step_while_busy(c);
  BOOST_TEST_REQUIRE(first.finished == 0);
  BOOST_TEST_REQUIRE(first.check().route.is_held);
  // The timer comes late: the pause is over, and so is the time of both.
  c.now += 500ms;
  c.core.on_time(c.now);
  c.collect(c.core.take_done());
  calm_down(c);
  BOOST_TEST(first.finished == 1);
  BOOST_TEST((first.ec == error::cluster_down), first.ec.message());
  BOOST_TEST(second.finished == 1);
  judge(c);
  BOOST_TEST(c.core.is_idle());
  owner.is_down = false;
  const fake_check& later = c.submit(one, "a");
  calm_down(c);
  BOOST_TEST(!later.ec, later.ec.message());
}

// It had timed out, as if the node had said nothing.
BOOST_AUTO_TEST_CASE(a_check_that_comes_while_its_slot_is_down_ends_with_that) {
  c.options.timeout = 100ms;
  c.submit(one, "a");
  calm_down(c);
  owner.is_down = true;
  c.submit(one, "a");
  step_while_busy(c);
  const fake_check& later = c.submit(one, "a");
  BOOST_TEST_REQUIRE(later.check().route.is_held);
  while (later.finished == 0) {
    c.wait();
    step_while_busy(c);
  }
  BOOST_TEST((later.ec == error::cluster_down), later.ec.message());
}

// A slot that moves has a call that must wait for the end of that, and one that asks elsewhere.
BOOST_AUTO_TEST_CASE(a_check_that_may_not_ask_yet_is_not_redirected_in_vain) {
  c.options.timeout = 1s;
  const core_ptr two = make_core("both", tiers(plenty, plenty), {.group = "g"});
  const core_ptr single = make_core("alone", plenty, {.group = "g"});
  slot = slot_of_tag("g");
  from = c.servers[0].view[slot];
  simulated_node& has = c.servers[static_cast<std::size_t>(from)];
  c.submit(two, "a");
  c.submit(single, "b");
  calm_down(c);
  has.migrating[slot] = 3;
  third.importing[slot] = from;
  // One of the two keys of `two`, and the key of `single`, have moved.
  for (auto it = has.counts.begin(); it != has.counts.end();) {
    const auto here = it++;
    const bool moves = here->first.find("alone") != std::string::npos || here->first.ends_with("1");
    if (moves) third.counts.insert(has.counts.extract(here));
  }
  BOOST_TEST_REQUIRE(has.counts.size() == 1u);
  const moment begin = c.now;
  const fake_check& waits = c.submit(two, "a");
  const fake_check& asks = c.submit(single, "b");
  play_until([&] { return asks.finished > 0; });
  BOOST_TEST(!asks.ec, asks.ec.message() << " after " << (c.now - begin) / 1ms << " ms");
  play_until([&] { return waits.finished > 0; });
  BOOST_TEST((waits.ec == error::slot_migrating), waits.ec.message());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_redirects_test

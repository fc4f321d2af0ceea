// Where the checks of a slot go when a new map of the cluster comes.
#include "moving_slot.hpp"

namespace cluster_new_maps_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::redis::slot_of_tag;

BOOST_FIXTURE_TEST_SUITE(cluster_new_maps_suite, moving_slot)

// An attempt to connect to the dead master is under way, so it has no news that could move them.
BOOST_AUTO_TEST_CASE(a_new_map_moves_the_checks_that_wait_for_a_dead_master) {
  for (int i = 0; i < 20; ++i) c.submit(one, std::to_string(i));
  c.submit(one, "a");
  calm_down(c);
  owner.is_up = false;
  simulated_link& old = link_to(from);
  c.cut(old);
  while (!old.opening) c.wait();
  const fake_check& check = c.submit(one, "a");
  BOOST_TEST_REQUIRE(!check.check().route.is_held);
  take_over();
  for (const moment begin = c.now; check.finished == 0;) {
    BOOST_TEST_REQUIRE((c.now < begin + 1min));
    if (!step_all(c, &old)) c.wait();
  }
  end_well();
  BOOST_TEST(third.executed == 1);
}

// Nothing else comes from the old one that could send them.
BOOST_AUTO_TEST_CASE(the_last_answer_of_the_old_master_sends_the_held_checks_to_the_new_one) {
  for (int i = 0; i < 20; ++i) c.submit(one, std::to_string(i));
  c.submit(one, "a");
  calm_down(c);
  simulated_link& old = link_to(from);
  const int before = owner.executed;
  c.submit(one, "a");
  while (owner.executed == before) c.step(old);
  for (simulated_node& n : c.servers) n.view[slot] = 3;
  third.counts.merge(owner.counts);
  c.cut(link_to((from + 1) % 3));  // so the core asks for a new map
  for (const moment begin = c.now; c.now < begin + 5s;) {
    if (!step_all(c, &old)) c.wait();
  }
  while (step_all(c, &old)) {
  }
  const fake_check& held = c.submit(one, "a");
  BOOST_TEST_REQUIRE(held.check().route.is_held, "no new map has come");
  const moment begin = c.now;
  const std::string answer = owner.replies.front().bytes;
  old.say_last(answer);
  step_while_busy(c);
  BOOST_TEST(held.finished == 1);
  BOOST_TEST((c.now == begin));
  end_well();
}

// A new check went to the node that had left the cluster: to nowhere, or to the next one that got
// its place among the members.
BOOST_AUTO_TEST_CASE(a_slot_without_an_owner_is_held_when_its_node_has_left_the_cluster) {
  std::string subject = "0";
  const auto slot_of_subject = [&] { return slot_of_tag("r:" + subject); };
  while (owner.view[slot_of_subject()] != 1) subject = std::to_string(std::stoi(subject) + 1);
  slot = slot_of_subject();
  simulated_node& leaving = c.servers[1];  // not a seed
  leaving.migrating[slot] = 3;
  third.importing[slot] = 1;
  c.submit(one, subject);
  while (third.executed == 0) {
    bool is_quiet = true;
    for (const auto& l : std::vector(c.links)) {
      if (third.executed == 0 && c.step(*l)) is_quiet = false;
    }
    if (is_quiet) c.wait();
  }
  // The answer of the third node is due, so the slot has a check, but none at its old node.
  for (simulated_node& n : c.servers) {
    for (std::uint16_t& at : n.view) at = at == 1 ? std::uint16_t{2} : at;
    n.view[slot] = simulated_node::no_owner;
  }
  simulated_link& asked = link_to(3);
  c.cut(link_to(1));  // so the core asks for a new map
  for (const moment begin = c.now; c.now < begin + 5s;) {
    if (!step_all(c, &asked)) c.wait();
  }
  const fake_check& held = c.submit(one, subject);
  BOOST_TEST(held.check().route.is_held);
  step_while_busy(c);  // the answer of the third node comes
  BOOST_TEST(held.check().route.is_held);
  for (simulated_node& n : c.servers) n.view[slot] = 3;
  third.importing.clear();
  end_well();
  BOOST_TEST(third.executed == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_new_maps_test

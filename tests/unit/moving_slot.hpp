#pragma once

#include "cluster_play.hpp"
#include "support/test.hpp"

namespace weir::redis::test {

/// A cluster whose slot of subject "a" is served by `owner`, and is moved to node 3.
struct moving_slot {
  simulated_cluster c{1};
  weir::test::core_ptr one = weir::test::make_core("r", plenty);
  std::uint16_t slot = slot_of_tag("r:a");
  int from = c.servers[0].view[slot];
  simulated_node& owner = c.servers[static_cast<std::size_t>(from)];
  simulated_node& third = c.servers[3];

  void begin_move(int to = 3) {
    owner.migrating[slot] = to;
    c.servers[static_cast<std::size_t>(to)].importing[slot] = from;
  }
  /// Node 3 has all of the owner's slots and keys, and the other nodes know.
  void take_over() {
    for (simulated_node& n : c.servers) {
      if (&n == &owner) continue;
      for (std::uint16_t& at : n.view) {
        if (at == from) at = 3;
      }
    }
    third.counts.merge(owner.counts);
  }

  template <class F>
  void play_until(F&& is_true) {
    for (int rounds = 0; !is_true(); ++rounds) {
      BOOST_TEST_REQUIRE(rounds < 100'000);
      if (!step_all(c)) c.wait();
    }
  }
  simulated_link& link_to(int server) {
    for (const auto& l : c.links) {
      if (l->node == server) return *l;
    }
    throw std::logic_error("not connected");
  }
  /// Ends the play: each check has run once, in order.
  void end_well() {
    calm_down(c);
    judge(c);
    judge_order(c);
    for (const fake_check& each : c.checks) BOOST_TEST(!each.ec, each.ec.message());
  }
};

}  // namespace weir::redis::test

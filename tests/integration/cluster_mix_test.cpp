// All kinds of calls at once on a Redis Cluster whose slots move, whose masters hand over or are
// killed, and whose nodes come and go: nothing is counted twice, no call hangs, and all counts are
// right afterwards.
#include "call_mix.hpp"

namespace cluster_mix_test {

using namespace weir;
using namespace weir::test;
using namespace mixed;

/// A cluster under the mix.
template <class Cluster>
struct under_mix : Cluster {
  using Cluster::answer, Cluster::cluster, Cluster::counted, Cluster::io,
      Cluster::run_while_waiting;
  weir::store store = Cluster::open(40s);  // however long an outage takes
  mix all{io, store, 8};
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  /// A slot of each place; another kind of call is there with another `pick`.
  std::vector<std::uint16_t> slots(std::size_t pick = 0) {
    std::vector<std::uint16_t> found;
    for (const auto& p : all.places) {
      const std::size_t i = found.size() + pick;
      const std::uint16_t of_kind[] = {p->books[i % test::mixed::policies].slot,
                                       p->waits[i % waiting_policies].slot, p->cancelled.slot,
                                       p->slot_of("gate", p->name)};
      found.push_back(of_kind[pick % 4]);
    }
    return found;
  }
  /// Waits until what nobody heard of has been given back; never, if that is lost.
  template <class Fetch>
  void settles_at(const std::string& what, std::int64_t least, std::int64_t most, Fetch&& fetch) {
    std::int64_t used = -1;
    const auto limit = std::chrono::steady_clock::now() + 20s;
    this->run_while_waiting(
        [&] { return (used = fetch()) <= most || std::chrono::steady_clock::now() > limit; });
    BOOST_CHECK_MESSAGE(used >= least && used <= most,
                        what << ": " << used << " used, not " << least << " to " << most);
  }
  /// Ends the mix, and compares all that the servers have counted.
  void compare() {
    all.end();
    std::int64_t lacking = 0, range = 0, total = 0;
    const auto compare_one = [&](const book& b) {
      const std::int64_t used = counted(b.l, b.subject);
      all.check(b, used);
      lacking += std::max<std::int64_t>(0, b.low - used);
      range += b.high - b.low;
      total += used;
    };
    std::int64_t warm = 0, cold = 0;
    for (auto& p : all.places) {
      for (const book& b : p->books) compare_one(b);
      for (const book& b : p->waits) compare_one(b);
      for (const std::string& subject : p->cooled) {
        const decision d = answer([&](auto h) { p->cold.record(subject, h); });
        const bool is_cold = !d.allowed && d.cooling_down;
        ++(is_cold ? cold : warm);
        BOOST_TEST((is_cold || all.lost(p->slot_of("cold", subject))));
      }
      const bool cancelled_gone = all.lost(p->cancelled.slot);
      settles_at("cancelled, " + p->name, cancelled_gone ? 0 : p->cancelled.low,
                 p->cancelled.high + (cancelled_gone ? p->aborted_unsafely : 0),
                 [&] { return counted(p->cancelled.l, p->cancelled.subject); });
      const bool gate_gone = all.lost(p->slot_of("gate", p->name));
      const std::int64_t stay = gate_gone ? p->unsafe_leases + all.done.unknown : 0;
      const auto inside = [&] { return answer([&](auto h) { p->gate.fetch(p->name, h); }).used; };
      const auto held = static_cast<std::int64_t>(p->leases.size());
      settles_at("gate, " + p->name, gate_gone ? 0 : held, held + stay, inside);
      for (const auto& l : p->leases) BOOST_TEST((gate_gone || l.is_held()));
      p->leases.clear();
      settles_at("empty gate, " + p->name, 0, stay, inside);
    }
    const auto& n = all.done;
    BOOST_TEST_MESSAGE(
        n.records << " records, " << n.settled << " settled, " << n.acquired << " acquired, "
                  << n.aborted << " cancelled, " << n.cooled << " cool-downs, " << n.refusals
                  << " refused by them, " << n.entered << " entered, " << n.released << " left; "
                  << n.unknown << " of unknown outcome, " << n.late << " at the deadline, " << total
                  << " units counted, " << range << " uncertain, " << lacking << " lacking; "
                  << warm << " of " << cold + warm << " cool-downs lost; "
                  << std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()
                  << " s");
    BOOST_TEST(n.records >= 400);
    BOOST_TEST(n.settled >= 60);
    BOOST_TEST(n.acquired >= 300);
    BOOST_TEST(n.aborted >= 20);
    BOOST_TEST(n.cooled >= 60);
    BOOST_TEST(n.refusals >= 200);
    BOOST_TEST(n.entered >= 60);
    BOOST_TEST(n.released >= 30);
  }
};

BOOST_AUTO_TEST_SUITE(cluster_mix_suite)

BOOST_FIXTURE_TEST_CASE(slots_move_back_and_forth, under_mix<cluster_fixture>) {
  all.run_on(2);
  for (std::size_t round = 0; round < 8; ++round) {
    for (const std::uint16_t slot : slots(round / 2)) {
      const std::size_t from = cluster.owner_of(slot);
      const std::size_t to = (from + 1 + round % 2) % 3;  // there, and back
      cluster.begin_move(slot, from, to);
      all.run_some();  // calls with several keys wait
      cluster.move_keys(slot, from, to, 1);
      all.run_some();
      cluster.end_move(slot, from, to);
    }
    all.run_on(2);
  }
  compare();
  BOOST_TEST(all.done.unknown == 0);
}

BOOST_FIXTURE_TEST_CASE(masters_hand_over, under_mix<replicated_cluster>) {
  all.run_on(4);
  for (std::size_t i = 0; i < 3; ++i) {
    redis_client(cluster.node(3 + i)).must("CLUSTER", "FAILOVER");
    run_while_waiting([&] { return !cluster.slots_of(3 + i).empty(); });
    all.run_on(2);
  }
  compare();
  BOOST_TEST(all.done.unknown == 0);
}

// What the replica had not got is lost, for the slots of that master only.
BOOST_FIXTURE_TEST_CASE(a_master_is_killed, under_mix<replicated_cluster>) {
  all.run_on(4);
  cluster.replicate(0, 3);
  for (const std::uint16_t slot : cluster.slots_of(0)) all.lost_slots.insert(slot);
  all.unsafe = all.outage = true;
  // The replica hears nothing more, so there is something to lose.
  cluster.node(3).pause();
  redis_client(cluster.node(0)).must("CLIENT", "KILL", "TYPE", "replica");
  all.run_on(2);
  cluster.node(0).kill();
  cluster.node(3).resume();
  all.run_on(4);
  all.unsafe = false;
  all.run_on(2);
  compare();
  BOOST_TEST(all.done.unknown <= 80);  // those that were sent, and repeated
}

BOOST_FIXTURE_TEST_CASE(a_node_joins_and_leaves, under_mix<cluster_fixture>) {
  all.run_on(2);
  const std::size_t added = cluster.add();
  std::vector<std::pair<std::uint16_t, std::size_t>> moved;
  for (const std::uint16_t slot : slots()) {
    moved.emplace_back(slot, cluster.owner_of(slot));
    cluster.move(slot, moved.back().second, added);
    all.run_some();
  }
  all.run_on(1);
  BOOST_TEST(redis_client(cluster.node(added)).must("DBSIZE").integer > 50);
  for (const auto& [slot, from] : moved) {
    cluster.move(slot, added, from);
    all.run_some();
  }
  all.run_on(2);  // now the store knows the owners, too
  cluster.remove(added);
  all.run_on(2);
  compare();
  BOOST_TEST(all.done.unknown == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_mix_test

// Checks on a Redis Cluster with a fault at each step. Whatever happens, what callers are told is
// what the nodes have done; a refusal or a redirect alone fails no check.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "cluster_play.hpp"
#include "fault_plays.hpp"
#include "redis/slot.hpp"

namespace cluster_faults_test {
namespace {

using namespace weir::redis::test;
using namespace weir::test;
using weir::error;
using weir::error_code;
using weir::redis::slot_count;
using weir::redis::slot_of_tag;

/// What goes on in the cluster.
enum class scenario { quiet, moves_a_slot, knows_an_old_map };

std::vector<questions> calls() {
  using enum when;
  const question a{"a"}, b{"b"}, c{"c", {}, asks::tiers};
  return {{at_first, {a, b, c, a}}, {during_write, {a}}, {during_write, {c}}, {in_quiet, {b, a}}};
}

class cluster_player final : public player {
 public:
  cluster_player(scenario s, manner m, std::vector<planned_fault> faults)
      : player(calls(), m, std::move(faults)), moves_late_(s == scenario::knows_an_old_map) {
    c_.how = m;
    if (s != scenario::moves_a_slot) return;
    const std::uint16_t slot = slot_of_tag("r:a");
    const std::size_t from = c_.servers[0].view[slot];
    c_.servers[from].migrating[slot] = 3;
    c_.servers[3].importing[slot] = static_cast<int>(from);
  }

 private:
  enum own : std::size_t { cut_with_its_node, owns };

  std::vector<wire*> wires() override {
    std::vector<wire*> all;
    for (const auto& l : c_.links) all.push_back(l.get());
    return all;
  }
  asked_check& ask(const question& q, wire*) override {
    static const core_ptr one = make_core("r", plenty);
    static const core_ptr two = make_core("r", weir::tiers(plenty, plenty));
    // With the last ones before the end.
    if (moves_late_ && asked_.size() == 5) move_all(c_.servers[0].view[slot_of_tag("r:a")]);
    c_.submit(q.of == asks::tiers ? two : one, q.subject);
    asked_check& a = c_.all.at(c_.submitted);
    a.told = q.told;
    asked_.push_back(&a);
    return a;
  }
  bool carries(wire& w) override { return !w.aboard.empty(); }
  /// $ is the slot of the call. Node 4 has no slots.
  const std::vector<saying>& sayings() const override {
    static const std::vector<saying> all = {
        {"MOVED $ n4:7000"},
        {"MOVED $ :7000"},
        {"MOVED $ x"},
        {"ASK $ n4:7000"},
        {"ASK $ x"},
        {"TRYAGAIN Multiple keys request during rehashing of slot"},
        {"CLUSTERDOWN Hash slot not served"},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."},
        {"READONLY You can't write against a read only replica."},
        {"LOADING Redis is loading the dataset in memory"},
        {"BUSY Redis is busy running a script."},
        {"NOSCRIPT No matching script."},
    };
    return all;
  }
  bool may_say(std::size_t which, const wire& w) const override {
    return player::may_say(which, w) && node_of(w) < 3;
  }
  std::size_t opens_due(const wire&) const override { return 0; }
  bool may_deadlines_come() const override { return true; }

  std::size_t own_faults() const override { return owns; }
  bool is_possible(std::size_t, const wire& w) const override {
    return w.is_up() && w.reading && node_of(w) < 3;
  }
  void strike_own(std::size_t, wire& w) override {
    move_all(node_of(w));
    c_.servers[node_of(w)].is_up = false;
    c_.cut(static_cast<simulated_link&>(w));
  }

  bool proceed(wire& w) override { return c_.step(static_cast<simulated_link&>(w)); }
  void wait() override { c_.wait(); }
  void cancel(asked_check& a, weir::detail::cancel_scope scope) override {
    c_.core.cancel(*const_cast<fake_check*>(a.check), scope);
    c_.collect(c_.core.take_done());
    for (wire* w : wires()) w->pump();
  }
  void pass_deadlines() override {
    c_.now += 21h;
    c_.wait();
  }
  void close(wire&) override {
    c_.core.close(c_.now);
    for (wire* w : wires()) w->closed = true, w->close(), w->pump();
    c_.core.end();
    c_.collect(c_.core.take_done());
    BOOST_TEST_REQUIRE(all_finished());
  }
  void abandon(wire&) override {
    std::vector<std::shared_ptr<weir::redis::cluster_node>> nodes;
    for (auto left = c_.core.abandon(nodes); !left.empty(); left.pop_front()) {
      left.front().finish(weir::detail::delivery::discard);
    }
    for (wire* w : wires()) player::abandon(*w);
  }
  bool is_settled(const wire& w) const override {
    return w.is_at_rest() || w.is_stopped() || !c_.servers[node_of(w)].is_up;
  }
  void ask_afresh() override {
    if (c_.core.is_closed()) return static_cast<void>(ask(later, nullptr));
    for (const char* subject : {"a", "b"}) ask({subject}, nullptr);
    ask({"c", {}, asks::tiers}, nullptr);
  }
  bool may_be_told(const asked_check& a, error_code e) const override {
    const bool expired = e == error::timed_out || e == error::no_reply;
    return expired ? have({kind::deadline}) : player::may_be_told(a, e);
  }
  void judge_all() override {
    if (!have({kind::abandon})) weir::redis::test::judge(c_);
  }

  static std::size_t node_of(const wire& w) {
    return static_cast<std::size_t>(static_cast<const simulated_link&>(w).node);
  }
  /// All slots of a node, with their data, go to node 3.
  void move_all(std::size_t from) {
    for (simulated_node& n : c_.servers) {
      for (std::size_t s = 0; s < slot_count; ++s) {
        if (n.view[s] == from) n.view[s] = 3;
      }
    }
    simulated_node &old = c_.servers[from], &third = c_.servers[3];
    for (const auto& [slot, to] : old.migrating) third.importing.erase(slot);
    old.migrating.clear();
    for (const auto& [key, count] : old.counts) third.counts[key] = count;
    old.counts.clear();
  }

  const bool moves_late_;
  simulated_cluster c_{1};
};

void play_all(std::string_view name, scenario s) {
  plays all;
  const auto make = [s](manner m, const std::vector<planned_fault>& faults) {
    return std::make_unique<cluster_player>(s, m, faults);
  };
  for (const manner m : {manner{}, manner{.eager = true, .whole = true, .late = true}}) {
    all.play_all(name, m, make, is_sanitized ? 7 : 1);
  }
  all.expect_all();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step) { play_all("quiet", scenario::quiet); }

// The calls of one subject are asked for elsewhere (ASK), and some of its keys are at neither node
// alone (TRYAGAIN).
BOOST_AUTO_TEST_CASE(any_fault_at_any_step_while_a_slot_moves) {
  play_all("a slot moves", scenario::moves_a_slot);
}

BOOST_AUTO_TEST_CASE(any_fault_at_any_step_with_an_outdated_map) {
  play_all("an old map", scenario::knows_an_old_map);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_faults_test

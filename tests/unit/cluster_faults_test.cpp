// Checks on a Redis Cluster with a fault at each step: first as it is meant to go, which tells the
// steps; then again and again, with everything that can go wrong at each of them. Whatever happens,
// what callers are told is what the nodes have done.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster_play.hpp"
#include "redis/slot.hpp"
#include "support/sanitized.hpp"

namespace cluster_faults_test {
namespace {

using namespace std::chrono_literals;
using namespace weir::redis::test;
using weir::error;
using weir::redis::slot_count;
using weir::redis::slot_of_tag;
using weir::test::core_ptr;
using weir::test::make_core;

// clang-format off
enum class fault {
  none,
  // The connection.
  open_fails, cut, cut_with_its_node, half_a_reply, garbage, garbage_halfway, wrong_reply, silence,
  // What a node answers, once, in place of running a call.
  moved, moved_to_itself, moved_nowhere, asked, asked_nowhere, try_again, cluster_down, master_down,
  read_only, loading, busy, no_script,
  // The callers.
  time_passes, deadline, cancel_all,
  count
};
// clang-format on

/// What a node says; $ is the slot of the call. Node 4 has no slots.
std::string_view said(fault f) {
  switch (f) {
    case fault::moved:
      return "MOVED $ n4:7000";
    case fault::moved_to_itself:
      return "MOVED $ :7000";
    case fault::moved_nowhere:
      return "MOVED $ x";
    case fault::asked:
      return "ASK $ n4:7000";
    case fault::asked_nowhere:
      return "ASK $ x";
    case fault::try_again:
      return "TRYAGAIN Multiple keys request during rehashing of slot";
    case fault::cluster_down:
      return "CLUSTERDOWN Hash slot not served";
    case fault::master_down:
      return "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    case fault::read_only:
      return "READONLY You can't write against a read only replica.";
    case fault::loading:
      return "LOADING Redis is loading the dataset in memory";
    case fault::busy:
      return "BUSY Redis is busy running a script.";
    case fault::no_script:
      return "NOSCRIPT No matching script.";
    default:
      return {};
  }
}

/// What goes on in the cluster.
enum class scenario { quiet, moves_a_slot, knows_an_old_map };

class player {
 public:
  player(scenario s, fault what, std::size_t at) : what_(what), at_(at) {
    c_.options.breaker_failures = 0;  // no call ends at once because others got no answer
    if (s == scenario::moves_a_slot) begin_move(slot_of_tag("r:a"));
    if (s == scenario::knows_an_old_map) moves_late_ = true;
    for (const char* subject : {"a", "b", "c", "a"}) ask(subject);
  }

  bool struck = false;
  std::size_t struck_at = 0, steps = 0;

  void run() {
    while (!over()) go_on();
    judge(c_);
    for (const deed* d : deeds_of_this_run()) {
      const bool is_lost = what_ <= fault::silence && what_ > fault::open_fails;
      const bool may_fail = struck && (is_lost || what_ == fault::time_passes ||
                                       what_ == fault::deadline || what_ == fault::cancel_all);
      BOOST_TEST_REQUIRE((may_fail || !d->check->ec), d->check->ec.message());
    }
    // Then all is well again, and what was held up comes. After a failed attempt, the next one has
    // its chance.
    for (const auto& l : c_.links) {
      if (what_ == fault::silence) l->is_silent = false;
    }
    for (int i = 0; i < 3 && what_ == fault::deadline; ++i) {
      step_while_busy(c_);
      c_.wait();
    }
    step_while_busy(c_);
    const auto before = c_.submitted;
    for (const char* subject : {"a", "b", "c"}) ask(subject);
    calm_down(c_);
    judge(c_);
    for (const auto& [cost, d] : c_.all) {
      if (cost > before) BOOST_TEST_REQUIRE(!d.check->ec, d.check->ec.message());
    }
  }

 private:
  bool over() const { return asked_ == std::size(later_) && c_.is_quiet(); }

  void ask(std::string_view subject) {
    static const core_ptr one = make_core("r", plenty);
    static const core_ptr two = make_core("r", weir::tiers(plenty, plenty));
    c_.submit(subject == "c" ? two : one, subject);
  }
  std::vector<const deed*> deeds_of_this_run() const {
    std::vector<const deed*> all;
    for (const auto& entry : c_.all) all.push_back(&entry.second);
    return all;
  }

  simulated_node& node(std::size_t i) { return c_.servers[i]; }
  void begin_move(std::uint16_t slot) {
    const std::size_t from = node(0).view[slot];
    node(from).migrating[slot] = 3;
    node(3).importing[slot] = static_cast<int>(from);
  }
  /// All slots of a node, with their data, go to node 3.
  void move_all(std::size_t from) {
    for (simulated_node& n : c_.servers) {
      for (std::size_t s = 0; s < slot_count; ++s) {
        if (n.view[s] == from) n.view[s] = 3;
      }
    }
    for (const auto& [slot, to] : node(from).migrating) node(3).importing.erase(slot);
    node(from).migrating.clear();
    for (const auto& [key, count] : node(from).counts) node(3).counts[key] = count;
    node(from).counts.clear();
  }

  /// One event of one connection, or a caller that asks.
  void go_on() {
    BOOST_TEST_REQUIRE(steps < 20'000u, "a check hangs");
    const std::size_t number = steps++;
    if (number % 6 == 5 && asked_ < std::size(later_)) {
      if (moves_late_ && asked_ == 1) move_all(node(0).view[slot_of_tag("r:a")]);
      ask(later_[asked_++]);
    }
    if (c_.links.empty()) return c_.wait();
    const auto l = c_.links[number % c_.links.size()];
    if (number >= at_ && !struck && strike(*l)) {
      struck = true;
      struck_at = number;
      return;
    }
    idle_ = c_.step(*l) ? 0 : idle_ + 1;
    if (idle_ > c_.links.size()) {
      idle_ = 0;
      c_.wait();
    }
  }

  /// False if it cannot strike here, and waits for its place.
  bool strike(simulated_link& l) {
    simulated_node& s = node(static_cast<std::size_t>(l.server));
    const bool reads = l.reading && !l.opening && !l.closing && !l.is_silent;
    const bool has_reply = reads && !s.replies.empty();
    const std::string garbage = "HTTP/1.1 400 Bad Request\r\n\r\n";
    const auto half = [&] {
      const std::string& reply = s.replies.front().bytes;
      return reply.substr(0, reply.size() / 2);
    };
    const auto garble = [&](const std::string& bytes) {
      c_.deliver_last(l, bytes);
      BOOST_TEST_REQUIRE(l.closing);
    };
    switch (what_) {
      case fault::open_fails:
        if (!l.opening) return false;
        ++s.refuses_connects;
        return true;
      case fault::cut:
        if (!reads) return false;
        c_.cut(l);
        return true;
      case fault::cut_with_its_node:
        if (!reads || l.server > 2) return false;
        move_all(static_cast<std::size_t>(l.server));
        s.is_up = false;
        for (const auto& other : std::vector(c_.links)) {
          if (other->server == l.server) c_.cut(*other);
        }
        return true;
      case fault::half_a_reply:
        if (!has_reply) return false;
        c_.deliver_last(l, half());
        l.is_silent = false;
        c_.cut(l);
        return true;
      case fault::garbage:
        if (!reads) return false;
        garble(garbage);
        return true;
      case fault::garbage_halfway:
        if (!has_reply) return false;
        // The rest of a text may be any bytes.
        garble(half() + "\n?" + garbage + std::string(half().size(), '!'));
        return true;
      case fault::wrong_reply:
        if (!has_reply || s.replies.front().whose == 0) return false;
        garble("+OK\r\n");
        return true;
      case fault::silence:
        if (!reads) return false;
        l.is_silent = true;
        return true;
      case fault::time_passes:
        c_.wait();
        return true;
      case fault::deadline:
        for (int i = 0; i < 2; ++i) {  // the timer comes late, and puts the checks off
          c_.now += 21h;
          c_.wait();
        }
        BOOST_TEST_REQUIRE(c_.is_quiet());
        return true;
      case fault::cancel_all:
        for (auto& check : c_.checks) {
          if (check.finished == 0) c_.core.cancel(check, weir::detail::cancel_scope::any);
          c_.collect(c_.core.take_done());
        }
        for (const auto& each : std::vector(c_.links)) c_.pump(*each);
        BOOST_TEST_REQUIRE(c_.is_quiet());
        return true;
      case fault::none:
      case fault::count:
        return false;
      default:
        if (!reads || l.server > 2) return false;
        s.refuses = said(what_);
        return true;
    }
  }

  static constexpr const char* later_[] = {"a", "c", "b", "a"};

  const fault what_;
  const std::size_t at_;
  simulated_cluster c_{1};
  bool moves_late_ = false;
  std::size_t asked_ = 0, idle_ = 0;
};

/// What differs little from another fault, and is played in a quiet cluster only.
bool is_minor(fault f) {
  return f == fault::moved_nowhere || f == fault::asked_nowhere || f == fault::master_down ||
         f == fault::read_only || f == fault::busy || f == fault::garbage_halfway ||
         f == fault::time_passes;
}

void play_all(scenario s) {
  player good(s, fault::none, 0);
  good.run();
  BOOST_TEST(good.steps > 20u);
  BOOST_TEST_MESSAGE(good.steps << " steps");
  std::size_t number = 0;
  for (int what = 1; what < static_cast<int>(fault::count); ++what) {
    if (s != scenario::quiet && is_minor(static_cast<fault>(what))) continue;
    int struck = 0;
    for (std::size_t at = 0; at < good.steps; ++at) {
      if (weir::test::is_sanitized && number++ % 7 != 0) continue;
      BOOST_TEST_CONTEXT("fault " << what << " at step " << at) {
        player p(s, static_cast<fault>(what), at);
        p.run();
        struck += p.struck ? 1 : 0;
        at = std::max(at, p.struck_at);  // earlier places would be this one
      }
    }
    BOOST_TEST(struck > 0, "fault " << what);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step) { play_all(scenario::quiet); }

// The calls of one subject are asked for elsewhere (ASK), and some of its keys are at neither node
// alone (TRYAGAIN).
BOOST_AUTO_TEST_CASE(any_fault_at_any_step_while_a_slot_moves) { play_all(scenario::moves_a_slot); }

BOOST_AUTO_TEST_CASE(any_fault_at_any_step_with_an_outdated_map) {
  play_all(scenario::knows_an_old_map);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_faults_test

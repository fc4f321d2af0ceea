#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fault_kinds.hpp"
#include "simulated_cluster.hpp"

/// What the tests of a simulated cluster share: its quiet end, and what must be true of it.
namespace weir::redis::test {

inline const fixed_window plenty{.limit = 1'000'000'000, .window = 10s};

/// One event of each connection, `but` one if not null. False if nothing is under way.
inline bool step_all(simulated_cluster& c, const simulated_link* but = nullptr) {
  bool any = false;
  // A copy: new connections may come.
  for (const auto& l : std::vector(c.links)) any = (l.get() != but && c.step(*l)) || any;
  return any;
}

/// Lets everything happen that takes no time.
inline void step_while_busy(simulated_cluster& c) {
  for (int steps = 0; step_all(c); ++steps) BOOST_TEST_REQUIRE(steps < 10'000, "no end");
}

/// Events without disturbance, until all checks are finished.
inline void calm_down(simulated_cluster& c) {
  for (int steps = 0; !c.is_quiet(); ++steps) {
    BOOST_TEST_REQUIRE(steps < 20'000, "a check hangs");
    if (!step_all(c)) c.wait();
  }
}

inline void judge(const simulated_cluster& c) {
  for (const auto& [cost, d] : c.all) {
    BOOST_TEST_CONTEXT("check " << cost << " of " << d.key << ": " << d.check->ec.message()) {
      judge_fate(d);
      if (d.check->ec == condition::may_have_counted) BOOST_TEST_REQUIRE(d.is_under_way());
    }
  }
}

/// The nodes have run the checks of each key in the order of the calls. Not so if a node does not
/// run one check, and runs the next one of its key, which was under way already.
inline void judge_order(const simulated_cluster& c) {
  std::map<std::string, std::int64_t> used;
  for (const auto& [cost, d] : c.all) {
    if (d.executed == 0) continue;
    BOOST_TEST_CONTEXT("check " << cost << " of " << d.key) {
      BOOST_TEST_REQUIRE(d.right.used == (used[d.key] += cost));
    }
  }
}

}  // namespace weir::redis::test

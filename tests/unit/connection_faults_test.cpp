// Every scenario with a fault at each of its steps, in the manner of Boost.MySQL's tests of its
// network algorithms: first as it is meant to go, which tells its steps; then again and again, with
// everything that can go wrong at each of them. Whatever happens, what callers are told is what the
// server has done.
#include <array>
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "session_player.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

namespace connection_faults_test {

using namespace weir::redis::test;
using weir::test::is_sanitized;
using weir::test::run_seed;

namespace {

/// What can go wrong in a run that goes as this one went, from a step on.
std::vector<fault> faults_of(const player& p, manner m, std::size_t from = 0) {
  std::vector<fault> all;
  for (std::size_t at = from; at < p.steps().size(); ++at) {
    for (const kind k : possible(p.steps()[at])) all.push_back({k, at});
    if (m.hasty && p.steps()[at].asked) all.push_back({kind::deadline, at});
  }
  for (std::size_t write = 0; write < p.writes().size(); ++write) {
    if (p.writes()[write].begun < from) continue;
    for (const std::size_t bytes : p.writes()[write].cuts) {
      all.push_back({kind::write_fails, write, bytes});
      all.push_back({kind::write_stuck, write, bytes});
    }
  }
  return all;
}

std::vector<manner> manners() {
  std::vector<manner> all;
  for (const bool eager : {false, true}) {
    for (const bool whole : {false, true}) {
      for (const bool late : {false, true}) all.push_back({eager, whole, late, false});
      all.push_back({eager, whole, whole, true});
    }
  }
  return all;
}

struct tally {
  std::size_t runs = 0, steps = 0;
  std::array<std::size_t, fault_kinds> struck{};
};

template <class Then>
void play(const scenario& s, manner m, const std::vector<fault>& faults, tally& total,
          Then&& then) {
  BOOST_TEST_CONTEXT(s.name << ", " << text_of(m, faults)) {
    player p(s, m, faults);
    p.run();
    ++total.runs;
    total.steps += p.steps().size();
    for (const fault& f : faults) ++total.struck[static_cast<std::size_t>(f.what)];
    then(p);
  }
}

void report(const tally& total) {
  BOOST_TEST_MESSAGE(total.runs << " runs, " << total.steps << " steps");
  for (std::size_t k = 0; k < fault_kinds; ++k) {
    BOOST_TEST_MESSAGE(total.struck[k] << " times: " << name_of(static_cast<kind>(k)));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(connection_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step_of_any_scenario) {
  tally total;
  std::size_t number = 0;
  for (const scenario& s : scenarios()) {
    for (const manner m : manners()) {
      if (is_sanitized && number++ % 5 != 0) continue;
      std::vector<fault> faults;
      play(s, m, {}, total, [&](const player& p) {
        BOOST_TEST(p.opens == s.opens);
        faults = faults_of(p, m);
      });
      for (const fault& f : faults) play(s, m, {f}, total, [](const player&) {});
    }
  }
  report(total);
  for (std::size_t k = 0; k < fault_kinds; ++k) {
    BOOST_TEST(total.struck[k] > 0u, name_of(static_cast<kind>(k)));
  }
}

// The second while the session recovers from the first, and later. A run plays one pair of several;
// its seed says which, so that several runs play them all.
BOOST_AUTO_TEST_CASE(any_two_faults) {
  constexpr std::size_t one_of = is_sanitized ? 32 : 3;
  tally total;
  std::size_t number = run_seed();
  BOOST_TEST_MESSAGE("seed " << run_seed());
  for (const scenario& s : scenarios()) {
    if (!s.twice) continue;
    for (const bool eager : {false, true}) {
      const manner m{.eager = eager, .whole = true, .late = eager};
      std::vector<fault> firsts;
      play(s, m, {}, total, [&](const player& p) { firsts = faults_of(p, m); });
      for (const fault& first : firsts) {
        std::vector<fault> seconds;
        play(s, m, {first}, total,
             [&](const player& p) { seconds = faults_of(p, m, p.struck_at() + 1); });
        for (const fault& second : seconds) {
          if (number++ % one_of != 0) continue;
          play(s, m, {first, second}, total, [](auto&) {});
        }
      }
    }
  }
  report(total);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connection_faults_test

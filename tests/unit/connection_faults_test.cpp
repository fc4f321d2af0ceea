// Every scenario of one Redis server with a fault at each of its steps: first as it is meant to go,
// which tells its steps; then again and again, with everything that can go wrong at each of them.
// Whatever happens, what callers are told is what the server has done.
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "fault_player.hpp"
#include "session_driver.hpp"
#include "session_scenarios.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

namespace connection_faults_test {
namespace {

using namespace weir::redis::test;
using namespace weir::test;
using weir::error;
using weir::error_code;

class session_player final : public player {
 public:
  session_player(const scenario& s, manner m, std::vector<fault> faults)
      : player(s.asked, m, std::move(faults)), scenario_(s), link_(s.options) {
    link_.settles_at_once = false;
    link_.how = m;
    link_.server = &server_;
    if (!s.options.username.empty()) server_.username = s.options.username;
    server_.password = s.options.password;
    server_.database = s.options.database;
    s.server(server_);
  }

  int opens() const { return link_.opens; }

 private:
  std::vector<wire*> wires() override { return {&link_}; }
  asked_check& ask(const question& q, wire* by) override {
    static const weir::fixed_window three{.limit = 3, .window = 10s}, two{.limit = 2, .window = 20s};
    static const weir::limiter_options group{.group = "g"};
    static const auto one = make_core("one", three);
    static const auto both = make_core("both", weir::tiers(three, two));
    static const auto first = make_core("first", weir::tiers(three, three), group);
    static const auto second = make_core("second", two, group);
    std::vector<weir::detail::term> further;
    if (q.of == asks::several) further.push_back({second, weir::detail::short_text(q.subject), 1});
    fake_check& c = link_.checks.emplace_back(
        q.of == asks::one     ? one
        : q.of == asks::tiers ? both
                              : first,
        q.subject, q.cost, q.kind, how.hasty ? std::chrono::microseconds(150ms) : 1h,
        std::move(further));
    asked_check& a = fates_.emplace_back(asked_check{.check = &c, .by = by, .told = q.told});
    asked_.push_back(&a);
    link_.start(c);
    return a;
  }
  bool carries(wire& w) override {
    for (asked_check* a : asked_) {
      if (a->check->stage != weir::detail::check_stage::sent || a->finished() ||
          a->is_under_way()) {
        continue;
      }
      a->where = asked_check::place::write;
      a->was_written = true;
      w.aboard.push_back(a);
      server_.expect(*a);
    }
    return !w.aboard.empty();
  }
  const std::vector<saying>& sayings() const override {
    static const std::vector<saying> all = {
        {"NOSCRIPT No matching script."},
        {"LOADING Redis is loading the dataset in memory", error::server_loading},
        {"BUSY Redis is busy running a script.", error::server_busy},
        {"OOM command not allowed when used memory > 'maxmemory'."},
        {"NOPERM this user has no permissions to run 'evalsha'"},
        {"READONLY You can't write against a read only replica.", error::read_only, true},
        {"NOAUTH Authentication required.", {}, true},
        {"ERR something else"},
    };
    return all;
  }
  bool has_more_to_do() const override { return server_.pings < scenario_.pings; }
  void mend() override { server_.interrupts = {}; }
  bool is_expected(const asked_check& a) const override {
    return a.is_told(a.told) || (a.check->ec && a.is_told(scenario_.reason));
  }
  bool may_be_told(const asked_check& a, error_code e) const override {
    return e == scenario_.reason || player::may_be_told(a, e);
  }

  const scenario& scenario_;
  fake_redis server_;
  std::deque<asked_check> fates_;
  driver link_;
};

auto player_of(const scenario& s, manner m) {
  return [&s, m](const std::vector<fault>& faults) {
    return std::make_unique<session_player>(s, m, faults);
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(connection_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step_of_any_scenario) {
  tally total;
  std::size_t number = 0;
  for (const scenario& s : scenarios()) {
    for (const manner m : manners()) {
      if (is_sanitized && number++ % 5 != 0) continue;
      session_player good(s, m, {});
      good.run();
      BOOST_TEST(good.opens() == s.opens);
      total.play_all(s.name, m, player_of(s, m));
    }
  }
  for (std::size_t k = 0; k < fault_kinds; ++k) {
    const auto what = static_cast<fault_kind>(k);
    BOOST_TEST((total.struck[k] > 0u || what == fault_kind::of_protocol), name_of(what));
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
      const auto make = player_of(s, m);
      for (const fault& first : total.play(s.name, m, {}, true, make)) {
        for (const fault& second : total.play(s.name, m, {first}, true, make)) {
          if (number++ % one_of == 0) total.play(s.name, m, {first, second}, false, make);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connection_faults_test

// Every scenario of one Redis server with a fault at each of its steps: first as it is meant to go,
// which tells its steps; then again and again, with everything that can go wrong at each of them.
// Whatever happens, what callers are told is what the server has done.
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "fault_plays.hpp"
#include "session_driver.hpp"
#include "session_scenarios.hpp"
#include "support/sanitized.hpp"

namespace connection_faults_test {
namespace {

using namespace weir::redis::test;
using namespace weir::test;
using weir::error;
using weir::error_code;

class session_player final : public player {
 public:
  session_player(const scenario& s, manner m, std::vector<planned_fault> faults)
      : player(s.asked, m, std::move(faults)), scenario_(s), link_(s.options) {
    link_.settles_at_once = false;
    link_.how = m;
    link_.server = &server_;
    if (!s.options.username.empty()) server_.username = s.options.username;
    server_.password = s.options.password;
    server_.database = s.options.database;
    s.server(server_);
  }

 private:
  std::vector<wire*> wires() override { return {&link_}; }
  asked_check& ask(const question& q, wire* by) override {
    static const weir::fixed_window three{.limit = 3, .window = 10s},
        two{.limit = 2, .window = 20s};
    static const weir::limiter_options group{.group = "g"};
    static const auto one = make_core("one", three);
    static const auto both = make_core("both", weir::tiers(three, two));
    static const auto first = make_core("first", weir::tiers(three, three), group);
    static const auto second = make_core("second", two, group);
    std::vector<weir::detail::term> further;
    if (q.of == asks::several) further.push_back({second, weir::detail::short_text(q.subject), 1});
    fake_check& c = link_.checks.emplace_back(q.of == asks::one     ? one
                                              : q.of == asks::tiers ? both
                                                                    : first,
                                              q.subject, q.cost, q.kind,
                                              how.hasty ? std::chrono::microseconds(150ms) : 1h,
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
  const std::vector<saying>& sayings() const override { return weir::redis::test::sayings(); }
  bool has_more_to_do() const override { return server_.pings < scenario_.pings; }
  void mend() override { server_.interrupts = {}; }
  void judge_all() override {
    if (faults_.empty()) BOOST_TEST_REQUIRE(link_.opens == scenario_.opens);
  }
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

auto player_of(const scenario& s) {
  return [&s](manner m, const std::vector<planned_fault>& faults) {
    return std::make_unique<session_player>(s, m, faults);
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(connection_faults_suite)

BOOST_AUTO_TEST_CASE(any_fault_at_any_step_of_any_scenario) {
  plays all;
  std::size_t number = 0;
  for (const scenario& s : scenarios()) {
    for (const manner m : manners()) {
      if (is_sanitized && number++ % 5 != 0) continue;
      all.play_all(s.name, m, player_of(s));
    }
  }
  all.expect_all({fault_kind::of_protocol});
}

BOOST_AUTO_TEST_CASE(any_two_faults) {
  plays all;
  for (const scenario& s : scenarios()) {
    if (!s.twice) continue;
    for (const bool eager : {false, true}) {
      const manner m{.eager = eager, .whole = true, .late = eager};
      all.play_pairs(s.name, m, player_of(s), is_sanitized ? 64 : 6);
    }
  }
  all.expect_all({fault_kind::of_protocol, fault_kind::deadline});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connection_faults_test

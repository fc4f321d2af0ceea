// Renewals and leaves of leases: before ordinary calls, behind their own enters.
#include "limiter/limiter_impl.hpp"
#include "pipeline_fixture.hpp"
#include "support/test.hpp"
#include "weir/concurrency_limiter.hpp"

namespace pipeline_urgent_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::cancel_scope;
using weir::detail::check_kind;
using weir::detail::check_stage;
using weir::detail::lease_act;

struct gate_fixture : fixture {
  explicit gate_fixture(const line_options& o = {},
                        std::size_t first = weir::redis::coalescer::max_keys_per_write)
      : fixture(o, first) {
    line.connected();
  }

  core_ptr gate = std::make_shared<weir::detail::limiter_impl>(std::make_shared<null_store>(),
                                                               "gate", concurrency_options{});

  fake_check& of_lease(std::int64_t lease, lease_act kind) {
    fake_check& c = checks.emplace_back(gate, "s", lease, kind, 100ms);
    line.submit(c, now);
    return c;
  }
  /// A reply to a call of the gate: one is in, and the asker too.
  bool answer_gate() { return feed("$38\r\n!5 0 f" + doubles({1, 0, 6e6, 6e6}) + "\r\n"); }
};

BOOST_AUTO_TEST_SUITE(pipeline_urgent_suite)

// 300 leases of 50 holders were lost in 8 s behind 20,000 callers of a healthy server.
BOOST_AUTO_TEST_CASE(renewals_and_leaves_go_before_twenty_thousand_calls_that_wait) {
  gate_fixture f;
  for (int i = 0; i < 20'000; ++i) f.submit("s" + std::to_string(i));
  auto& renewal = f.of_lease(1, lease_act::renew);
  auto& leave = f.of_lease(2, lease_act::leave);
  const std::string out = f.write();
  BOOST_TEST((renewal.stage == check_stage::sent));
  BOOST_TEST((leave.stage == check_stage::sent));
  BOOST_TEST(out.find("{gate:s}") < out.find("{r:s0}"));
  // The write is filled up with these
  BOOST_TEST((f.checks.front().stage == check_stage::sent));
  BOOST_TEST(f.answer_gate());
  BOOST_TEST(f.answer_gate());
  BOOST_TEST(done_with(renewal, {}));
  BOOST_TEST(renewal.answer.allowed);
  BOOST_TEST(done_with(leave, {}));
}

// While the pipeline spares a slow server, a lease must not end.
BOOST_AUTO_TEST_CASE(a_renewal_does_not_wait_for_a_pause_between_keys) {
  gate_fixture f({}, 1);
  // The first answer tells the round trip, and the bound grows; the later ones are slow.
  f.submit("first", 1, check_kind::record, 10s);
  f.write();
  BOOST_TEST_REQUIRE(f.answer(0));
  f.submit("slow", 1, check_kind::record, 10s);
  f.write();
  f.now += 900ms;
  BOOST_TEST_REQUIRE(f.answer(0));
  // Once is no reason for a pause.
  f.submit("slow again", 1, check_kind::record, 10s);
  BOOST_TEST(!f.write().empty());
  auto& held = f.submit("held", 1, check_kind::record, 10s);
  f.now += 1400ms;
  BOOST_TEST_REQUIRE(f.answer(0));
  BOOST_TEST_REQUIRE(f.write().empty());
  auto& renewal = f.of_lease(1, lease_act::renew);
  BOOST_TEST(!f.write().empty());
  BOOST_TEST((renewal.stage == check_stage::sent));
  BOOST_TEST((held.stage == check_stage::waiting));
  BOOST_TEST(f.answer_gate());
  BOOST_TEST(done_with(renewal, {}));
  BOOST_TEST((f.line.wakeup() < f.now + 2s));
  f.now = std::max(f.now, f.line.wakeup());
  f.line.expire(f.now);
  BOOST_TEST(!f.write().empty());
  BOOST_TEST((held.stage == check_stage::sent));
}

BOOST_AUTO_TEST_CASE(a_full_line_turns_no_renewal_away) {
  gate_fixture f({.max_pending = 2});
  for (const char* s : {"a", "b"}) f.submit(s);
  auto& renewal = f.of_lease(1, lease_act::renew);
  auto& leave = f.of_lease(2, lease_act::leave);
  BOOST_TEST((renewal.stage == check_stage::waiting));
  BOOST_TEST((leave.stage == check_stage::waiting));
  BOOST_TEST(done_with(f.submit("c"), error::overloaded));
  // An enter is a call
  BOOST_TEST(done_with(f.of_lease(3, lease_act::enter), error::overloaded));
}

// An enter whose caller has gone while it was being sent is followed by a leave.
BOOST_AUTO_TEST_CASE(a_leave_stays_behind_its_own_enter) {
  for (const bool cut : {false, true}) {
    gate_fixture f;
    auto& enter = f.of_lease(7, lease_act::enter);
    const std::string first = f.line.next_write(f.now);
    BOOST_TEST(count_of(first, "EVALSHA") == 1u);
    f.line.cancel(enter, cancel_scope::any);
    f.line.take_done();
    auto& leave = f.of_lease(7, lease_act::leave);
    BOOST_TEST(f.line.next_write(f.now).empty());
    if (cut) {
      // The enter has not run, and is not sent again: no caller waits for it.
      f.line.disconnected(error::outcome_unknown, 10, f.now);
      f.line.connected();
    } else {
      f.line.write_done();
    }
    BOOST_TEST(count_of(f.write(), "EVALSHA") == 1u);
    if (!cut) BOOST_TEST(f.answer_gate());
    BOOST_TEST((leave.stage == check_stage::sent));
    BOOST_TEST(f.answer_gate());
    BOOST_TEST(done_with(leave, {}));
  }
}

BOOST_AUTO_TEST_CASE(renewals_that_did_not_run_go_first_again) {
  gate_fixture f;
  for (int i = 0; i < 10; ++i) f.submit("s" + std::to_string(i));
  auto& renewal = f.of_lease(1, lease_act::renew);
  f.write();
  BOOST_TEST(f.feed("-LOADING Redis is loading the dataset in memory\r\n"));
  BOOST_TEST(f.feed("-LOADING Redis is loading the dataset in memory\r\n"));
  BOOST_TEST((renewal.stage == check_stage::waiting));
  f.line.expire(f.now += 25ms);
  const std::string out = f.write();
  BOOST_TEST(out.find("{gate:s}") < out.find("{r:s0}"));
}

// More of them than one write takes.
BOOST_AUTO_TEST_CASE(renewals_leave_in_their_own_order) {
  gate_fixture f;
  f.submit("a");
  for (int i = 1; i <= 300; ++i) f.of_lease(i, lease_act::renew);
  const std::string first = f.write();
  BOOST_TEST(count_of(first, "{gate:s}") == 256u);
  BOOST_TEST((f.checks.front().stage == check_stage::waiting));
  f.of_lease(299, lease_act::leave);
  const std::string second = f.write();
  BOOST_TEST(count_of(second, "{gate:s}") == 45u);
  BOOST_TEST((f.checks[299].stage == check_stage::sent));
  BOOST_TEST(second.find("{gate:s}") < second.find("{r:a}"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_urgent_test

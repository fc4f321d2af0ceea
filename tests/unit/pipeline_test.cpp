// The pipeline without sockets: what is written, what comes back, and what each caller gets for it.
#include "redis/pipeline.hpp"

#include <boost/asio/error.hpp>
#include <random>

#include "pipeline_fixture.hpp"
#include "support/test.hpp"

namespace pipeline_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::cancel_scope;
using weir::detail::check_kind;
using weir::detail::check_stage;

BOOST_AUTO_TEST_SUITE(pipeline_suite)

BOOST_FIXTURE_TEST_CASE(nothing_is_written_before_the_connection_is_up, fixture) {
  auto& c = submit("a");
  BOOST_TEST(line.next_write().empty());
  BOOST_TEST((c.stage == check_stage::waiting));
  line.connected();
  BOOST_TEST(!line.next_write().empty());
  BOOST_TEST((c.stage == check_stage::sent));
  line.write_done();
  BOOST_TEST((c.stage == check_stage::sent));
}

BOOST_FIXTURE_TEST_CASE(one_check_is_one_script_call, connected_fixture) {
  submit("a");
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:a}:f") == 1u);
  BOOST_TEST(write().empty());
}

BOOST_FIXTURE_TEST_CASE(checks_made_during_a_write_leave_together_in_the_next, connected_fixture) {
  submit("a");
  BOOST_TEST(!line.next_write().empty());
  submit("b");
  submit("c");
  BOOST_TEST(line.next_write().empty());
  line.write_done();
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:b}:f") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:c}:f") == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_cancelled_call_keeps_its_replys_place, connected_fixture) {
  auto& first = submit("a");
  write();
  auto& second = submit("b");
  write();
  line.cancel(first, cancel_scope::any);
  BOOST_TEST(line.replies_due() == 2u);
  BOOST_TEST(answer(0));
  BOOST_TEST((second.stage == check_stage::sent));
  BOOST_TEST(answer(2));
  BOOST_TEST(second.answer.used == 3);
}

BOOST_FIXTURE_TEST_CASE(a_check_cancelled_while_waiting_is_never_sent, fixture) {
  auto& c = submit("a");
  line.cancel(c, cancel_scope::only_unsent);
  BOOST_TEST(done_with(c, boost::asio::error::operation_aborted));
  line.take_done();
  line.connected();
  BOOST_TEST(line.next_write().empty());
}

BOOST_FIXTURE_TEST_CASE(total_cancellation_leaves_alone_what_was_sent, connected_fixture) {
  auto& c = submit("a");
  line.next_write();
  line.cancel(c, cancel_scope::only_unsent);
  BOOST_TEST((c.stage == check_stage::sent));
  line.write_done();
  line.cancel(c, cancel_scope::only_unsent);
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(c, {}));
}

BOOST_FIXTURE_TEST_CASE(cancelling_twice_or_too_late_does_nothing, connected_fixture) {
  auto& c = submit("a");
  write();
  answer(0);
  line.cancel(c, cancel_scope::any);
  BOOST_TEST(done_with(c, {}));
  BOOST_TEST(line.take_done().empty());
  BOOST_TEST(line.pending() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_fetch_is_a_check_with_count_zero_and_changes_nothing, connected_fixture) {
  auto& fetch = submit("k", 1, check_kind::fetch);
  auto& again = submit("k", 1, check_kind::fetch);
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
  BOOST_TEST(out.ends_with("$1\r\n0\r\n"));
  BOOST_TEST(answer(2));
  BOOST_TEST(fetch.answer.used == 2);
  BOOST_TEST(again.answer.used == 2);
  BOOST_TEST(again.answer.allowed);
}

BOOST_FIXTURE_TEST_CASE(a_record_before_and_after_a_reset_are_three_calls, connected_fixture) {
  submit("k");
  submit("k", 1, check_kind::reset);
  submit("k");
  const std::string out = write();
  const auto first = out.find("EVALSHA");
  const auto unlink = out.find("UNLINK");
  const auto second = out.find("EVALSHA", first + 1);
  BOOST_TEST((first < unlink && unlink < second && second != npos));
  BOOST_TEST(answer(0));
  BOOST_TEST(feed(":1\r\n"));
  BOOST_TEST(answer(0));
  BOOST_TEST(checks[2].answer.used == 1);
}

BOOST_FIXTURE_TEST_CASE(the_deadline_of_a_waiting_check_says_that_nothing_was_sent, fixture) {
  auto& c = submit("a", 1, check_kind::record, 10ms);
  BOOST_TEST((line.wakeup() == now + 10ms));
  line.expire(now + 9ms);
  BOOST_TEST((c.stage == check_stage::waiting));
  line.expire(now + 10ms);
  BOOST_TEST(done_with(c, error::timed_out));
  BOOST_TEST((c.ec == condition::not_counted));
}

BOOST_FIXTURE_TEST_CASE(the_deadline_of_a_sent_check_says_that_it_may_have_counted,
                        connected_fixture) {
  auto& c = submit("a", 1, check_kind::record, 10ms);
  auto& other = submit("b", 1, check_kind::record, 50ms);
  write();
  line.expire(now + 10ms);
  BOOST_TEST(done_with(c, error::no_reply));
  BOOST_TEST((c.ec == condition::may_have_counted));
  line.take_done();
  BOOST_TEST(feed(window_reply({{}, {4'000'000, 1}})));
  BOOST_TEST(other.answer.used == 2);
}

BOOST_FIXTURE_TEST_CASE(an_absurd_timeout_does_not_overflow, fixture) {
  auto& c = submit("a", 1, check_kind::record, std::chrono::microseconds::max());
  line.expire(now + 1h);
  BOOST_TEST((c.stage == check_stage::waiting));
}

BOOST_AUTO_TEST_CASE(a_full_line_turns_the_next_away_at_once) {
  fixture f({.max_pending = 2});
  for (const char* s : {"a", "b"}) BOOST_TEST((f.submit(s).stage == check_stage::waiting));
  auto& c = f.submit("c");
  BOOST_TEST(done_with(c, error::overloaded));
  f.line.take_done();
  f.line.cancel(f.checks[0], cancel_scope::any);
  f.line.take_done();
  BOOST_TEST((f.submit("d").stage == check_stage::waiting));
}

// A hundred thousand subjects of 64 KiB once might wait at a time.
BOOST_AUTO_TEST_CASE(long_subjects_fill_the_line_sooner) {
  fixture f({.max_pending = 10});
  const std::string long_subject(4 * 1024, 's');  // counts as five
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST((f.submit(long_subject).stage == check_stage::waiting));
    BOOST_TEST((f.submit(long_subject).stage == check_stage::waiting));
    BOOST_TEST(done_with(f.submit("a"), error::overloaded));
    f.line.disconnected(error::outcome_unknown, 0, f.now);
    f.line.expire(f.now += 1h);
    f.line.take_done();
    BOOST_TEST(f.line.pending() == 0u);
    // Alone, even one that is beyond the bound may wait.
    const fake_check& alone = f.submit(std::string(60'000, 's'));
    BOOST_TEST((alone.stage == check_stage::waiting));
    BOOST_TEST(done_with(f.submit("a"), error::overloaded));
    f.line.expire(f.now += 1h);
    f.line.take_done();
  }
}

BOOST_AUTO_TEST_CASE(the_memory_of_a_rare_big_write_is_given_back) {
  fixture f;
  f.line.connected();
  const std::string long_subject(10'000, 's');
  for (int i = 0; i < 200; ++i) f.submit(long_subject + std::to_string(i));
  BOOST_TEST(f.line.next_write().capacity() > 1'000'000u);
  f.line.write_done();
  f.submit("a");
  BOOST_TEST(f.line.next_write().capacity() < 10'000u);
}

BOOST_FIXTURE_TEST_CASE(a_ping_takes_a_place_and_nobody_waits_for_it, connected_fixture) {
  line.ping();
  BOOST_TEST(write() == "*1\r\n$4\r\nPING\r\n");
  auto& c = submit("a");
  write();
  BOOST_TEST(feed("+PONG\r\n"));
  BOOST_TEST((c.stage == check_stage::sent));
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(c, {}));
}

BOOST_FIXTURE_TEST_CASE(a_ping_is_wanted_of_one_connection_only, connected_fixture) {
  line.ping();
  line.disconnected(error::outcome_unknown, npos, now);
  line.connected();
  BOOST_TEST(!line.wants_write());
}

// The count-many result equals running the checks one after the other, whatever joins, leaves and
// expires meanwhile.
BOOST_AUTO_TEST_CASE(coalesced_equals_one_by_one) {
  const unsigned seed = std::random_device{}();
  BOOST_TEST_CONTEXT("seed " << seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 2000; ++round) {
      fixture f;
      f.line.connected();
      const auto& kernel = std::get<weir::policies::fixed_window>(f.core->tiers.front());
      weir::policies::fixed_window::state state{4'000'000, static_cast<std::int64_t>(random() % 4)};
      if (state.count == 0) state.start = 0;
      const auto before = state;
      const int n = 1 + static_cast<int>(random() % 8);
      std::vector<decision> expected;
      for (int i = 0; i < n; ++i) {
        f.submit("k");
        expected.push_back(kernel.record(state, 5'000'000, 1));
      }
      f.write();
      std::vector<bool> dropped(static_cast<std::size_t>(n));
      for (int i = 0; i < n; ++i) {
        if (random() % 3 != 0) continue;
        dropped[static_cast<std::size_t>(i)] = true;
        f.line.cancel(f.checks[static_cast<std::size_t>(i)], cancel_scope::any);
      }
      f.line.take_done();
      f.feed(window_reply({{before.start, before.count}}));
      for (std::size_t i = 0; i < dropped.size(); ++i) {
        if (!dropped[i]) BOOST_TEST_REQUIRE((f.checks[i].answer == expected[i]));
      }
      BOOST_TEST_REQUIRE(f.line.pending() == 0u);
    }
  }
}

// From then on a lease counts: later than its caller asked, and no later than the server can have
// read it.
BOOST_FIXTURE_TEST_CASE(a_check_knows_when_it_was_sent_last, connected_fixture) {
  const fake_check& c = submit("a");
  BOOST_TEST((c.sent == weir::redis::pipeline::time()));
  now += 10ms;
  line.next_write(now);
  BOOST_TEST((c.sent == now));
  line.write_done();
  now += 10ms;
  BOOST_TEST(feed("-NOSCRIPT No matching script\r\n"));
  line.next_write(now);
  BOOST_TEST((c.sent == now));
}

// Its caller has left, and what the server reserves has to go back.
BOOST_AUTO_TEST_CASE(a_stand_in_takes_the_place_of_an_acquire_that_was_sent) {
  for (const bool is_sent : {false, true}) {
    connected_fixture f;
    fake_check& c = f.submit("a", 1, check_kind::acquire);
    fake_check& behind = f.submit("a", 1, check_kind::acquire);
    if (is_sent) f.write();
    f.line.cancel(c, cancel_scope::any);
    f.line.take_done();
    BOOST_TEST(done_with(c, boost::asio::error::operation_aborted));
    f.line.cancel(c, cancel_scope::any);
    BOOST_TEST(f.line.pending() == (is_sent ? 2u : 1u));
    if (!is_sent) f.write();
    f.feed("-ERR whatever\r\n");
    BOOST_TEST(done_with(behind, error::server_error));
    for (weir::detail::check& one : f.last_done) {
      if (&one == &behind.check()) continue;
      BOOST_TEST((is_sent && one.flight.is_stand_in && one.ec == error::server_error));
    }
    BOOST_TEST(std::distance(f.last_done.begin(), f.last_done.end()) == (is_sent ? 2 : 1));
    if (is_sent) f.last_done.front().finish(weir::detail::delivery::discard);
    BOOST_TEST(f.line.is_idle());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_test

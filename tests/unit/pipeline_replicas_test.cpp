// Calls that are answered only when replicas have their counts: one WAIT behind each write.
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "pipeline_fixture.hpp"

namespace pipeline_replicas_test {

using namespace std::chrono_literals;
using namespace weir::redis::test;
using weir::error;
using weir::detail::check_kind;
using weir::detail::check_stage;

namespace {

struct replicated : fixture {
  explicit replicated(weir::redis::pipeline::options o = {.timeout = 500ms}) : fixture(with(o)) {
    line.connected();
  }
  static weir::redis::pipeline::options with(weir::redis::pipeline::options o) {
    o.replicas = 2;
    o.longest_wait = 1s;
    return o;
  }
  static std::string wait_of(int milliseconds) {
    const std::string number = std::to_string(milliseconds);
    return "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$" + std::to_string(number.size()) + "\r\n" + number +
           "\r\n";
  }
  bool replicas_have_it(int count) { return feed(":" + std::to_string(count) + "\r\n"); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pipeline_replicas_suite)

BOOST_AUTO_TEST_CASE(a_count_is_answered_when_the_replicas_have_it) {
  replicated f;
  auto& a = f.submit("a");
  const std::string out = f.write();
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
  BOOST_TEST(out.ends_with(f.wait_of(500)));
  BOOST_TEST(f.answer(0));
  BOOST_TEST((a.stage == check_stage::counted));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(a, {}));
  BOOST_TEST(a.answer.allowed);
  BOOST_TEST(a.answer.used == 1);
  BOOST_TEST(f.line.is_idle());
}

// The server runs nothing of this connection meanwhile: what is not sent may still end uncounted.
BOOST_AUTO_TEST_CASE(nothing_is_written_while_the_server_waits) {
  replicated f;
  f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  auto& hasty = f.submit("hasty", 1, check_kind::record, 10ms);
  auto& b = f.submit("b");
  BOOST_TEST(!f.line.wants_write());
  BOOST_TEST(f.write().empty());
  f.line.expire(f.now += 10ms);
  f.line.take_done();
  BOOST_TEST(done_with(hasty, error::timed_out));
  BOOST_TEST(f.replicas_have_it(3));
  const std::string out = f.write();
  BOOST_TEST(count_of(out, "{r:b}") == 1u);
  BOOST_TEST(count_of(out, "WAIT") == 1u);
  BOOST_TEST(f.answer(0));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(b, {}));
}

BOOST_AUTO_TEST_CASE(refusals_and_fetches_do_not_wait) {
  replicated f;
  auto& a = f.submit("a");
  auto& b = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(2));  // room for one
  BOOST_TEST((a.stage == check_stage::counted));
  BOOST_TEST(done_with(b, {}));
  BOOST_TEST(!b.answer.allowed);
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(a, {}));

  auto& c = f.submit("a", 1, check_kind::fetch);
  BOOST_TEST(count_of(f.write(), "WAIT") == 0u);
  BOOST_TEST(f.answer(3));
  BOOST_TEST(done_with(c, {}));
}

// The server may end its WAIT before the calls' deadlines: the next one covers them, too.
BOOST_AUTO_TEST_CASE(fewer_replicas_are_waited_for_until_the_deadline) {
  replicated f;
  auto& c = f.submit("c");
  auto& d = f.submit("d", 1, check_kind::reset, 5s);
  BOOST_TEST(f.write().ends_with(f.wait_of(1000)));
  BOOST_TEST(f.answer(0));
  BOOST_TEST(f.feed(":1\r\n"));  // of the reset
  f.now += 400ms;
  BOOST_TEST(f.replicas_have_it(1));
  BOOST_TEST((c.stage == check_stage::counted));
  BOOST_TEST(f.line.wants_write());
  BOOST_TEST(f.write() == f.wait_of(1000));
  f.line.expire(f.now += 100ms);
  f.line.take_done();
  BOOST_TEST(done_with(c, error::not_replicated));
  BOOST_TEST(!c.answer.allowed);
  BOOST_TEST((d.stage == check_stage::counted));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(d, {}));
  BOOST_TEST(f.write().empty());
}

BOOST_AUTO_TEST_CASE(a_server_that_will_not_wait_ends_the_calls) {
  replicated f;
  auto& a = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  BOOST_TEST(f.feed("-NOPERM this user has no permissions to run the 'wait' command\r\n"));
  BOOST_TEST(done_with(a, error::not_replicated));
  BOOST_TEST(!f.line.wants_write());
}

BOOST_AUTO_TEST_CASE(a_lost_connection_leaves_the_counted_uncertain_and_sends_the_others) {
  replicated f;
  auto& a = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  auto& b = f.submit("b");
  f.line.disconnected(error::outcome_unknown, npos, f.now);
  f.line.take_done();
  BOOST_TEST(done_with(a, error::outcome_unknown));
  BOOST_TEST(!a.answer.allowed);
  f.line.connected();
  BOOST_TEST(count_of(f.write(), "{r:b}") == 1u);
  BOOST_TEST(f.answer(0));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(b, {}));
}

BOOST_AUTO_TEST_CASE(what_did_not_run_is_sent_again_behind_the_wait) {
  replicated f;
  auto& a = f.submit("a");
  f.write();
  BOOST_TEST(f.feed("-NOSCRIPT No matching script.\r\n"));
  BOOST_TEST((a.stage == check_stage::waiting));
  BOOST_TEST(!f.line.wants_write());
  BOOST_TEST(f.replicas_have_it(0));  // nothing was written, and nothing waits
  const std::string out = f.write();
  BOOST_TEST(count_of(out, "$4\r\nEVAL\r\n") == 1u);
  BOOST_TEST(count_of(out, "WAIT") == 1u);
  BOOST_TEST(f.answer(0));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(a, {}));
}

BOOST_AUTO_TEST_CASE(a_cancelled_call_leaves_and_the_next_ones_get_their_own_replies) {
  replicated f;
  auto& a = f.submit("a");
  auto& b = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  f.line.cancel(a, weir::detail::cancel_scope::only_unsent);
  BOOST_TEST((a.stage == check_stage::counted));
  f.line.cancel(a, weir::detail::cancel_scope::any);
  f.line.take_done();
  BOOST_TEST(done_with(a, boost::asio::error::operation_aborted));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(b, {}));
  BOOST_TEST(b.answer.used == 2);
}

// Else each caller would wait for its deadline, and count, as long as no replica is there.
BOOST_AUTO_TEST_CASE(missing_replicas_open_the_circuit_and_their_return_closes_it) {
  replicated f({.timeout = 10ms, .breaker_failures = 3, .breaker_pause = 100ms});
  auto& a = f.submit("a");
  f.submit("a");
  f.submit("b");
  f.write();
  BOOST_TEST(f.feed(window_reply({{4'000'000, 0}, {4'000'000, 0}})));
  f.line.expire(f.now += 10ms);
  f.line.take_done();
  BOOST_TEST(done_with(a, error::not_replicated));
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.line.take_done();
  BOOST_TEST(f.replicas_have_it(0));
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.line.take_done();
  f.now += 100ms;
  auto& probe = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST(done_with(probe, {}));
  BOOST_TEST((f.submit("b").stage == check_stage::waiting));
}

// A fetch took the probe of each pause, and could not close the circuit: callers that fetch before
// they record had it open for ever.
BOOST_AUTO_TEST_CASE(a_fetch_finds_that_the_replicas_are_back) {
  replicated f({.timeout = 10ms, .breaker_failures = 1, .breaker_pause = 100ms});
  auto& a = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  f.line.expire(f.now += 10ms);
  f.line.take_done();
  BOOST_TEST(done_with(a, error::not_replicated));
  BOOST_TEST(f.replicas_have_it(0));
  f.now += 100ms;
  auto& probe = f.submit("a", 1, check_kind::fetch);
  f.write();
  BOOST_TEST(f.answer(0));
  f.line.take_done();
  BOOST_TEST(done_with(probe, {}));
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.line.take_done();
  BOOST_TEST(f.replicas_have_it(2));
  BOOST_TEST((f.submit("a").stage == check_stage::waiting));
}

// A check with less time left was counted, and then ended with not_replicated.
BOOST_AUTO_TEST_CASE(what_the_replicas_would_confirm_too_late_is_not_sent) {
  replicated f;
  f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  f.now += 300ms;
  BOOST_TEST(f.replicas_have_it(2));
  auto& hasty = f.submit("a", 1, check_kind::record, 200ms);
  auto& patient = f.submit("b");
  f.write();
  BOOST_TEST((hasty.stage == check_stage::waiting));
  BOOST_TEST((patient.stage == check_stage::sent));
  f.line.expire(f.now += 200ms);
  f.line.take_done();
  BOOST_TEST(done_with(hasty, error::timed_out));
}

// Answers to fetches do not show that the replicas are there, so failures of fetches, however long
// ago, opened the circuit of a process that only fetched, and nothing closed it.
BOOST_AUTO_TEST_CASE(fetches_alone_do_not_open_the_circuit) {
  replicated f({.timeout = 10ms, .breaker_failures = 3, .breaker_pause = 100ms});
  for (int i = 0; i < 3; ++i) {
    f.submit("a", 1, check_kind::fetch);
    f.write();
    f.line.expire(f.now += 10ms);
    f.line.take_done();
    BOOST_TEST(f.answer(0));
    auto& answered = f.submit("a", 1, check_kind::fetch);
    f.write();
    BOOST_TEST(f.answer(0));
    BOOST_TEST(done_with(answered, {}));
  }
  BOOST_TEST((f.submit("a").stage == check_stage::waiting));
}

BOOST_AUTO_TEST_CASE(closing_ends_the_calls_that_wait_for_replicas) {
  replicated f;
  auto& a = f.submit("a");
  f.write();
  BOOST_TEST(f.answer(0));
  f.line.close();
  f.line.take_done();
  BOOST_TEST(done_with(a, error::outcome_unknown));
  BOOST_TEST(!a.answer.allowed);
  BOOST_TEST(f.line.is_idle());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_replicas_test

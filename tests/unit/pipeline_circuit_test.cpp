// When the pipeline leaves a store alone that does not answer, and when it must not.
#include "redis/pipeline.hpp"

#include "pipeline_fixture.hpp"
#include "support/test.hpp"

namespace pipeline_circuit_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_kind;
using weir::detail::check_stage;
using weir::detail::lease_act;

BOOST_AUTO_TEST_SUITE(pipeline_circuit_suite)

BOOST_AUTO_TEST_CASE(the_circuit_opens_after_failures_in_a_row_and_one_probe_at_a_time_tries) {
  fixture f({.timeout = 10ms, .breaker_failures = 3, .breaker_pause = 100ms});
  f.line.connected();
  const auto fail_one = [&] {
    auto& c = f.submit("a", 1, check_kind::record, 4ms);
    f.write();
    f.now += 4ms;
    f.line.expire(f.now);
    f.line.take_done();
    return c.ec;
  };
  for (int i = 0; i < 3; ++i) BOOST_TEST((fail_one() == error::no_reply));
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.now += 100ms;
  auto& probe = f.submit("a");
  BOOST_TEST((probe.stage == check_stage::waiting));
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.line.take_done();
  f.write();
  // The replies due for the first three and the probe.
  for (int i = 0; i < 4; ++i) BOOST_TEST(f.answer(0));
  BOOST_TEST(done_with(probe, {}));
  BOOST_TEST((f.submit("b").stage == check_stage::waiting));
}

// A server that greets and answers no call, as in CLIENT PAUSE WRITE, closed the circuit with every
// connection: a call in three waited in vain, and may have counted.
BOOST_AUTO_TEST_CASE(a_new_connection_lets_one_call_try_and_only_its_answer_closes_the_circuit) {
  fixture f({.timeout = 10ms, .breaker_failures = 3, .breaker_pause = 1h});
  f.line.connected();
  for (int i = 0; i < 3; ++i) f.submit("a");
  f.write();
  f.line.expire(f.now += 10ms);
  f.line.take_done();
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  for (int connection = 0; connection < 3; ++connection) {
    f.line.disconnected(error::outcome_unknown, 0, f.now);
    f.line.connected();
    auto& probe = f.submit("a");
    BOOST_TEST((probe.stage == check_stage::waiting));
    BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
    f.line.take_done();
    f.write();
    if (connection < 2) {
      f.line.expire(f.now += 10ms);
      BOOST_TEST(done_with(probe, error::no_reply));
    } else {
      BOOST_TEST(f.answer(0));
      BOOST_TEST(done_with(probe, {}));
    }
  }
  BOOST_TEST((f.submit("a").stage == check_stage::waiting));
}

// Leases that were released during an outage got circuit_open, and stayed taken with nobody in them
// until they lapsed: a gate was dead for 29 s after the server had stood still for one.
BOOST_AUTO_TEST_CASE(renewals_and_leaves_wait_although_the_circuit_is_open) {
  fixture f({.timeout = 10ms, .breaker_failures = 1, .breaker_pause = 100ms});
  f.line.connected();
  f.submit("a");
  f.write();
  f.line.expire(f.now += 10ms);
  f.line.take_done();
  BOOST_TEST_REQUIRE(done_with(f.submit("a"), error::circuit_open));
  for (const lease_act kind : {lease_act::renew, lease_act::leave}) {
    BOOST_TEST((f.submit("a", 7, kind, 30s).stage == check_stage::waiting));
  }
}

// Each call of one caller, and each of the first 20 calls of a limiter with on_failure::open,
// waited for 500 ms, although it was known that the server was gone.
BOOST_AUTO_TEST_CASE(calls_end_at_once_after_a_failed_attempt_to_connect) {
  fixture f({.timeout = 500ms});
  const auto ends = [&](fake_request kind) {
    const auto& c = f.submit("a", 7, kind);
    BOOST_TEST((!c.ec || c.ec == error::connection_refused));
    return c.stage == check_stage::done;
  };
  // Until the first attempt has failed, a connection may come.
  BOOST_TEST(!ends(check_kind::record));
  f.line.suspect(error::connection_refused);
  for (const check_kind kind : {check_kind::record, check_kind::fetch, check_kind::acquire,
                                check_kind::cool_down, check_kind::reset}) {
    BOOST_TEST(ends(kind));
  }
  for (const lease_act kind : {lease_act::renew, lease_act::leave}) BOOST_TEST(!ends(kind));
  f.line.connected();
  BOOST_TEST(!ends(check_kind::record));
  // Only one that cannot be made shows that the server is gone, not one that is lost.
  f.line.disconnected(error::outcome_unknown, 0, f.now);
  BOOST_TEST(!ends(check_kind::record));
  f.line.suspect(error::read_only);
  BOOST_TEST(!ends(check_kind::record));
}

// A caller that asks for the impossible must not shut out the others: neither with what was sent,
// ...
BOOST_AUTO_TEST_CASE(deadlines_shorter_than_the_way_to_the_server_open_no_circuit) {
  fixture f({.timeout = 500ms, .breaker_failures = 3});
  f.line.connected();
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 20; ++i) f.submit("a", 1, check_kind::record, 50us);
    f.write();
    f.line.expire(f.now += 50us);
    auto& other = f.submit("b");
    BOOST_TEST((other.stage == check_stage::waiting));
    f.line.take_done();
    f.write();
    f.now += 100ms;
    BOOST_TEST(f.answer(0));
    BOOST_TEST(f.answer(0));
    BOOST_TEST(done_with(other, {}));
  }
}

// ... nor with what never was.
BOOST_AUTO_TEST_CASE(calls_that_expire_before_an_idle_connection_takes_them_open_no_circuit) {
  fixture f({.timeout = 500ms, .breaker_failures = 3});
  f.line.connected();
  for (int i = 0; i < 100; ++i) {
    auto& c = f.submit("a", 1, check_kind::record, 1us);
    f.line.expire(f.now += 100ms);
    BOOST_TEST(done_with(c, error::timed_out));
    f.line.take_done();
  }
}

BOOST_AUTO_TEST_CASE(short_deadlines_find_a_silent_store_too) {
  for (const bool connected : {true, false}) {
    fixture f({.timeout = 500ms, .breaker_failures = 3});
    if (connected) f.line.connected();
    const auto start = f.now;
    error_code last;
    while (last != error::circuit_open) {
      auto& c = f.submit("a", 1, check_kind::record, 20ms);
      f.write();
      f.line.expire(f.now += 20ms);
      f.line.take_done();
      last = c.ec;
      BOOST_TEST_REQUIRE((f.now - start < 1s));
    }
    BOOST_TEST((f.now - start == 520ms));
  }
}

// A write that does not end is the store's doing: what waits behind it counts.
BOOST_AUTO_TEST_CASE(calls_that_wait_behind_a_stuck_write_open_the_circuit) {
  fixture f({.timeout = 10ms, .breaker_failures = 3});
  f.line.connected();
  f.submit("a", 1, check_kind::record, 1h);
  f.line.next_write();
  for (int i = 0; i < 3; ++i) f.submit("b");
  f.line.expire(f.now += 10ms);
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.line.take_done();
}

// An error reply is an answer, also one that lets the check wait.
BOOST_AUTO_TEST_CASE(a_loading_server_opens_no_circuit) {
  fixture f({.timeout = 30ms, .breaker_failures = 3});
  f.line.connected();
  for (int i = 0; i < 20; ++i) {
    auto& c = f.submit("a");
    f.write();
    f.feed("-LOADING Redis is loading the dataset in memory\r\n");
    f.line.expire(f.now += 30ms);
    BOOST_TEST(done_with(c, error::server_loading));
    f.line.take_done();
  }
}

// A server that is back at once has refused no call.
BOOST_AUTO_TEST_CASE(a_lost_connection_alone_opens_no_circuit) {
  fixture f({.max_keys_per_call = 1, .timeout = 500ms, .breaker_failures = 3});
  f.line.connected();
  for (int i = 0; i < 20; ++i) f.submit("s" + std::to_string(i));
  f.write();
  f.line.disconnected(error::outcome_unknown, npos, f.now);
  f.line.take_done();
  f.now += 100ms;
  auto& next = f.submit("a");
  BOOST_TEST((next.stage == check_stage::waiting));
  // But if it stays away, they were the first to get no answer.
  f.line.expire(f.now += 500ms);
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.line.take_done();
}

BOOST_AUTO_TEST_CASE(a_new_connection_closes_the_circuit) {
  fixture f({.timeout = 10ms, .breaker_failures = 1});
  f.submit("a");
  f.line.expire(f.now + 10ms);
  BOOST_TEST(done_with(f.submit("a"), error::circuit_open));
  f.line.take_done();
  f.line.connected();
  BOOST_TEST((f.submit("a").stage == check_stage::waiting));
}

BOOST_AUTO_TEST_CASE(failures_that_are_not_in_a_row_open_no_circuit) {
  fixture f({.timeout = 10ms, .breaker_failures = 2});
  f.line.connected();
  for (int i = 0; i < 10; ++i) {
    auto& lost = f.submit("a");
    f.write();
    f.line.expire(f.now += 10ms);
    f.line.take_done();
    BOOST_TEST(done_with(lost, error::no_reply));
    f.submit("a");
    f.write();
    f.answer(0);
    f.feed("-OOM command not allowed\r\n");  // an answer too
  }
}

// Answers without a caller that waited closed the circuit: the next calls met the same silence.
BOOST_AUTO_TEST_CASE(an_answer_later_than_the_timeout_heals_nothing) {
  fixture f({.timeout = 500ms, .breaker_failures = 3});
  f.line.connected();
  for (int i = 0; i < 3; ++i) {
    f.submit("a");
    f.write();
  }
  f.line.expire(f.now += 500ms);
  f.line.take_done();
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.now += 1ms;
  for (int i = 0; i < 3; ++i) BOOST_TEST(f.answer(0));
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.line.take_done();
}

BOOST_AUTO_TEST_CASE(an_answer_late_only_for_its_own_short_deadline_heals) {
  fixture f({.timeout = 500ms, .breaker_failures = 3, .breaker_pause = 100ms});
  f.line.connected();
  for (int i = 0; i < 3; ++i) {
    f.submit("a");
    f.write();
  }
  f.line.expire(f.now += 500ms);
  f.line.take_done();
  auto& probe = f.submit("b", 1, check_kind::record, 50ms);
  BOOST_TEST(done_with(probe, error::circuit_open));
  f.now += 100ms;
  auto& second = f.submit("b", 1, check_kind::record, 50ms);
  BOOST_TEST((second.stage == check_stage::waiting));
  f.write();
  f.line.expire(f.now += 50ms);
  BOOST_TEST(done_with(second, error::no_reply));
  f.line.take_done();
  for (int i = 0; i < 3; ++i) BOOST_TEST(f.answer(0));
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.now += 400ms;
  BOOST_TEST(f.answer(0));  // the probe's, 450 ms after it was sent
  BOOST_TEST((f.submit("b").stage == check_stage::waiting));
}

// Many calls expire at once in an overload: the answers that came meanwhile show that the store is
// there.
BOOST_AUTO_TEST_CASE(calls_that_expire_while_others_are_answered_open_no_circuit) {
  fixture f({.max_keys_per_call = 1, .timeout = 500ms, .breaker_failures = 3});
  f.line.connected();
  for (int i = 0; i < 100; ++i) f.submit("s" + std::to_string(i));
  f.write();
  f.now += 400ms;
  for (int i = 0; i < 10; ++i) BOOST_TEST(f.answer(0));
  f.line.expire(f.now += 100ms);
  BOOST_TEST((f.submit("b").stage == check_stage::waiting));
  f.line.take_done();
}

// A failure policy bridges an open circuit, and does not apply to a full line.
BOOST_AUTO_TEST_CASE(a_full_line_does_not_hide_an_open_circuit) {
  fixture f({.max_pending = 3, .timeout = 10ms, .breaker_failures = 1, .breaker_pause = 100ms});
  f.line.connected();
  for (int i = 0; i < 3; ++i) f.submit("a", 1, check_kind::record, i == 0 ? 10ms : 1h);
  BOOST_TEST(done_with(f.submit("b"), error::overloaded));
  f.write();
  f.line.expire(f.now += 10ms);
  f.submit("a", 1, check_kind::record, 1h);
  for (int i = 0; i < 3; ++i) BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.line.take_done();
}

// A call that was turned away as too large for the line spent the probe, and the circuit stayed
// open for another pause.
BOOST_AUTO_TEST_CASE(an_open_circuit_keeps_its_probe_for_a_call_that_fits) {
  fixture f({.max_pending = 3, .timeout = 10ms, .breaker_failures = 1, .breaker_pause = 100ms});
  const std::string long_subject(1500, 's');  // counts for two
  f.submit("a", 1, check_kind::record, 10ms);
  f.submit(long_subject, 1, check_kind::record, 1h);
  f.line.expire(f.now += 10ms);
  f.now += 100ms;
  BOOST_TEST(done_with(f.submit(long_subject), error::circuit_open));
  auto& probe = f.submit("b");
  BOOST_TEST((probe.stage == check_stage::waiting));
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.line.take_done();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_circuit_test

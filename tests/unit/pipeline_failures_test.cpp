// What the pipeline makes of lost connections, refusals and a server that does not answer.
#include "net/pipeline.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "pipeline_fixture.hpp"

using namespace std::chrono_literals;
using namespace weir::net::test;
using weir::error;
using weir::detail::check_kind;
using weir::detail::check_stage;

BOOST_AUTO_TEST_SUITE(pipeline_failures_suite)

BOOST_FIXTURE_TEST_CASE(a_lost_connection_fails_what_was_sent_and_keeps_what_was_not,
                        connected_fixture) {
  auto& sent = submit("a");
  write();
  auto& waits = submit("b");
  line.disconnected(error::outcome_unknown, npos, now);
  BOOST_TEST(done_with(sent, error::outcome_unknown));
  line.take_done();
  BOOST_TEST((waits.stage == check_stage::waiting));
  BOOST_TEST(line.next_write(now).empty());
  line.connected();
  const std::string out = write();
  BOOST_TEST(count_of(out, "weir:{r:b}:f") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:a}:f") == 0u);
}

// With a network error after every byte of a write: calls that did not leave whole are sent again, in order; the others
// are not.
BOOST_AUTO_TEST_CASE(a_write_cut_at_any_byte_loses_and_repeats_nothing) {
  for (std::size_t cut = 0;; ++cut) {
    fixture f({.max_keys_per_call = 1});
    f.line.connected();
    for (const char* s : {"a", "b", "c"}) f.submit(s);
    const std::string first = f.line.next_write(f.now);
    if (cut > first.size()) break;
    f.line.disconnected(error::outcome_unknown, cut, f.now);
    f.line.take_done();
    f.line.connected();
    const std::string second = f.write();
    std::size_t failed = 0;
    for (const auto& c : f.checks) {
      const std::string key = "weir:{r:" + std::string(c.subject.view()) + "}:f";
      const bool gone = done_with(c, error::outcome_unknown);
      failed += gone;
      BOOST_TEST_REQUIRE(count_of(second, key) == (gone ? 0u : 1u));
    }
    // The calls are of equal length.
    BOOST_TEST_REQUIRE(failed == cut / (first.size() / 3));
    BOOST_TEST_REQUIRE(first.ends_with(second));
  }
}

BOOST_FIXTURE_TEST_CASE(a_missing_script_is_loaded_and_only_its_checks_are_sent_again,
                        connected_fixture) {
  submit("a");
  write();
  submit("b");
  write();
  BOOST_TEST(feed("-NOSCRIPT No matching script. Please use EVAL.\r\n"));
  BOOST_TEST((checks[0].stage == check_stage::waiting));
  BOOST_TEST(line.wants_write());
  BOOST_TEST(feed("-NOSCRIPT No matching script. Please use EVAL.\r\n"));
  const std::string out = write();
  BOOST_TEST(count_of(out, "LOAD") == 1u);
  BOOST_TEST((out.find("LOAD") < out.find("EVALSHA")));
  BOOST_TEST((out.find("weir:{r:a}:f") < out.find("weir:{r:b}:f")));
  BOOST_TEST(feed("$40\r\n" + std::string(40, 'a') + "\r\n"));
  BOOST_TEST(feed("*5\r\n:5000000\r\n:0\r\n:0\r\n:0\r\n:0\r\n"));
  BOOST_TEST(done_with(checks[0], {}));
  BOOST_TEST(done_with(checks[1], {}));
}

BOOST_FIXTURE_TEST_CASE(a_script_that_stays_missing_is_an_error_in_the_end, connected_fixture) {
  auto& c = submit("a");
  int writes = 0;
  while (c.stage != check_stage::done && writes < 10) {
    const std::string out = write();
    ++writes;
    if (count_of(out, "LOAD") == 1) feed("-NOPERM no\r\n");
    feed("-NOSCRIPT No matching script.\r\n");
  }
  BOOST_TEST(done_with(c, error::script_missing));
  BOOST_TEST(writes == 3);
}

BOOST_FIXTURE_TEST_CASE(an_error_reply_fails_only_its_own_call, connected_fixture) {
  auto& bad = submit("a");
  write();
  auto& good = submit("b");
  write();
  BOOST_TEST(feed("-OOM command not allowed when used memory > 'maxmemory'.\r\n"));
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(bad, error::out_of_memory));
  BOOST_TEST(done_with(good, {}));
}

// Nothing ran, so it may be sent again: patience within the deadline, and if that passes, the server's own reason.
BOOST_FIXTURE_TEST_CASE(a_loading_or_busy_server_is_asked_again_after_a_pause, connected_fixture) {
  for (const auto& [reply, reason] :
       {std::pair{"-LOADING Redis is loading the dataset in memory\r\n", error::server_loading},
        std::pair{"-BUSY Redis is busy running a script.\r\n", error::server_busy}}) {
    auto& patient = submit("a");
    auto& hasty = submit("b", 1, check_kind::record, 5ms);
    write();
    BOOST_TEST(feed(reply));
    BOOST_TEST((last_state == stream_state::good));
    BOOST_TEST((patient.stage == check_stage::waiting));
    BOOST_TEST(write().empty());
    BOOST_TEST(!line.wants_write());
    now += 5ms;
    line.expire(now);
    BOOST_TEST(done_with(hasty, reason));
    line.take_done();
    BOOST_TEST_REQUIRE((line.wakeup() > now && line.wakeup() < now + 400ms));
    now = line.wakeup();
    line.expire(now);
    BOOST_TEST(line.wants_write());
    BOOST_TEST(count_of(write(), "weir:{r:a}:f") == 1u);
    BOOST_TEST(answer(0));
    BOOST_TEST(done_with(patient, {}));
  }
}

BOOST_FIXTURE_TEST_CASE(a_replica_makes_for_a_new_connection_once_no_reply_is_due,
                        connected_fixture) {
  submit("a");
  write();
  submit("b");
  write();
  feed("-READONLY You can't write against a read only replica.\r\n");
  BOOST_TEST((last_state == stream_state::good));
  feed("-READONLY You can't write against a read only replica.\r\n");
  BOOST_TEST((last_state == stream_state::unwelcome));
  line.disconnected(error::outcome_unknown, npos, now);
  BOOST_TEST(line.take_done().empty());
  line.connected();
  const std::string out = write();
  BOOST_TEST((out.find("weir:{r:a}:f") < out.find("weir:{r:b}:f")));
}

BOOST_FIXTURE_TEST_CASE(a_foreign_value_fails_only_its_own_key, connected_fixture) {
  auto& bad = submit("a");
  auto& good = submit("b");
  write();
  BOOST_TEST(feed("*5\r\n:5000000\r\n:-1\r\n:0\r\n:4000000\r\n:1\r\n"));
  BOOST_TEST(done_with(bad, error::wrong_type));
  BOOST_TEST(good.answer.used == 2);
}

BOOST_FIXTURE_TEST_CASE(a_reply_of_another_shape_fails_its_call_and_no_other, connected_fixture) {
  for (const char* shape : {"+OK\r\n", "$-1\r\n", "*0\r\n", "*2\r\n:1\r\n:2\r\n", ":1\r\n",
                            "*3\r\n:-5\r\n:1\r\n:1\r\n", "*3\r\n:5\r\n$1\r\na\r\n:1\r\n"}) {
    auto& c = submit("a");
    write();
    BOOST_TEST(feed(shape));
    BOOST_TEST(done_with(c, error::protocol_error));
  }
  auto& next = submit("b");
  write();
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(next, {}));
}

BOOST_FIXTURE_TEST_CASE(a_reply_nobody_asked_for_breaks_the_stream, connected_fixture) {
  BOOST_TEST(feed(">2\r\n+invalidate\r\n*0\r\n"));  // a push is no reply
  BOOST_TEST(!feed("+OK\r\n"));
}

BOOST_FIXTURE_TEST_CASE(garbage_breaks_the_stream, connected_fixture) {
  submit("a");
  write();
  BOOST_TEST(!feed("HTTP/1.1 400 Bad Request\r\n"));
}

BOOST_FIXTURE_TEST_CASE(a_refusal_ends_what_waits_and_turns_away_what_comes_until_connected,
                        fixture) {
  auto& waiting = submit("a");
  line.refused(error::authentication_failed);
  BOOST_TEST(done_with(waiting, error::authentication_failed));
  BOOST_TEST(done_with(submit("b"), error::authentication_failed));
  line.take_done();
  line.connected();
  BOOST_TEST((submit("c").stage == check_stage::waiting));
}

BOOST_AUTO_TEST_CASE(the_circuit_opens_after_failures_in_a_row_and_one_probe_at_a_time_tries) {
  fixture f({.timeout = 10ms, .breaker_failures = 3, .breaker_pause = 100ms});
  f.line.connected();
  const auto fail_one = [&] {
    auto& c = f.submit("a");
    f.write();
    f.now += 10ms;
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

// One who asks for the impossible must not shut out the others: neither with what was sent, ...
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
    weir::error_code last;
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
  f.line.next_write(f.now);
  for (int i = 0; i < 3; ++i) f.submit("b");
  f.line.expire(f.now += 10ms);
  BOOST_TEST(done_with(f.submit("b"), error::circuit_open));
  f.line.take_done();
}

// A server that is back at once has turned nobody away.
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

BOOST_FIXTURE_TEST_CASE(closing_tells_the_sent_from_the_unsent, connected_fixture) {
  auto& sent = submit("a");
  write();
  auto& waits = submit("b");
  line.close();
  BOOST_TEST(done_with(sent, error::outcome_unknown));
  BOOST_TEST(done_with(waits, error::store_closed));
  BOOST_TEST(done_with(submit("c"), error::store_closed));
  line.take_done();
  line.connected();
  BOOST_TEST(done_with(submit("d"), error::store_closed));
  line.take_done();
}

BOOST_AUTO_TEST_SUITE_END()

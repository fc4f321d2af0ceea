// What the pipeline makes of lost connections, refusals and a server that does not answer.
#include "redis/pipeline.hpp"

#include "pipeline_fixture.hpp"
#include "support/test.hpp"

namespace pipeline_failures_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_kind;
using weir::detail::check_stage;

BOOST_AUTO_TEST_SUITE(pipeline_failures_suite)

BOOST_FIXTURE_TEST_CASE(what_was_in_line_before_goes_first_on_the_next_connection,
                        connected_fixture) {
  submit("a");
  line.next_write();
  submit("b");
  line.disconnected(error::outcome_unknown, 0, now);
  submit("c");
  line.connected();
  const std::string out = write();
  BOOST_TEST((out.find("weir:{r:a}:f") < out.find("weir:{r:b}:f")));
  BOOST_TEST((out.find("weir:{r:b}:f") < out.find("weir:{r:c}:f")));
}

// Checks that travelled together and come back have new places: the first of them may be gone.
BOOST_FIXTURE_TEST_CASE(checks_sent_again_are_answered_by_their_new_places, connected_fixture) {
  for (int i = 0; i < 3; ++i) submit("hot");
  line.next_write();
  line.cancel(checks[0], weir::detail::cancel_scope::any);
  line.take_done();
  line.disconnected(error::outcome_unknown, 0, now);
  line.connected();
  write();
  BOOST_TEST(answer(1));
  BOOST_TEST(checks[1].answer.used == 2);
  BOOST_TEST(checks[2].answer.used == 3);
}

// With a network error after every byte of a write: calls that did not leave whole are sent again,
// in order; the others are not.
BOOST_AUTO_TEST_CASE(a_write_cut_at_any_byte_loses_and_repeats_nothing) {
  for (std::size_t cut = 0;; ++cut) {
    fixture f({.max_keys_per_call = 1});
    f.line.connected();
    for (const char* s : {"a", "b", "c"}) f.submit(s);
    const std::string first = f.line.next_write();
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

// Nothing ran, so it may be sent again: patience within the deadline, and if that passes, the
// server's own reason.
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
    auto& unsent = submit("c", 1, check_kind::record, 5ms);
    line.ping();
    BOOST_TEST(write() == "*1\r\n$4\r\nPING\r\n");
    BOOST_TEST(feed("+PONG\r\n"));
    now += 5ms;
    line.expire(now);
    BOOST_TEST(done_with(hasty, reason));
    BOOST_TEST(done_with(unsent, reason));
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

// The answer came after its deadline: it ended with no_reply, as if it could have counted.
BOOST_FIXTURE_TEST_CASE(a_check_that_came_back_is_not_sent_again_right_before_its_deadline,
                        connected_fixture) {
  auto& late = submit("a", 1, check_kind::record, 39ms);
  auto& in_time = submit("b", 1, check_kind::record, 41ms);
  auto& late_too = submit("b", 1, check_kind::record, 39ms);  // like the one in front of it
  write();
  submit("d");
  write();
  BOOST_TEST(feed("-BUSY Redis is busy running a script.\r\n"));
  // The second reply makes the pause longer, for the first one's checks, too.
  now += 5ms;
  BOOST_TEST(feed("-BUSY Redis is busy running a script.\r\n"));
  now = line.wakeup();
  line.expire(now);
  auto& fresh = submit("c", 1, check_kind::record, 1ms);
  const std::string out = write();
  BOOST_TEST(count_of(out, "weir:{r:a}:f") == 0u);
  BOOST_TEST(count_of(out, "weir:{r:b}:f") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:c}:f") == 1u);
  BOOST_TEST(feed(window_reply({{4'000'000, 0}, {4'000'000, 0}, {4'000'000, 0}})));
  BOOST_TEST(done_with(in_time, {}));
  BOOST_TEST(done_with(fresh, {}));
  BOOST_TEST(!line.wants_write());
  now += 9ms;
  line.expire(now);
  for (const fake_check* c : {&late, &late_too}) BOOST_TEST(done_with(*c, error::server_busy));
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
  feed(window_reply({{}, {}}));
  BOOST_TEST((last_state == stream_state::good));
}

BOOST_FIXTURE_TEST_CASE(a_foreign_value_fails_only_its_own_key, connected_fixture) {
  auto& bad = submit("a");
  auto& good = submit("b");
  write();
  BOOST_TEST(feed(window_reply({{-1, 0}, {4'000'000, 1}})));
  BOOST_TEST(done_with(bad, error::wrong_type));
  BOOST_TEST(good.answer.used == 2);
}

// If it is not the reply that is due, then it is not known whose the next ones are: they once went
// to the wrong callers.
BOOST_FIXTURE_TEST_CASE(a_reply_of_another_shape_breaks_the_stream, connected_fixture) {
  for (const char* shape :
       {"+OK\r\n", "$-1\r\n", "*0\r\n", "*2\r\n:1\r\n:2\r\n", ":1\r\n",
        "*4\r\n:-5\r\n:1\r\n:1\r\n:0\r\n", "*2\r\n:5\r\n*3\r\n:1\r\n:1\r\n:0\r\n",
        "*3\r\n:5\r\n:1\r\n:1\r\n", "*5\r\n:5\r\n:1\r\n:1\r\n:0\r\n:0\r\n",
        "*4\r\n:5\r\n$1\r\na\r\n:1\r\n:0\r\n"}) {
    auto& c = submit("a");
    write();
    auto& next = submit("b");
    write();
    BOOST_TEST(!feed(shape + window_reply({{4'000'000, 1}})));
    BOOST_TEST(done_with(c, error::protocol_error));
    BOOST_TEST((next.stage == check_stage::sent));
    line.disconnected(error::protocol_error, 0, now);
    BOOST_TEST(done_with(next, error::protocol_error));
    line.take_done();
    reader.clear();
    line.connected();
  }
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
  line.connected();
  auto& back_in_line = submit("x");
  line.next_write();
  line.disconnected(error::outcome_unknown, 0, now);
  auto& waiting = submit("a");
  line.refused(error::authentication_failed);
  BOOST_TEST(done_with(waiting, error::authentication_failed));
  BOOST_TEST(done_with(back_in_line, error::authentication_failed));
  BOOST_TEST(done_with(submit("b"), error::authentication_failed));
  line.take_done();
  line.connected();
  BOOST_TEST((submit("c").stage == check_stage::waiting));
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

// A gateway took CROSSSLOT for a reply like any other, and let everything through. No error reply
// allows anybody, nor does it end the connection for the others.
BOOST_AUTO_TEST_CASE(an_error_reply_allows_nobody) {
  const struct {
    std::string_view reply;
    error told;
  } replies[] = {
      {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", error::server_is_cluster},
      {"-MOVED 3999 127.0.0.1:6381\r\n", error::server_is_cluster},
      {"-CLUSTERDOWN Hash slot not served\r\n", error::server_is_cluster},
      {"-WRONGTYPE Operation against a key\r\n", error::wrong_type},
      {"-OOM command not allowed\r\n", error::out_of_memory},
      {"-MISCONF Redis is configured to save RDB snapshots\r\n", error::server_misconfigured},
      {"-ERR whatever\r\n", error::server_error}};
  for (const auto& [reply, told] : replies) {
    BOOST_TEST_CONTEXT(reply) {
      connected_fixture f;
      for (const char* s : {"a", "b", "b"}) f.submit(s);  // of two keys, and one of them twice
      f.submit("a", 1, check_kind::fetch);
      f.submit("a", 1, check_kind::acquire);
      f.checks.emplace_back(
          f.core, "a", 1, check_kind::record, 0us,
          std::vector<weir::detail::term>{{f.core, weir::detail::short_text("b"), 1}});
      f.line.submit(f.checks.back(), f.now);
      f.write();
      while (f.line.replies_due() > 0) BOOST_TEST(f.feed(reply));
      for (const fake_check& c : f.checks) {
        BOOST_TEST(done_with(c, told));
        BOOST_TEST(!c.answer.allowed);
        BOOST_TEST((c.ec == condition::not_counted));
      }
      auto& next = f.submit("c");
      f.write();
      BOOST_TEST(f.answer(0));
      BOOST_TEST(done_with(next, {}));
      BOOST_TEST(next.answer.allowed);
    }
  }
}

// An address that had just answered counted as one that does not serve: another was tried.
BOOST_FIXTURE_TEST_CASE(a_connection_that_is_left_has_served_once_an_answer_comes,
                        connected_fixture) {
  submit("a");
  write();
  line.leave();
  BOOST_TEST(answer(0));
  BOOST_TEST(line.has_served());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pipeline_failures_test

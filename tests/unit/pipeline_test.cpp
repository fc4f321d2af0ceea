// The pipeline without sockets: what is written, what comes back, and what each caller gets for it.
#include "net/pipeline.hpp"

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <random>
#include <string>

#include "support/fake_check.hpp"

namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::detail::cancel_scope;
using weir::detail::check_kind;
using weir::detail::check_stage;
using weir::net::pipeline;
using weir::test::fake_check;
using stream_state = pipeline::stream_state;
using time = pipeline::time;

constexpr std::size_t npos = static_cast<std::size_t>(-1);

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

struct fixture {
  explicit fixture(pipeline::options o = {}) : line(o) {}

  // A fixed window of 3: a reply is now, then start and count of each key.
  weir::test::core_ptr core =
      weir::test::make_core("r", weir::fixed_window{.limit = 3, .window = 10s});
  std::deque<fake_check> checks;
  pipeline line;
  time now = time(1000h);
  weir::redis::reply_reader reader;
  stream_state last_state = stream_state::good;

  ~fixture() { line.abandon().clear(); }

  fake_check& submit(std::string_view subject, std::int64_t cost = 1,
                     check_kind kind = check_kind::record, std::chrono::microseconds timeout = 0us) {
    fake_check& c = checks.emplace_back(core, subject, cost, kind, timeout);
    line.submit(c, now);
    return c;
  }
  std::string write() {
    std::string out = line.next_write(now);
    if (!out.empty()) line.write_done();
    return out;
  }
  bool feed(std::string_view bytes) {
    const auto room = reader.prepare(bytes.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    reader.commit(bytes.size());
    last_state = line.consume(reader, now);
    line.take_done();
    return last_state != stream_state::broken;
  }
  bool answer(std::int64_t count) {
    return feed("*3\r\n:5000000\r\n:4000000\r\n:" + std::to_string(count) + "\r\n");
  }
};

struct connected_fixture : fixture {
  connected_fixture() { line.connected(); }
};

bool done_with(const fake_check& c, weir::error_code ec) {
  return c.stage == check_stage::done && c.ec == ec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipeline_suite)

BOOST_FIXTURE_TEST_CASE(nothing_is_written_before_the_connection_is_up, fixture) {
  auto& c = submit("a");
  BOOST_TEST(line.next_write(now).empty());
  BOOST_TEST((c.stage == check_stage::waiting));
  line.connected();
  BOOST_TEST(!line.next_write(now).empty());
  BOOST_TEST((c.stage == check_stage::staged));
  line.write_done();
  BOOST_TEST((c.stage == check_stage::written));
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
  BOOST_TEST(!line.next_write(now).empty());
  submit("b");
  submit("c");
  BOOST_TEST(line.next_write(now).empty());
  line.write_done();
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:b}:f") == 1u);
  BOOST_TEST(count_of(out, "weir:{r:c}:f") == 1u);
}

BOOST_FIXTURE_TEST_CASE(equal_checks_travel_with_a_count_and_are_answered_in_order,
                        connected_fixture) {
  for (int i = 0; i < 5; ++i) submit("hot");
  const std::string out = write();
  BOOST_TEST(count_of(out, "weir:{r:hot}:f") == 1u);
  BOOST_TEST(answer(1));
  for (int i = 0; i < 5; ++i) {
    BOOST_TEST(done_with(checks[i], {}));
    BOOST_TEST(checks[i].answer.allowed == (i < 2));
    BOOST_TEST(checks[i].answer.used == std::min(2 + i, 3));
  }
}

BOOST_FIXTURE_TEST_CASE(a_cancelled_check_keeps_its_place_among_its_equals, connected_fixture) {
  for (int i = 0; i < 3; ++i) submit("hot");
  write();
  line.cancel(checks[0], cancel_scope::any);
  line.take_done();
  BOOST_TEST(done_with(checks[0], boost::asio::error::operation_aborted));
  BOOST_TEST(answer(1));
  // The server counted three from one: the second of them filled the window.
  BOOST_TEST(checks[1].answer.allowed);
  BOOST_TEST(checks[1].answer.used == 3);
  BOOST_TEST(!checks[2].answer.allowed);
}

BOOST_FIXTURE_TEST_CASE(a_cancelled_call_keeps_its_replys_place, connected_fixture) {
  auto& first = submit("a");
  write();
  auto& second = submit("b");
  write();
  line.cancel(first, cancel_scope::any);
  BOOST_TEST(line.replies_due() == 2u);
  BOOST_TEST(answer(0));
  BOOST_TEST((second.stage == check_stage::written));
  BOOST_TEST(answer(2));
  BOOST_TEST(second.answer.used == 3);
}

BOOST_FIXTURE_TEST_CASE(a_check_cancelled_while_waiting_is_never_sent, fixture) {
  auto& c = submit("a");
  line.cancel(c, cancel_scope::only_unsent);
  BOOST_TEST(done_with(c, boost::asio::error::operation_aborted));
  line.take_done();
  line.connected();
  BOOST_TEST(line.next_write(now).empty());
}

BOOST_FIXTURE_TEST_CASE(total_cancellation_leaves_alone_what_was_sent, connected_fixture) {
  auto& c = submit("a");
  line.next_write(now);
  line.cancel(c, cancel_scope::only_unsent);
  BOOST_TEST((c.stage == check_stage::staged));
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

BOOST_FIXTURE_TEST_CASE(costs_of_one_key_are_never_reordered, connected_fixture) {
  submit("k", 1);
  submit("k", 2);
  submit("k", 1);
  const std::string out = write();
  BOOST_TEST(count_of(out, "EVALSHA") == 3u);
  BOOST_TEST(answer(0));
  BOOST_TEST(answer(1));
  BOOST_TEST(answer(3));
  BOOST_TEST(checks[0].answer.used == 1);
  BOOST_TEST(checks[1].answer.used == 3);
  BOOST_TEST(!checks[2].answer.allowed);
}

BOOST_FIXTURE_TEST_CASE(keys_of_one_limiter_share_a_call_up_to_the_bound, fixture) {
  line.connected();
  for (int i = 0; i < 130; ++i) submit("s" + std::to_string(i));
  BOOST_TEST(count_of(write(), "EVALSHA") == 3u);
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
  BOOST_TEST((c.ec == weir::condition::not_counted));
}

BOOST_FIXTURE_TEST_CASE(the_deadline_of_a_sent_check_says_that_it_may_have_counted,
                        connected_fixture) {
  auto& c = submit("a", 1, check_kind::record, 10ms);
  auto& other = submit("b", 1, check_kind::record, 50ms);
  write();
  line.expire(now + 10ms);
  BOOST_TEST(done_with(c, error::no_reply));
  BOOST_TEST((c.ec == weir::condition::may_have_counted));
  line.take_done();
  BOOST_TEST(feed("*5\r\n:5000000\r\n:0\r\n:0\r\n:4000000\r\n:1\r\n"));
  BOOST_TEST(other.answer.used == 2);
}

BOOST_FIXTURE_TEST_CASE(an_absurd_timeout_does_not_overflow, fixture) {
  auto& c = submit("a", 1, check_kind::record, std::chrono::microseconds::max());
  line.expire(now + 1h);
  BOOST_TEST((c.stage == check_stage::waiting));
}

BOOST_AUTO_TEST_CASE(a_full_line_turns_the_next_away_at_once) {
  fixture f({.max_pending = 2});
  f.submit("a");
  f.submit("b");
  auto& c = f.submit("c");
  BOOST_TEST(done_with(c, error::overloaded));
  f.line.take_done();
  f.line.cancel(f.checks[0], cancel_scope::any);
  f.line.take_done();
  BOOST_TEST((f.submit("d").stage == check_stage::waiting));
}

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

BOOST_FIXTURE_TEST_CASE(a_ping_takes_a_place_and_nobody_waits_for_it, connected_fixture) {
  line.ping();
  BOOST_TEST(write() == "*1\r\n$4\r\nPING\r\n");
  auto& c = submit("a");
  write();
  BOOST_TEST(feed("+PONG\r\n"));
  BOOST_TEST((c.stage == check_stage::written));
  BOOST_TEST(answer(0));
  BOOST_TEST(done_with(c, {}));
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

// The count-many result equals running the checks one after the other, whatever joins, leaves and expires meanwhile.
BOOST_AUTO_TEST_CASE(coalesced_equals_one_by_one) {
  const unsigned seed = std::random_device{}();
  BOOST_TEST_CONTEXT("seed " << seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 2000; ++round) {
      fixture f;
      f.line.connected();
      const auto& kernel = std::get<weir::policies::fixed_window>(f.core->kernel);
      weir::policies::fixed_window::state state{4'000'000, static_cast<std::int64_t>(random() % 4)};
      if (state.count == 0) state.start = 0;
      const auto before = state;
      const int n = 1 + static_cast<int>(random() % 8);
      std::vector<weir::decision> expected;
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
      f.feed("*3\r\n:5000000\r\n:" + std::to_string(before.start) + "\r\n:" +
             std::to_string(before.count) + "\r\n");
      for (std::size_t i = 0; i < dropped.size(); ++i) {
        if (!dropped[i]) BOOST_TEST_REQUIRE((f.checks[i].answer == expected[i]));
      }
      BOOST_TEST_REQUIRE(f.line.pending() == 0u);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

// What callers get of a server that is asked for more than it can do: simulated time, no sockets.
#include "pipeline_fixture.hpp"
#include "slow_server.hpp"
#include "support/sanitized.hpp"

namespace overload_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_kind;
using weir::detail::check_stage;
using tally = slow_server_stage::tally;
using moment = slow_server_stage::time;

struct slowness {
  const char* name;
  slow_server_stage::speed how;
  double rate = 1000;  // keys a second
  std::chrono::nanoseconds round_trip = 200us;
};

// Each does a hundredth of what it could, or a little more.
const slowness hundredth[] = {
    {"slow all the time", {.per_key = 1ms}},
    {"runs 1 ms of 100", {.per_key = 10us, .runs = 1ms, .period = 100ms}},
    {"runs 1 ms of 100, at times not at all",
     {.per_key = 5us, .runs = 1ms, .period = 100ms, .skips = 30}},
    {"runs 100 us of 10 ms", {.per_key = 10us, .runs = 100us, .period = 10ms}},
    {"runs 2 ms of 100, not much longer than a round trip",
     {.per_key = 2us, .runs = 2ms, .period = 100ms},
     8500,
     1200us},
};
constexpr slow_server_stage::speed healthy{.per_key = 10us};
constexpr auto start_time = 1s, test_time = 3s;  // at first, little is under way

tally minus(const tally& a, const tally& b) {
  return {a.asked - b.asked, a.executed - b.executed, a.in_time - b.in_time, a.unsent - b.unsent,
          a.refused - b.refused};
}

/// So many callers, each of which asks again as soon as it has heard.
tally closed_loop(slow_server_stage& s, std::size_t callers, moment end) {
  const tally before = s.counts;
  std::size_t wanted = callers;
  s.on_done = [&] { ++wanted; };
  const auto ask = [&] {
    for (; wanted > 0; --wanted) s.ask();
    // A caller whose call failed at once does not try again at once.
    return s.now() + 1ms;
  };
  s.run(end, ask);
  s.on_done = [] {};
  return minus(s.counts, before);
}

tally open_loop(slow_server_stage& s, double per_second, moment end) {
  const tally before = s.counts;
  double owed = 0;
  s.run(end, [&] {
    for (owed += per_second / 1000; owed >= 1; --owed) s.ask();
    return s.now() + 1ms;
  });
  return minus(s.counts, before);
}

void show(const char* what, double load, const tally& t) {
  BOOST_TEST_MESSAGE(what << ", load " << load << ": asked " << t.asked << ", executed "
                          << t.executed << ", in time " << t.in_time << ", unsent " << t.unsent
                          << ", refused " << t.refused);
}

/// The server has taken 100 ms for each of its last answers.
struct slow_fixture : connected_fixture {
  slow_fixture() {
    for (int i = 0; i < 300; ++i) {
      submit("before");
      write();
      now += 100ms;
      answer(0);
    }
  }
};

BOOST_AUTO_TEST_SUITE(overload_suite)

// A server that got 1 % of its time executed 13,132 checks in 12 s, and the callers got none.
BOOST_AUTO_TEST_CASE(a_slow_server_works_for_callers_that_still_wait) {
  for (const slowness& slow : hundredth) {
    BOOST_TEST_CONTEXT(slow.name) {
      // What it can do: callers that do not give up.
      slow_server_stage calm({.timeout = 50s}, slow.round_trip);
      calm.server = slow.how;
      const tally most = closed_loop(calm, static_cast<std::size_t>(slow.rate * 0.3),
                                     calm.now() + test_time);
      show(slow.name, 0, most);
      BOOST_TEST(most.in_time > 0.8 * slow.rate * 3);
      for (const double load : {1.0, 3.0, 10.0, slow.rate > 1000 ? 20.0 : 50.0}) {
        if (is_sanitized && load > 3) continue;
        for (const bool open : {true, false}) {
          BOOST_TEST_CONTEXT((open ? "open loop, " : "closed loop, ") << load) {
            slow_server_stage s({.max_pending = 1'000'000, .breaker_failures = 20},
                                slow.round_trip);
            s.server = slow.how;
            const auto run = [&](std::chrono::seconds length) {
              const auto end = s.now() + length;
              return open ? open_loop(s, load * slow.rate, end)
                          : closed_loop(s, static_cast<std::size_t>(load * slow.rate / 2), end);
            };
            run(start_time);
            const tally t = run(test_time);
            show(open ? "  open" : "  closed", load, t);
            BOOST_TEST(static_cast<double>(t.in_time) >= 0.8 * static_cast<double>(most.executed));
            BOOST_TEST(static_cast<double>(t.in_time) >= 0.8 * static_cast<double>(t.executed));
          }
        }
      }
    }
  }
}

// With timers that were some milliseconds late, all round trips looked short, and no call was
// answered in time.
BOOST_AUTO_TEST_CASE(a_busy_process_sees_that_its_server_is_slow) {
  for (const auto busy : {3ms, 7ms, 13ms}) {
    BOOST_TEST_CONTEXT("a round takes " << busy.count() << " ms") {
      slow_server_stage s({.max_pending = 1'000'000, .breaker_failures = 20}, 200us);
      s.server = hundredth[0].how;
      s.busy = busy;
      const tally t = open_loop(s, 20'000, s.now() + test_time);
      show("busy", 20, t);
      BOOST_TEST(static_cast<double>(t.in_time) >= 0.7 * hundredth[0].rate * 3);
      BOOST_TEST(static_cast<double>(t.in_time) >= 0.8 * static_cast<double>(t.executed));
    }
  }
}

// The load is half of what the healthy server can do, and 50 times what the slow one can.
BOOST_AUTO_TEST_CASE(a_server_that_becomes_slow_and_fast_again) {
  for (const slowness& slow : hundredth) {
    if (is_sanitized && &slow - hundredth >= 2) break;
    BOOST_TEST_CONTEXT(slow.name) {
      slow_server_stage s({.max_pending = 1'000'000, .breaker_failures = 20}, slow.round_trip);
      const tally before = open_loop(s, 50'000, s.now() + 1s);
      show("healthy", 50, before);
      BOOST_TEST(before.in_time + 1000 > before.asked);
      s.server = slow.how;
      // What is under way when it becomes slow takes it most of a second.
      show("becoming slow", 50, open_loop(s, 50'000, s.now() + 1s));
      const tally during = open_loop(s, 50'000, s.now() + 12s);
      show(slow.name, 50, during);
      BOOST_TEST(static_cast<double>(during.in_time) >= 0.8 * slow.rate * 12);
      BOOST_TEST(static_cast<double>(during.in_time) >= 0.8 * static_cast<double>(during.executed));
      s.server = healthy;
      const tally recovering = open_loop(s, 50'000, s.now() + 1s);
      show("healthy again", 50, recovering);
      const tally after = open_loop(s, 50'000, s.now() + 1s);
      show("a second later", 50, after);
      BOOST_TEST(after.in_time + 1000 > after.asked);
    }
  }
}

// All that waited had too little time left, so nothing was sent, and no answer came to say that the
// server was well again: 3,000 calls a second got nothing for seconds. Over a long way, one call a
// round trip was let through for 11 s.
BOOST_AUTO_TEST_CASE(a_server_that_stalled_once_is_asked_at_full_rate_again) {
  struct scene {
    std::chrono::milliseconds round_trip;
    double per_second;
    std::chrono::milliseconds stall;
  };
  for (const scene& c : {scene{1ms, 3000, 700ms}, scene{1ms, 5000, 520ms}, scene{5ms, 3000, 700ms},
                         scene{1ms, 20'000, 700ms}, scene{50ms, 1000, 700ms}}) {
    BOOST_TEST_CONTEXT(c.per_second << "/s, " << c.round_trip.count() << " ms") {
      slow_server_stage s({}, c.round_trip);
      open_loop(s, c.per_second, s.now() + 1s);
      s.stall(c.stall);
      show("stalled", c.per_second, open_loop(s, c.per_second, s.now() + c.stall + 1500ms));
      const tally after = open_loop(s, c.per_second, s.now() + 1s);
      show("after", c.per_second, after);
      BOOST_TEST(static_cast<double>(after.in_time) >= 0.95 * static_cast<double>(after.asked));
    }
  }
}

// Under load no call was alone, so the longer round trip was never learned: the answers were too
// slow for the window to grow, and most calls failed for ever.
BOOST_AUTO_TEST_CASE(a_way_that_gets_longer_is_learned_under_load) {
  struct scene {
    double per_second;
    std::chrono::milliseconds round_trip;
  };
  for (const scene& c : {scene{10'000, 60ms}, scene{20'000, 30ms}, scene{3000, 300ms}}) {
    BOOST_TEST_CONTEXT(c.per_second << "/s, " << c.round_trip.count() << " ms") {
      slow_server_stage s({}, 300us);
      open_loop(s, c.per_second, s.now() + 2s);
      s.round_trip(c.round_trip);
      show("longer", c.per_second, open_loop(s, c.per_second, s.now() + 8s));
      const tally after = open_loop(s, c.per_second, s.now() + 5s);
      show("8 s later", c.per_second, after);
      BOOST_TEST(static_cast<double>(after.in_time) >= 0.95 * static_cast<double>(after.asked));
    }
  }
}

// No answer was ever as fast as was expected of an idle server: the window shrank to one call.
BOOST_AUTO_TEST_CASE(a_round_trip_near_the_timeout_keeps_its_window) {
  struct scene {
    std::chrono::milliseconds timeout, round_trip;
    double per_second;
  };
  for (const scene& c : {scene{100ms, 80ms, 1000}, scene{500ms, 400ms, 500}}) {
    BOOST_TEST_CONTEXT(c.timeout.count() << " ms, " << c.round_trip.count() << " ms") {
      slow_server_stage s({.timeout = c.timeout}, c.round_trip);
      open_loop(s, c.per_second, s.now() + 5s);
      const tally after = open_loop(s, c.per_second, s.now() + 5s);
      show("near the timeout", c.per_second, after);
      BOOST_TEST(static_cast<double>(after.in_time) >= 0.9 * static_cast<double>(after.asked));
    }
  }
}

// Ten lone calls of 300 ms each left room for one call at a time.
BOOST_FIXTURE_TEST_CASE(a_client_that_asks_little_shrinks_nothing, fixture) {
  line.connected(weir::redis::script_set().set(), 300us);
  for (int i = 0; i < 10; ++i) {
    submit("lone " + std::to_string(i));
    write();
    now += 300ms;
    BOOST_TEST_REQUIRE(answer(0));
  }
  for (int i = 0; i < 1000; ++i) submit("s" + std::to_string(i), 1, check_kind::record, 10s);
  BOOST_TEST(count_of(write(), "weir:{r:") == 256u);
}

// It was sent, ran, and counted for no caller.
BOOST_FIXTURE_TEST_CASE(a_check_whose_answer_would_come_too_late_is_never_sent, slow_fixture) {
  // More is pending all the time than may be under way.
  for (int i = 0; i < 300; ++i) submit("first " + std::to_string(i), 1, check_kind::record, 10s);
  const auto& hasty = submit("hasty", 1, check_kind::record, 50ms);
  const auto& patient = submit("patient", 1, check_kind::record, 10s);
  for (int i = 0; i < 600; ++i) submit("last " + std::to_string(i), 1, check_kind::record, 10s);
  while (patient.stage == check_stage::waiting) {
    const std::string out = write();
    BOOST_TEST_REQUIRE(!out.empty());
    BOOST_TEST(count_of(out, "hasty") == 0u);
    if (patient.stage == check_stage::waiting) answer_all();
  }
  BOOST_TEST((hasty.stage == check_stage::waiting));
  line.expire(now += 50ms);
  BOOST_TEST(done_with(hasty, error::timed_out));
  BOOST_TEST((hasty.ec == condition::not_counted));
}

BOOST_FIXTURE_TEST_CASE(one_check_asks_when_nothing_is_under_way_however_slow_the_server_was,
                        slow_fixture) {
  for (int i = 0; i < 300; ++i) submit("s" + std::to_string(i), 1, check_kind::record, 50ms);
  BOOST_TEST(count_of(write(), "weir:{r:") == 1u);
  BOOST_TEST(write().empty());
  BOOST_TEST(!line.wants_write());
  BOOST_TEST(answer(0));
  BOOST_TEST(line.wants_write());
}

BOOST_AUTO_TEST_CASE(no_more_is_under_way_than_comes_back_soon) {
  fixture f({}, 1);
  f.line.connected();
  for (int i = 0; i < 10'000; ++i) f.submit("s" + std::to_string(i));
  // A new connection begins with one key, and doubles that with each answer.
  for (std::size_t keys = 1; keys < 256; keys *= 2) {
    const std::string written = f.write();
    BOOST_TEST(count_of(written, "weir:{r:") == keys);
    BOOST_TEST(f.write().empty());
    f.answer_fresh(written);
  }
  const auto write_all = [&] {
    std::string written;
    while (f.line.wants_write()) written += f.write();
    return written;
  };
  const std::string first = write_all();
  BOOST_TEST(count_of(first, "weir:{r:") == 256u);
  // Answered at once, it may be more from then on.
  f.answer_fresh(first);
  const std::size_t more = count_of(write_all(), "weir:{r:");
  BOOST_TEST(more > 300u);
  BOOST_TEST(more < 1000u);
}

// A server that could do nothing was sent ever more, because it said so at once: 900 times as much
// after half a second.
BOOST_AUTO_TEST_CASE(errors_do_not_make_much_more_be_under_way) {
  fixture f;
  f.line.connected();
  std::size_t most = 0;
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 5000 && f.line.pending() < 5000; ++k) f.submit("s" + std::to_string(k));
    std::size_t written = 0;
    while (f.line.wants_write()) written += count_of(f.write(), "weir:{r:");
    most = std::max(most, written);
    f.now += 11ms;
    f.answer_all();
  }
  BOOST_TEST(most > 1000u);  // the caller of each is to be told
  BOOST_TEST(most < 3000u);
}

BOOST_AUTO_TEST_CASE(a_healthy_server_is_kept_busy) {
  for (const auto round_trip : {std::chrono::nanoseconds(200us), std::chrono::nanoseconds(20ms),
                                std::chrono::nanoseconds(150ms)}) {
    BOOST_TEST_CONTEXT(round_trip.count()) {
      slow_server_stage s({}, round_trip);
      closed_loop(s, 30'000, s.now() + 3s);
      const tally t = closed_loop(s, 30'000, s.now() + 1s);
      show("healthy", static_cast<double>(round_trip.count()) / 1e6, t);
      BOOST_TEST(t.in_time > 97'000u);
    }
  }
}

// A server that stood still for once is not slow: single keys follow each other without pauses.
BOOST_AUTO_TEST_CASE(one_slow_answer_of_a_fast_server_is_no_reason_for_pauses) {
  weir::detail::send_window window(500ms, 64, 1);
  moment now{1h};
  window.reset(1ms);
  const auto answer_after = [&](std::chrono::milliseconds took) {
    const moment sent = now;
    window.sent(1, 500ms, sent);
    now += took;
    window.answered(1, sent, true, true, now);
    return window.room(now) > 0;
  };
  BOOST_TEST(answer_after(1ms));
  BOOST_TEST(answer_after(450ms));
  BOOST_TEST(!answer_after(300ms));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace overload_test

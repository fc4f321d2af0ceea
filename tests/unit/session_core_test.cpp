// The session core without sockets or clocks: expect this action, report this event, see this result. Every scenario is
// also run with the connection failing at each of its steps.
#include "net/session_core.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "session_driver.hpp"

using namespace std::chrono_literals;
using namespace weir::net::test;
using weir::error;
using weir::detail::check_stage;

BOOST_AUTO_TEST_SUITE(session_core_suite)

BOOST_AUTO_TEST_CASE(it_opens_greets_and_serves) {
  driver d;
  BOOST_TEST(d.opening);
  auto& c = d.submit();
  BOOST_TEST(!d.writing.has_value());
  d.opened(error{});
  BOOST_TEST(d.reading);
  BOOST_TEST(d.write_succeeds().find("HELLO") != std::string::npos);
  BOOST_TEST(!d.writing.has_value());
  d.received(greeting_replies);
  BOOST_TEST(d.write_succeeds().find("weir:{r:a}:f") != std::string::npos);
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
  BOOST_TEST(c.answer.used == 1);
  BOOST_TEST(d.reading);
}

BOOST_AUTO_TEST_CASE(reading_never_waits_for_writing) {
  driver d;
  d.become_ready();
  auto& first = d.submit("a");
  BOOST_TEST(d.writing.has_value());
  // The write is stuck, and yet its reply comes: it is read, and reading goes on.
  d.received(one_admitted);
  BOOST_TEST(done_with(first, {}));
  BOOST_TEST(d.reading);
  auto& second = d.submit("b");
  BOOST_TEST((second.stage == check_stage::waiting));
  d.write_succeeds();
  BOOST_TEST(d.writing.has_value());
}

// The same scenario, cut at every step: nothing hangs, what was not sent is served by the next connection, what was sent is
// told so.
BOOST_AUTO_TEST_CASE(an_error_at_every_step_is_followed_by_recovery) {
  enum step { at_open, at_greeting_write, at_greeting_read, at_write, at_read, steps };
  for (int failing = at_open; failing < steps; ++failing) {
    BOOST_TEST_CONTEXT("failing at step " << failing) {
      driver d;
      auto& c = d.submit();
      const auto play = [&](int until) {
        if (until == at_open) return d.opened(error::server_error);
        d.opened(error{});
        if (until == at_greeting_write) return d.written(false, 3);
        d.write_succeeds();
        if (until == at_greeting_read) return d.received_nothing();
        d.received(greeting_replies);
        if (until == at_write) return d.written(false, 10);
        d.write_succeeds();
        if (until == at_read) return d.received_nothing();
        d.received(one_admitted);
      };
      play(failing);
      BOOST_TEST((d.core.current() == state::pausing));
      BOOST_TEST((!d.opening && !d.reading && !d.writing));
      if (failing == at_read) {
        BOOST_TEST(done_with(c, error::outcome_unknown));
        d.submit("b");
      } else {
        BOOST_TEST((c.stage == check_stage::waiting));
      }
      d.wait();
      BOOST_TEST_REQUIRE(d.opening);
      play(steps);
      BOOST_TEST(done_with(d.checks.back(), {}));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_read_error_during_a_write_waits_to_learn_what_was_sent) {
  driver d;
  d.become_ready();
  auto& first = d.submit("a");
  d.write_succeeds();
  auto& second = d.submit("b");
  BOOST_TEST(d.writing.has_value());
  d.reading = false;
  d.core.received(false, 0, d.now);
  BOOST_TEST((d.core.current() == state::draining));
  BOOST_TEST(d.core.next(d.now).close);
  BOOST_TEST((second.stage == check_stage::staged));
  d.written(false, 5);
  BOOST_TEST(done_with(first, error::outcome_unknown));
  BOOST_TEST((second.stage == check_stage::waiting));
  BOOST_TEST((d.core.current() == state::pausing));
}

BOOST_AUTO_TEST_CASE(opening_and_greeting_have_a_limit_together) {
  for (const bool greeting : {false, true}) {
    driver d;
    d.advance(d.options.connect_timeout - 1ms);
    BOOST_TEST(d.opening);
    if (greeting) d.opened(error{});
    d.advance(1ms);
    BOOST_TEST((d.core.current() == state::pausing));
    BOOST_TEST(d.aborted_open == !greeting);
    d.wait();
    BOOST_TEST(d.opens == 2);
  }
}

BOOST_AUTO_TEST_CASE(pauses_grow_and_a_healthy_handshake_resets_them) {
  weir::redis_options o;
  o.backoff_min = 10ms;
  o.backoff_max = 640ms;
  driver d(o);
  std::chrono::nanoseconds longest{0};
  for (int i = 0; i < 40; ++i) {
    const moment before = d.now;
    d.opened(error::server_error);
    d.wait();
    BOOST_TEST((d.now - before <= 640ms));
    longest = std::max(longest, d.now - before);
  }
  BOOST_TEST((longest > 160ms));
  d.become_ready();
  d.received_nothing();
  BOOST_TEST((d.core.wakeup() - d.now <= 10ms));
}

BOOST_AUTO_TEST_CASE(a_refusal_by_the_server_is_the_callers_answer) {
  driver d;
  auto& c = d.submit();
  d.opened(error{});
  d.write_succeeds();
  std::string refused = "-WRONGPASS invalid username-password pair\r\n";
  for (std::size_t i = 0; i < weir::redis::script_count; ++i) refused += "-NOAUTH\r\n";
  d.received(refused);
  BOOST_TEST(done_with(c, error::authentication_failed));
  BOOST_TEST(done_with(d.submit("b"), error::authentication_failed));
  d.wait();
  d.become_ready();  // the password was put right on the server
  auto& later = d.submit("c");
  BOOST_TEST((later.stage == check_stage::staged));
}

BOOST_AUTO_TEST_CASE(a_certificate_that_is_not_accepted_is_the_callers_answer) {
  driver d;
  auto& c = d.submit();
  d.opened(error::tls_failed);
  BOOST_TEST(done_with(c, error::tls_failed));
}

BOOST_AUTO_TEST_CASE(a_loading_server_is_waited_for) {
  driver d;
  auto& c = d.submit();
  d.opened(error{});
  d.write_succeeds();
  std::string loading = "%1\r\n+proto\r\n:3\r\n";
  for (std::size_t i = 0; i < weir::redis::script_count; ++i) loading += "-LOADING wait\r\n";
  d.received(loading);
  BOOST_TEST((c.stage == check_stage::waiting));
  d.wait();
  BOOST_TEST(d.opening);
}

BOOST_AUTO_TEST_CASE(who_waits_in_vain_is_told_what_the_server_said_last) {
  const auto refuse_to_serve = [](driver& d) {
    d.opened(error{});
    d.write_succeeds();
    std::string loading = "%1\r\n+proto\r\n:3\r\n";
    for (std::size_t i = 0; i < weir::redis::script_count; ++i) loading += "-LOADING wait\r\n";
    d.received(loading);
  };
  {
    driver d;
    auto& c = d.submit("a", 1ms);
    refuse_to_serve(d);
    d.advance(1ms);
    BOOST_TEST(done_with(c, error::server_loading));
    BOOST_TEST((c.ec == weir::condition::not_counted));
  }
  {
    driver d;
    refuse_to_serve(d);
    d.wait();
    d.opened(error::server_error);  // gone altogether
    auto& c = d.submit("a", 1ms);
    d.advance(1ms);
    BOOST_TEST(done_with(c, error::timed_out));
  }
  {
    driver d;
    refuse_to_serve(d);
    d.wait();
    d.become_ready();
    d.received_nothing();
    auto& c = d.submit("a", 1us);
    d.advance(1us);
    BOOST_TEST(done_with(c, error::timed_out));
  }
}

// Whatever answers there, nothing of the callers' was sent to it.
BOOST_AUTO_TEST_CASE(garbage_in_the_greeting_is_no_connection_and_counts_nothing) {
  driver d;
  auto& hasty = d.submit("a", 1s);
  auto& patient = d.submit("b", 1h);
  for (int i = 0; i < 3; ++i) {
    d.opened(error{});
    d.write_succeeds();
    d.received("HTTP/1.1 400 Bad Request\r\n\r\n");
    BOOST_TEST((hasty.stage == check_stage::waiting));
    BOOST_TEST((d.core.current() == state::pausing));
    d.wait();
  }
  d.advance(1s);
  BOOST_TEST(done_with(hasty, error::timed_out));
  while (!d.opening) d.wait();
  d.become_ready();
  BOOST_TEST((patient.stage == check_stage::staged));
}

BOOST_AUTO_TEST_CASE(garbage_later_fails_what_was_sent_and_reconnects) {
  driver d;
  d.become_ready();
  auto& c = d.submit();
  d.write_succeeds();
  d.received("garbage\r\n");
  BOOST_TEST(done_with(c, error::protocol_error));
  BOOST_TEST((c.ec == weir::condition::may_have_counted));
  d.wait();
  BOOST_TEST(d.opening);
}

// A half-open connection: writes succeed and nothing comes back.
BOOST_AUTO_TEST_CASE(silence_while_a_reply_is_due_ends_the_connection) {
  driver d;
  d.become_ready();
  d.submit("a", 500ms);
  d.write_succeeds();
  const moment sent = d.now;
  while (d.core.current() == state::ready) d.wait();
  BOOST_TEST((d.now - sent >= d.options.silence_timeout));
  BOOST_TEST((d.now - sent <= 2 * d.options.silence_timeout));
  BOOST_TEST(done_with(d.checks[0], error::no_reply));
}

BOOST_AUTO_TEST_CASE(a_slow_stream_of_replies_is_not_silence) {
  driver d;
  d.become_ready();
  for (int i = 0; i < 100; ++i) d.submit("s" + std::to_string(i), 1h);
  d.write_succeeds();
  for (int i = 0; i < 20; ++i) {
    d.advance(d.options.silence_timeout / 2);
    d.received(i == 0 ? "*" : "");
    if (d.writing) d.write_succeeds();
  }
  BOOST_TEST((d.core.current() == state::ready));
}

BOOST_AUTO_TEST_CASE(an_idle_connection_is_pinged_and_given_up_when_there_is_no_answer) {
  driver d;
  d.become_ready();
  for (int i = 0; i < 5; ++i) {
    while (!d.writing) d.wait();
    BOOST_TEST(d.write_succeeds() == "*1\r\n$4\r\nPING\r\n");
    d.received("+PONG\r\n");
  }
  while (!d.writing) d.wait();
  d.write_succeeds();
  const moment asked = d.now;
  while (d.core.current() == state::ready) d.wait();
  BOOST_TEST((d.now - asked <= 2 * d.options.silence_timeout));
}

BOOST_AUTO_TEST_CASE(a_busy_connection_is_not_pinged) {
  driver d;
  d.become_ready();
  for (int i = 0; i < 50; ++i) {
    d.submit();
    BOOST_TEST(d.write_succeeds().find("PING") == std::string::npos);
    d.received(one_admitted);
    d.advance(d.options.ping_interval / 4);
    BOOST_TEST_REQUIRE(!d.writing.has_value());
  }
}

BOOST_AUTO_TEST_CASE(closing_in_every_state_ends_in_stopped) {
  for (int in = 0; in < 6; ++in) {
    BOOST_TEST_CONTEXT("closed in situation " << in) {
      driver d;
      if (in >= 1) d.opened(error{});
      if (in >= 2) d.write_succeeds();
      if (in >= 3) d.received(greeting_replies);
      if (in == 4) d.submit();
      if (in == 5) d.received_nothing();  // pausing
      d.core.close();
      d.pump();
      BOOST_TEST((d.core.current() == state::stopped));
      BOOST_TEST((!d.opening && !d.reading && !d.writing));
      BOOST_TEST((d.core.wakeup() == moment::max()));
      BOOST_TEST(done_with(d.submit("later"), error::store_closed));
      d.core.close();
      d.pump();
      BOOST_TEST(d.opens == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(bytes_of_an_old_connection_never_reach_the_next) {
  driver d;
  d.become_ready();
  d.submit("a");
  d.write_succeeds();
  d.received("*3\r\n:5000000\r\n:0");  // half a reply
  d.received_nothing();
  d.wait();
  d.become_ready();
  auto& c = d.submit("b");
  d.write_succeeds();
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
}

BOOST_AUTO_TEST_SUITE_END()

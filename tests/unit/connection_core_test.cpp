// The session core without sockets or clocks: expect this action, report this event, see this
// result.
#include "redis/connection_core.hpp"

#include "redis/script/script_call.hpp"
#include "session_driver.hpp"
#include "support/test.hpp"

namespace connection_core_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_stage;

BOOST_AUTO_TEST_SUITE(connection_core_suite)

BOOST_AUTO_TEST_CASE(it_opens_greets_and_serves) {
  driver d;
  BOOST_TEST(d.opening);
  auto& c = d.submit();
  BOOST_TEST(!d.writing.has_value());
  d.opened(error{});
  BOOST_TEST(d.reading);
  BOOST_TEST(d.write_succeeds().find("HELLO") != std::string::npos);
  BOOST_TEST(!d.writing.has_value());
  d.greet_back();
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

BOOST_AUTO_TEST_CASE(it_polls_for_spin_time_after_each_write_while_a_reply_is_due) {
  redis_options o;
  o.spin_time = 50us;
  driver d(o);
  d.become_ready();
  BOOST_TEST((d.poll_until == moment::min()));
  d.submit("a");
  d.write_succeeds();
  d.wake();
  BOOST_TEST((d.poll_until == d.now + 50us));
  d.now += 20us;
  d.submit("b");
  BOOST_TEST((d.poll_until == d.now + 50us));
  d.received(one_admitted);  // to the first one, while the second one is being written
  BOOST_TEST((d.poll_until == d.now + 50us));
  d.write_succeeds();
  d.now += 10us;
  d.received(one_admitted);
  BOOST_TEST((d.poll_until == moment::min()));
}

// Polling costs a lone check 1,400 instructions.
BOOST_AUTO_TEST_CASE(it_never_polls_without_spin_time) {
  driver d;
  d.become_ready();
  d.submit("a");
  d.write_succeeds();
  d.wake();
  BOOST_TEST((d.poll_until == moment::min()));
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
  BOOST_TEST((second.stage == check_stage::sent));
  d.written(false, 5);
  BOOST_TEST(done_with(first, error::outcome_unknown));
  BOOST_TEST((second.stage == check_stage::waiting));
  BOOST_TEST((d.core.current() == state::pausing));
}

// The replies to the greeting may be read before its write is reported done.
BOOST_AUTO_TEST_CASE(a_greeting_answered_before_it_is_reported_written_is_complete) {
  driver d;
  auto& c = d.submit();
  d.opened(error{});
  d.received(hello_replies);
  d.write_succeeds();
  BOOST_TEST(d.writing->find("EXISTS") != std::string::npos);
  d.received(script_replies());
  BOOST_TEST((d.core.current() == state::ready));
  BOOST_TEST(d.writing->find("EXISTS") != std::string::npos);
  d.write_succeeds();
  BOOST_TEST((c.stage == check_stage::sent));
  d.write_succeeds();
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
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

BOOST_AUTO_TEST_CASE(an_attempt_given_up_is_over_only_when_the_driver_says_so) {
  driver d;
  d.now += d.options.connect_timeout;
  d.core.on_time(d.now);
  BOOST_TEST(d.core.next(d.now).close);
  BOOST_TEST((d.core.current() == state::draining));
  BOOST_TEST((d.core.wakeup() == moment::max()));
  d.opened(error{});  // too late
  BOOST_TEST((d.core.current() == state::pausing));
}

// A half-open connection: writes succeed and nothing comes back.
BOOST_AUTO_TEST_CASE(silence_while_a_reply_is_due_ends_the_connection) {
  redis_options o;
  o.connect_timeout = o.ping_interval = 1h;  // no other limit is near
  driver d(o);
  d.become_ready();
  d.submit("a", 500ms);
  d.write_succeeds();
  const moment sent = d.now;
  while (d.core.current() == state::ready) d.wait();
  BOOST_TEST((d.now - sent >= d.options.silence_timeout));
  BOOST_TEST((d.now - sent <= 3 * d.options.silence_timeout / 2));
  BOOST_TEST(done_with(d.checks[0], error::no_reply));
}

// Nothing is due then, and nothing can be asked: it once went on for ever.
BOOST_AUTO_TEST_CASE(a_greeting_that_is_answered_and_never_taken_ends_the_connection) {
  driver d;
  auto& c = d.submit("a", 1h);
  d.opened(error{});
  d.received(hello_replies);
  d.write_succeeds();
  d.received(script_replies());
  BOOST_TEST_REQUIRE((d.core.current() == state::ready));
  const moment answered = d.now;
  while (d.core.current() == state::ready && d.now - answered < 1min) d.wait();
  BOOST_TEST_REQUIRE((d.core.current() == state::pausing));
  BOOST_TEST((d.now - answered >= d.options.silence_timeout));
  while (!d.opening) d.wait();
  d.become_ready();
  d.write_succeeds();
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
}

// The quiet before a call is no fault.
BOOST_AUTO_TEST_CASE(a_call_after_a_quiet_time_gets_the_whole_silence_timeout) {
  redis_options o;
  o.ping_interval = 1h;
  driver d(o);
  d.become_ready();
  for (int i = 0; i < 10; ++i) d.advance(1s);
  d.submit("a", 1h);
  d.write_succeeds();
  const moment sent = d.now;
  while (d.core.current() == state::ready) d.wait();
  BOOST_TEST((d.now - sent >= d.options.silence_timeout));
}

// Its first wake came before the reply that was waiting, and gave a healthy connection up.
BOOST_AUTO_TEST_CASE(a_process_that_stood_still_reads_before_it_gives_up) {
  redis_options o;
  o.ping_interval = 1h;
  driver d(o);
  d.become_ready();
  auto& c = d.submit("a", 1h);
  d.write_succeeds();
  d.stand_still(d.options.silence_timeout + 60ms);
  BOOST_TEST_REQUIRE((d.core.current() == state::ready));
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
  // If no reply is waiting, the server is the silent one.
  d.submit("b", 1h);
  d.write_succeeds();
  d.stand_still(2 * d.options.silence_timeout);
  BOOST_TEST_REQUIRE((d.core.current() == state::ready));
  const moment awake = d.now;
  while (d.core.current() == state::ready) d.wait();
  BOOST_TEST((d.now - awake <= d.options.silence_timeout));
}

BOOST_AUTO_TEST_CASE(a_slow_stream_of_replies_is_not_silence) {
  redis_options o;
  o.max_keys_per_call = 1;
  driver d(o);
  d.become_ready();
  for (int i = 0; i < 100; ++i) d.submit("s" + std::to_string(i), 1h);
  d.write_succeeds();
  for (int i = 0; i < 20; ++i) {
    d.advance(d.options.silence_timeout / 2);
    d.received(one_admitted);
    if (d.writing) d.write_succeeds();
  }
  BOOST_TEST((d.core.current() == state::ready));
}

// A byte or a push every 1.4 s once held a connection for ever that answered nothing, and the
// places of the calls that had given up grew without bound.
BOOST_AUTO_TEST_CASE(bytes_and_pushes_that_answer_nothing_are_silence) {
  const std::string one_reply = "$1000\r\n" + std::string(1000, 'x');
  const std::string push = ">2\r\n+invalidate\r\n*0\r\n";
  for (const bool drips : {true, false}) {
    driver d;
    d.become_ready();
    const moment began = d.now;
    std::size_t dripped = 0, most_due = 0;
    while (d.core.current() == state::ready && d.now < began + 1min) {
      d.submit("a", 500ms);
      if (d.writing) d.write_succeeds();
      d.advance(d.options.silence_timeout * 7 / 10);
      if (d.core.current() == state::ready)
        d.received(drips ? one_reply.substr(dripped++, 1) : push);
      most_due = std::max(most_due, d.core.line().replies_due());
    }
    BOOST_TEST_REQUIRE((d.core.current() != state::ready));
    BOOST_TEST((d.now - began <= 2 * d.options.silence_timeout));
    BOOST_TEST(most_due <= 3u);
    while (!d.opening) d.wait();
    BOOST_TEST(d.elsewhere);
  }
}

// Pushes are no sign that the server serves: an idle connection is asked all the same.
BOOST_AUTO_TEST_CASE(pushes_do_not_stand_for_a_ping) {
  driver d;
  d.become_ready();
  for (int i = 0; i < 20 && !d.writing; ++i) {
    d.advance(d.options.ping_interval / 4);
    if (!d.writing) d.received(">2\r\n+invalidate\r\n*0\r\n");
  }
  BOOST_TEST_REQUIRE(d.writing.has_value());
  BOOST_TEST(d.write_succeeds().find("PING") != std::string::npos);
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
      if (in >= 3) d.greet_back();
      if (in == 4) d.submit();
      if (in == 5) d.received_nothing();  // pausing
      d.close();
      d.pump();
      BOOST_TEST((d.core.current() == state::stopped));
      BOOST_TEST((!d.opening && !d.reading && !d.writing));
      BOOST_TEST((d.core.wakeup() == moment::max()));
      BOOST_TEST(done_with(d.submit("later"), error::store_closed));
      d.close();
      d.pump();
      BOOST_TEST(d.opens == 1);
    }
  }
}

/// So that a new connection knows it, and need not load it.
void make_reserving_script(const weir::policies::kernel& k) {
  weir::redis::script_call call;
  call.kind = weir::detail::check_kind::acquire;
  call.traits = weir::detail::asks::acquire;
  call.tiers.push_back({k, 1});
  weir::redis::script_of(call);
}

// The answer may be a turn, which is to go back.
BOOST_AUTO_TEST_CASE(a_closing_connection_waits_for_reservations_and_for_what_gives_back) {
  for (const bool is_answered : {true, false}) {
    BOOST_TEST_CONTEXT("answered: " << is_answered) {
      driver d;
      make_reserving_script(d.limiter->tiers.front());
      d.become_ready();
      auto& plain = d.submit("a");
      d.write_succeeds();
      auto& asked = d.start(
          d.checks.emplace_back(d.limiter, "b", 1, weir::detail::check_kind::acquire, 1h));
      d.write_succeeds();
      d.close();
      d.pump();
      BOOST_TEST(done_with(plain, error::outcome_unknown));
      BOOST_TEST(!asked.finished);
      auto& back = d.start(
          d.checks.emplace_back(d.limiter, "c", 1, weir::detail::settle_cause::give_back, 1h));
      BOOST_TEST(!d.write_succeeds().empty());
      BOOST_TEST(done_with(d.submit("later"), error::store_closed));
      if (is_answered) {
        d.received(one_admitted);  // plain, without a caller
        d.received("-ERR\r\n");
        BOOST_TEST((d.core.current() == state::ready));
        d.received("-ERR\r\n");
        BOOST_TEST(done_with(back, error::server_error));
      } else {
        d.advance(d.options.timeout);
        BOOST_TEST(done_with(asked, error::outcome_unknown));
        BOOST_TEST(done_with(back, error::outcome_unknown));
      }
      BOOST_TEST((d.core.current() == state::stopped));
      BOOST_TEST(d.opens == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_comes_back_before_the_close_is_handed_out_does_not_stop_it) {
  driver d;
  d.become_ready();
  d.close();
  d.reading = false;
  d.core.received(false, 0, d.now);
  BOOST_TEST((d.core.current() == state::draining));
  BOOST_TEST(d.core.next(d.now).close);
  BOOST_TEST((d.core.current() == state::stopped));
}

BOOST_AUTO_TEST_CASE(closing_again_while_draining_asks_for_nothing) {
  driver d;
  d.close();
  BOOST_TEST(d.core.next(d.now).close);
  d.close();
  BOOST_TEST(!d.core.has_actions());
  BOOST_TEST(!d.core.next(d.now).close);
  d.opened(error{});
  BOOST_TEST((d.core.current() == state::stopped));
}

BOOST_AUTO_TEST_CASE(a_bound_of_no_calls_at_all_lets_one_through) {
  redis_options o;
  o.max_pending = 0;
  driver d(o);
  BOOST_TEST((d.submit().stage == check_stage::waiting));
  BOOST_TEST(done_with(d.submit(), error::overloaded));
}

BOOST_AUTO_TEST_CASE(bytes_of_an_old_connection_never_reach_the_next) {
  driver d;
  d.become_ready();
  d.submit("a");
  d.write_succeeds();
  d.received("*4\r\n:5000000\r\n:0");  // half a reply
  d.received_nothing();
  d.wait();
  d.become_ready();
  auto& c = d.submit("b");
  d.write_succeeds();
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connection_core_test

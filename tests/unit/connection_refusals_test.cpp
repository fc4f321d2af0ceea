// What callers are told when the server does not serve: refusals, passing states, and what is no
// server at all.
#include "session_driver.hpp"
#include "support/test.hpp"

namespace connection_refusals_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_stage;

const std::string refused_greeting = [] {
  std::string all = "-WRONGPASS invalid username-password pair\r\n";
  for (std::size_t i = 0; i < 2; ++i) all += "-NOAUTH\r\n";
  return all;
}();

BOOST_AUTO_TEST_SUITE(connection_refusals_suite)

BOOST_AUTO_TEST_CASE(a_refusal_by_the_server_is_the_callers_answer) {
  driver d;
  auto& c = d.submit();
  d.opened(error{});
  d.write_succeeds();
  d.received(refused_greeting);
  BOOST_TEST(done_with(c, error::authentication_failed));
  BOOST_TEST(done_with(d.submit("b"), error::authentication_failed));
  d.wait();
  d.become_ready();  // the password was put right on the server
  auto& later = d.submit("c");
  BOOST_TEST((later.stage == check_stage::sent));
}

BOOST_AUTO_TEST_CASE(a_refusal_after_a_lost_connection_is_the_callers_answer_too) {
  driver d;
  d.become_ready();
  d.received_nothing();
  auto& c = d.submit();
  d.wait();
  d.opened(error{});
  d.write_succeeds();
  d.received(refused_greeting);
  BOOST_TEST(done_with(c, error::authentication_failed));
}

BOOST_AUTO_TEST_CASE(a_closed_store_says_so_whatever_the_server_said) {
  driver d;
  d.opened(error{});
  d.write_succeeds();
  // Refused, and closed before the connection is down.
  std::copy(refused_greeting.begin(), refused_greeting.end(), d.core.room().begin());
  d.reading = false;
  d.core.received(true, refused_greeting.size(), d.now);
  d.close();
  d.pump();
  BOOST_TEST((d.core.current() == state::stopped));
  BOOST_TEST(done_with(d.submit(), error::store_closed));
}

BOOST_AUTO_TEST_CASE(a_server_without_hello_is_greeted_again) {
  driver d;
  auto& c = d.submit();
  d.opened(error{});
  d.write_succeeds();
  std::string unknown = "-ERR unknown command `HELLO`\r\n";
  for (std::size_t i = 0; i < 2; ++i) unknown += "+ok\r\n";
  d.received(unknown);
  BOOST_TEST(d.write_succeeds().find("SETNAME") != std::string::npos);
  std::string known = "+OK\r\n";
  for (std::size_t i = 0; i < 2; ++i) known += "+ok\r\n";
  d.received(known);
  d.write_succeeds();
  d.received(script_replies());
  BOOST_TEST((d.core.current() == state::ready));
  BOOST_TEST((c.stage == check_stage::sent));
}

// A server that answers all of the greeting before it has taken it got bytes of freed memory.
BOOST_AUTO_TEST_CASE(a_greeting_answered_too_early_is_still_the_greeting) {
  for (const bool knows_hello : {true, false}) {
    driver d;
    d.submit();
    d.opened(error{});
    const std::string first(*d.writing);
    std::string replies = hello_replies;
    if (!knows_hello) {
      replies = "-ERR unknown command `HELLO`\r\n";
      for (std::size_t i = 0; i < 2; ++i) replies += "+ok\r\n";
    }
    d.received(replies);
    BOOST_TEST(*d.writing == first);
    BOOST_TEST(d.write_succeeds() == first);
    BOOST_TEST_REQUIRE(d.writing.has_value());
    BOOST_TEST(*d.writing != first);
  }
}

BOOST_AUTO_TEST_CASE(a_certificate_that_is_not_accepted_is_the_callers_answer) {
  driver d;
  auto& c = d.submit();
  d.opened(error::tls_failed);
  BOOST_TEST(done_with(c, error::tls_failed));
}

// TLS 1.3 lets the client finish first: a server that does not like its certificate says so to the
// greeting.
BOOST_AUTO_TEST_CASE(a_refusal_in_tls_that_comes_late_is_the_callers_answer) {
  driver d;
  auto& c = d.submit();
  d.opened(error{});
  d.write_succeeds();
  d.received_nothing(error::tls_failed);
  BOOST_TEST(done_with(c, error::tls_failed));
  d.wait();
  d.become_ready();
  // Later it would mean that something broke: what was sent may have been counted.
  auto& sent = d.submit();
  d.write_succeeds();
  d.received_nothing(error::tls_failed);
  BOOST_TEST(done_with(sent, error::outcome_unknown));
}

// What the attempts to connect have met is told to calls that wait in vain, and not before.
BOOST_AUTO_TEST_CASE(a_deadline_names_the_suspicion) {
  enum trouble {
    no_tls,
    no_name,
    black_hole,
    hangs_up,
    hangs_up_with_words,
    babbles,
    loading,
    silent,
    down
  };
  const struct {
    trouble what;
    error told;
  } cases[] = {{no_tls, error::tls_failed},
               {hangs_up, error::closed_by_peer},
               {hangs_up_with_words, error::server_error},
               {loading, error::server_loading},
               {silent, error::timed_out},
               {no_name, error::host_not_found},
               {black_hole, error::host_unreachable},
               {babbles, error::not_redis},
               {down, error::connection_refused}};
  for (const auto& [first, ignored] : cases) {
    for (const auto& [last, told] : cases) {
      BOOST_TEST_CONTEXT("trouble " << first << ", then " << last) {
        redis_options o;
        o.backoff_max = o.backoff_min = 1ms;
        driver d(o);
        auto& c = d.submit("a", 10s);
        for (const trouble what : {first, last}) {
          if (what == down) {
            d.opened(error::connection_refused);
          } else if (what == no_tls || what == no_name || what == black_hole) {
            d.core.on_time(d.now += d.options.connect_timeout);
            BOOST_TEST_REQUIRE(d.core.next(d.now).close);
            d.opened(what == no_tls    ? error::tls_failed
                     : what == no_name ? error::host_not_found
                                       : error::host_unreachable);
          } else {
            d.opened(error{});
            d.write_succeeds();
            if (what == hangs_up) d.received_nothing();
            if (what == hangs_up_with_words) {
              d.received("-ERR max number of clients reached\r\n");
              d.received_nothing();
            }
            if (what == babbles) d.received("HTTP/1.1 400 Bad Request\r\n\r\n");
            if (what == loading) d.plead_loading();
            if (what == silent) d.advance(d.options.connect_timeout);
          }
          BOOST_TEST((c.stage == check_stage::waiting));
          d.wait();
          BOOST_TEST_REQUIRE(d.opening);
        }
        auto& hasty = d.submit("b", 1us);
        d.advance(5ms);
        BOOST_TEST(done_with(hasty, told));
        BOOST_TEST((hasty.ec == condition::not_counted));
        d.become_ready();
        BOOST_TEST((c.stage == check_stage::sent));
      }
    }
  }
}

// Each of eight calls, one after the other, waited for its whole timeout.
BOOST_AUTO_TEST_CASE(calls_end_at_once_after_an_attempt_that_failed_until_one_succeeds) {
  driver d;
  auto& first = d.submit("a", 1h);
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto& during = d.submit("b", 1h);  // its result is not known yet
    BOOST_TEST((during.stage == (attempt == 0 ? check_stage::waiting : check_stage::done)));
    d.opened(error::connection_refused);
    for (int i = 0; i < 8; ++i) BOOST_TEST(done_with(d.submit("c"), error::connection_refused));
    d.wait();
  }
  BOOST_TEST((first.stage == check_stage::waiting));
  d.become_ready();
  BOOST_TEST((first.stage == check_stage::sent));
  // A short blip: the connection is lost, and the first attempt to make another one is under way.
  d.write_succeeds();
  d.received_nothing();
  auto& next = d.submit("d");
  BOOST_TEST((next.stage == check_stage::waiting));
  d.wait();
  d.become_ready();
  BOOST_TEST((next.stage == check_stage::sent));
}

// Twelve calls to a server that hung took 5.5 s.
BOOST_AUTO_TEST_CASE(calls_end_at_once_after_a_whole_timeout_without_an_answer) {
  for (const bool connected : {true, false}) {
    driver d;
    if (connected) d.become_ready();
    auto& first = d.submit("a", d.options.timeout);
    if (connected) d.write_succeeds();
    d.advance(d.options.timeout);
    BOOST_TEST(done_with(first, connected ? error::no_reply : error::timed_out));
    for (int i = 0; i < 11; ++i) BOOST_TEST(done_with(d.submit("b"), error::circuit_open));
    // One of them finds out whether it is back.
    d.advance(d.options.breaker_pause);
    BOOST_TEST((d.submit("c").stage != check_stage::done));
    BOOST_TEST(done_with(d.submit("d"), error::circuit_open));
  }
}

// For 2 s, calls were told that they had timed out. The attempt had come as far as to TLS.
BOOST_AUTO_TEST_CASE(a_deadline_during_an_attempt_names_how_far_it_has_come) {
  for (const error step : {error::host_not_found, error::host_unreachable, error::tls_failed}) {
    driver d;
    d.core.attempting(step);
    auto& c = d.submit("a", d.options.timeout);
    d.advance(d.options.timeout);
    BOOST_TEST(done_with(c, step));
    BOOST_TEST(done_with(d.submit("b"), step));
    d.opened(error{});
    auto& next = d.submit("c", 10ms);
    d.advance(10ms);
    BOOST_TEST(done_with(next, error::circuit_open));
  }
}

// A stopped server takes connections and answers nothing: every call waited for its deadline.
BOOST_AUTO_TEST_CASE(failure_policies_decide_at_once_after_an_attempt_without_an_answer) {
  for (const bool greeting : {false, true}) {
    driver d;
    d.limiter = make_core("r", fixed_window{.limit = 3, .window = 10s},
                          {.on_failure = on_failure::open});
    if (greeting) d.opened(error{});
    auto& early = d.submit("a", 1h);
    d.advance(d.options.connect_timeout);
    BOOST_TEST((early.stage == check_stage::waiting));
    for (int attempts = 0; attempts < 3; ++attempts) {
      const auto& c = d.submit("a");
      BOOST_TEST((c.stage == check_stage::done && c.ec == condition::not_counted));
      d.wait();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_call_that_waits_in_vain_is_told_what_the_server_said_last) {
  const auto refuse_to_serve = [](driver& d) {
    d.opened(error{});
    d.write_succeeds();
    d.plead_loading();
  };
  {
    driver d;
    auto& c = d.submit("a", 1ms);
    refuse_to_serve(d);
    d.advance(1ms);
    BOOST_TEST(done_with(c, error::server_loading));
    BOOST_TEST((c.ec == condition::not_counted));
  }
  {
    driver d;
    refuse_to_serve(d);
    d.wait();
    d.opened(error::connection_refused);  // gone altogether
    auto& c = d.submit("a", 1ms);
    d.advance(1ms);
    BOOST_TEST(done_with(c, error::connection_refused));
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

// Calls that came back were once written to the same replica after 25 ms. With a longer round trip
// a reply was always due, and the connection went on for seconds.
BOOST_AUTO_TEST_CASE(a_replica_far_away_is_left_after_one_round_trip) {
  driver d;
  d.become_ready();
  constexpr auto round_trip = 120ms, between_calls = 40ms;
  std::deque<moment> due;  // one for each script call
  moment first_refusal{};
  const moment began = d.now;
  for (int i = 0; d.core.current() == state::ready && d.now < began + 10s; ++i) {
    d.submit("s" + std::to_string(i % 5), 10s);
    while (d.writing) {
      BOOST_TEST((first_refusal == moment{}));  // nothing is written any more
      const std::string bytes = d.write_succeeds();
      for (auto at = bytes.find("EVALSHA"); at != std::string::npos;
           at = bytes.find("EVALSHA", at + 1)) {
        due.push_back(d.now + round_trip);
      }
    }
    d.advance(between_calls);
    while (!due.empty() && due.front() <= d.now && d.core.current() == state::ready) {
      due.pop_front();
      if (first_refusal == moment{}) first_refusal = d.now;
      d.received("-READONLY You can't write against a read only replica.\r\n");
    }
  }
  BOOST_TEST_REQUIRE((d.core.current() == state::pausing));
  BOOST_TEST(due.empty());
  BOOST_TEST((d.now - first_refusal <= round_trip + between_calls));
  // None was lost, and all move on.
  d.wait();
  d.become_ready();
  BOOST_TEST(d.elsewhere);
  for (const auto& c : d.checks) BOOST_TEST((c.stage == check_stage::sent));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connection_refusals_test

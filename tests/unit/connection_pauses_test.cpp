// How long the session core pauses between attempts to connect, and which address it asks next.
#include "session_driver.hpp"
#include "support/test.hpp"

namespace connection_pauses_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using weir::detail::check_stage;

/// Back-off from 10 ms to 640 ms.
struct patient_driver : driver {
  patient_driver() : driver(short_pauses()) {}
  static redis_options short_pauses() {
    redis_options o;
    o.backoff_min = 10ms;
    o.backoff_max = 640ms;
    o.ping_interval = 50ms;
    return o;
  }
  /// Until the next attempt.
  std::chrono::nanoseconds pause() {
    const moment before = now;
    while (!opening) wait();
    return now - before;
  }
  /// The longest of 40, each before an attempt that ends as `attempt` says.
  template <class F>
  std::chrono::nanoseconds longest_pause(F&& attempt) {
    std::chrono::nanoseconds longest{0};
    for (int i = 0; i < 40; ++i) {
      attempt();
      longest = std::max(longest, pause());
    }
    return longest;
  }
  bool is_served() {
    become_ready();
    auto& c = submit();
    write_succeeds();
    received(one_admitted);
    return done_with(c, {});
  }
};

BOOST_AUTO_TEST_SUITE(connection_pauses_suite)

BOOST_FIXTURE_TEST_CASE(pauses_grow_until_a_server_serves, patient_driver) {
  const auto longest = longest_pause([&] { opened(error::connection_refused); });
  BOOST_TEST((longest > 160ms && longest <= 640ms));
  // Back again, it takes one pause at the most, and the next outage begins with short ones.
  BOOST_TEST(is_served());
  received_nothing();
  BOOST_TEST((pause() <= 10ms));
}

// A replica shakes hands as a primary does. A client that waited for its promotion once came back a
// hundred times a second.
BOOST_FIXTURE_TEST_CASE(pauses_grow_while_a_replica_turns_us_away, patient_driver) {
  auto& c = submit("a", 1h);
  BOOST_TEST(!elsewhere);
  const auto longest = longest_pause([&] {
    become_ready();
    write_succeeds();
    received("-READONLY You can't write against a read only replica.\r\n");
  });
  BOOST_TEST((longest > 160ms));
  BOOST_TEST(elsewhere);  // the name may have another address
  BOOST_TEST((c.stage == check_stage::waiting));
  become_ready();
  write_succeeds();
  received(one_admitted);
  BOOST_TEST(done_with(c, {}));
  received_nothing();
  BOOST_TEST((pause() <= 10ms));
  BOOST_TEST(!elsewhere);
}

// A replica answers what writes nothing. That once counted as served, and the pauses stayed short.
BOOST_FIXTURE_TEST_CASE(pauses_grow_while_a_replica_answers_what_writes_nothing, patient_driver) {
  submit("a", 1h);
  const auto longest = longest_pause([&] {
    become_ready();
    auto& fetch = start(checks.emplace_back(limiter, "b", 1, weir::detail::check_kind::fetch));
    while (writing) write_succeeds();
    received("-READONLY You can't write against a read only replica.\r\n" + one_admitted);
    BOOST_TEST(done_with(fetch, {}));
  });
  BOOST_TEST((longest > 160ms));
}

// The Sentinel that has named another master is asked for it again.
BOOST_FIXTURE_TEST_CASE(a_moved_server_that_hangs_up_has_not_turned_us_away, patient_driver) {
  BOOST_TEST(is_served());
  submit("b", 1h);
  write_succeeds();
  core.relocate(now);
  pump();
  received_nothing();
  pause();
  BOOST_TEST(!elsewhere);
}

// So does a proxy in front of a server that is gone. The handshake alone once reset the pauses.
BOOST_FIXTURE_TEST_CASE(pauses_grow_while_a_peer_greets_and_then_hangs_up, patient_driver) {
  const auto longest = longest_pause([&] {
    become_ready();
    received_nothing();
  });
  BOOST_TEST((longest > 160ms));
}

// A peer that says anything at all was once taken for one that serves, and asked 71 times a second.
BOOST_FIXTURE_TEST_CASE(pauses_grow_while_a_peer_answers_and_serves_nothing, patient_driver) {
  for (const char* answer :
       {"-ERR no upstream\r\n", "-LOADING wait\r\n", "-NOSCRIPT No matching script.\r\n"}) {
    const auto longest = longest_pause([&] {
      become_ready();
      submit("a", 1ms);
      write_succeeds();
      received(answer);
      if (writing) write_succeeds();
      received_nothing();
      advance(1ms);
    });
    BOOST_TEST((longest > 160ms));
    BOOST_TEST(elsewhere);
  }
  // A server that only accepts the connection and answers a ping does not count as serving.
  const auto longest = longest_pause([&] {
    become_ready();
    while (!writing) wait();
    write_succeeds();
    received("+PONG\r\n");
    received_nothing();
  });
  BOOST_TEST((longest > 160ms));
  BOOST_TEST(is_served());
  received_nothing();
  BOOST_TEST((pause() <= 10ms));
  BOOST_TEST(!elsewhere);
}

// No reply came any more that could have told the core to leave; its checks waited for ever.
BOOST_FIXTURE_TEST_CASE(a_moved_server_is_left_behind_a_write_whose_replies_came_first,
                        patient_driver) {
  become_ready();
  submit("a");
  received(one_admitted);  // and the end of the write is not reported yet
  core.relocate(now);
  pump();
  if (writing) write_succeeds();
  BOOST_TEST(closes == 1);
  const auto& later = submit("b", 1h);
  BOOST_TEST((pause() <= 10ms));
  BOOST_TEST((later.stage == check_stage::waiting));
}

// Under load, the store left the Sentinel that had announced the new master, and asked another one.
BOOST_FIXTURE_TEST_CASE(a_server_that_moved_while_a_reply_was_due_does_not_lose_its_turn,
                        patient_driver) {
  for (const bool reply_is_due : {false, true}) {
    BOOST_TEST(is_served());
    submit("a");
    write_succeeds();
    if (!reply_is_due) received(one_admitted);
    core.relocate(now);
    if (reply_is_due) received(one_admitted);
    pump();
    BOOST_TEST((pause() <= 10ms));
    BOOST_TEST(!elsewhere);
  }
  // A replica that turns the store away does.
  become_ready();
  submit("a", 1h);
  write_succeeds();
  received("-READONLY You can't write against a read only replica.\r\n");
  pause();
  BOOST_TEST(elsewhere);
}

BOOST_FIXTURE_TEST_CASE(an_address_that_does_not_serve_loses_its_turn, patient_driver) {
  const auto expect_elsewhere = [&](const char* what, auto&& attempt) {
    BOOST_TEST_CONTEXT(what) {
      while (!opening) wait();
      BOOST_TEST(is_served());
      received_nothing();
      pause();
      BOOST_TEST_REQUIRE(!elsewhere);  // it may have restarted
      attempt();
      pause();
      BOOST_TEST(elsewhere);
    }
  };
  expect_elsewhere("no TLS", [&] { opened(error::tls_failed); });
  expect_elsewhere("no greeting", [&] {
    opened(error{});
    advance(options.connect_timeout);
  });
  expect_elsewhere("half a greeting", [&] {
    opened(error{});
    write_succeeds();
    received("%1\r\n+pro");
    advance(options.connect_timeout);
  });
  expect_elsewhere("loading", [&] {
    opened(error{});
    write_succeeds();
    plead_loading();
  });
  expect_elsewhere("hangs up after the greeting", [&] {
    become_ready();
    received_nothing();
  });
  expect_elsewhere("fails a write after the greeting", [&] {
    become_ready();
    submit("a", 1ms);
    written(false, 3);
    advance(1ms);
  });
  expect_elsewhere("is silent, though it has served", [&] {
    is_served();
    submit();
    write_succeeds();
    while (core.current() == state::ready) wait();
  });
  expect_elsewhere("breaks, though it has served", [&] {
    is_served();
    submit();
    write_succeeds();
    received("garbage\r\n");
  });
}

// A proxy that ends each connection after some time made the pauses of an idle process grow, and
// its next call failed in one of them.
BOOST_FIXTURE_TEST_CASE(pauses_stay_short_while_connections_last, patient_driver) {
  const auto longest = longest_pause([&] {
    become_ready();
    for (int i = 0; i < 20; ++i) {
      while (!writing) wait();
      write_succeeds();
      received("+PONG\r\n");
    }
    received_nothing();
  });
  BOOST_TEST((longest <= 10ms));
}

// The call failed with timed_out, as if the server had said nothing.
BOOST_FIXTURE_TEST_CASE(a_call_in_the_pause_after_readonly_ends_with_read_only, patient_driver) {
  submit("a", 1h);
  become_ready();
  write_succeeds();
  received("-READONLY You can't write against a read only replica.\r\n");
  auto& later = start(checks.emplace_back(limiter, "b", 1, weir::detail::check_kind::fetch, 1us));
  advance(1us);
  BOOST_TEST(done_with(later, error::read_only));
}

// All processes of a fleet learn of a new master in the same instant, and opened their connections
// in it.
BOOST_FIXTURE_TEST_CASE(a_server_that_moves_during_a_pause_is_found_after_a_short_one,
                        patient_driver) {
  bool has_paused = false;
  for (int i = 0; i < 40; ++i) {
    opened(error::connection_refused);
    const moment before = now;
    core.relocate(now);
    pump();
    while (!opening) wait();
    has_paused = has_paused || now > before;
    BOOST_TEST((now - before <= 10ms));
  }
  BOOST_TEST(has_paused);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace connection_pauses_test

// The search for the master without sockets or clocks: expect this action, report this event, see
// this answer.
#include "redis/topology/sentinel_core.hpp"

#include "sentinel_driver.hpp"
#include "support/test.hpp"

namespace sentinel_core_test {

using namespace weir;
using namespace weir::test;
using namespace weir::redis::test;
using driver = sentinel_driver;
using state = driver::state;
using weir::test::moment;

BOOST_AUTO_TEST_SUITE(sentinel_core_suite)

BOOST_AUTO_TEST_CASE(it_subscribes_and_then_asks) {
  driver d;
  d.options.sentinel.username = "u";
  d.options.sentinel.password = "p";
  d.ask();
  BOOST_TEST(d.host == "s1");
  d.opened(error{});
  const std::string sent(*d.writing);
  const auto login = sent.find("AUTH"), subscribe = sent.find("SUBSCRIBE"),
             question = sent.find("GET-MASTER-ADDR-BY-NAME\r\n$8\r\nmymaster");
  BOOST_TEST((login < subscribe && subscribe < question && question != sent.npos));
  d.written();
  d.received(sentinel_hello);
  d.received(subscribed + address("10.0.0.1", 6379));
  BOOST_TEST(d.was_told("10.0.0.1", 6379));
  BOOST_TEST((d.core.current() == state::watching));
}

BOOST_AUTO_TEST_CASE(a_later_question_goes_to_the_same_sentinel) {
  driver d;
  d.watch();
  d.ask();
  BOOST_TEST(!d.answer.has_value());
  d.written();
  d.received(address("10.0.0.2", 6380));
  BOOST_TEST(d.was_told("10.0.0.2", 6380));
  BOOST_TEST(d.opens == 1);
}

BOOST_AUTO_TEST_CASE(a_failover_is_heard_and_another_master_s_is_not) {
  driver d;
  d.watch();
  d.received(switched("mymaster2"));
  d.received(switched("other"));
  BOOST_TEST(d.moves == 0);
  d.received(switched("mymaster"));
  BOOST_TEST(d.moves == 1);
}

// The Sentinel that leads a failover names the new master up to 100 ms before it announces it. Each
// store that had asked meanwhile left its new connection for another to the same server.
BOOST_AUTO_TEST_CASE(the_announcement_of_the_master_named_last_moves_nobody) {
  driver d;
  d.watch();
  d.ask();
  d.written();
  d.received(address("10.0.0.2", 6380) + switched("mymaster"));
  BOOST_TEST(d.moves == 0);
  d.ask();
  d.written();
  // The announced address ends like that, but is another one.
  d.received(address("0.0.0.2", 6380) + switched("mymaster"));
  BOOST_TEST(d.moves == 1);
}

// The answer names the new master, so leaving would only delay it.
BOOST_AUTO_TEST_CASE(an_announcement_ahead_of_an_answer_moves_nobody) {
  driver d;
  d.watch();
  d.ask();
  d.written();
  d.received(switched("mymaster"));
  d.received(address("10.0.0.2", 6380));
  BOOST_TEST(d.moves == 0);
  BOOST_TEST(d.was_told("10.0.0.2", 6380));
}

BOOST_AUTO_TEST_CASE(the_next_sentinel_is_asked_at_once_if_one_fails) {
  const std::string failures[] = {"",
                                  unknown_master,
                                  "-ERR No such master with that name\r\n",
                                  "-NOPERM no\r\n",
                                  address("", 6379),
                                  address("h", 0),
                                  "?\r\n"};
  for (const std::string& failure : failures) {
    BOOST_TEST_CONTEXT("failure '" << failure << "'") {
      driver d;
      d.ask();
      d.opened(error{});
      d.written();
      if (failure.empty()) {
        d.received_nothing();
      } else {
        d.received(sentinel_hello + subscribed + failure);
      }
      BOOST_TEST(d.host == "s2");
      d.opened(error::connection_refused);
      BOOST_TEST(d.host == "s3");
      d.opened(error{});
      d.written();
      d.received(sentinel_hello + subscribed + address("10.0.0.1", 6379));
      BOOST_TEST(d.was_told("10.0.0.1", 6379));
    }
  }
}

BOOST_AUTO_TEST_CASE(when_all_have_failed_the_last_reason_is_told_and_a_pause_follows) {
  driver d;
  d.ask();
  for (int i = 0; i < 2; ++i) d.opened(error::connection_refused);
  d.opened(error{});
  d.written();
  d.received("-WRONGPASS no\r\n");
  BOOST_TEST_REQUIRE(d.answer.has_value());
  BOOST_TEST((d.answer->failure == error::authentication_failed));
  BOOST_TEST((d.core.current() == state::pausing));
  BOOST_TEST(d.opens == 3);
  d.wait();
  BOOST_TEST(d.opens == 4);
  BOOST_TEST(d.host == "s1");
}

BOOST_AUTO_TEST_CASE(a_named_server_that_does_not_serve_makes_it_ask_another_sentinel) {
  driver d;
  d.watch();
  d.ask(true);
  BOOST_TEST(d.closes == 1);
  BOOST_TEST(d.host == "s2");
}

// It went ahead of the next connection's greeting.
BOOST_AUTO_TEST_CASE(a_question_that_was_not_sent_goes_with_its_connection) {
  driver d;
  d.watch();
  d.ask();
  d.ask();  // waits for the first one's write
  d.received_nothing();
  d.opened(error{});
  const auto question = d.writing->find("GET-MASTER-ADDR");
  BOOST_TEST(d.writing->find("HELLO") < question);
  BOOST_TEST(d.writing->find("GET-MASTER-ADDR", question + 1) == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_silent_sentinel_is_left) {
  driver d;
  d.watch();
  const auto begin = d.now;
  while (d.core.current() == state::watching) {
    if (d.writing) d.written();
    d.wait();
    BOOST_TEST_REQUIRE((d.now - begin < 1min));
  }
  BOOST_TEST((d.core.current() == state::pausing));
  d.wait();
  BOOST_TEST(d.host == "s2");
}

BOOST_AUTO_TEST_CASE(a_sentinel_that_answers_is_kept) {
  driver d;
  d.watch();
  for (const auto end = d.now + 1h; d.now < end;) {
    d.wait();
    if (!d.writing) continue;
    d.written();
    d.received(address("10.0.0.1", 6379));
  }
  BOOST_TEST(d.opens == 1);
  BOOST_TEST(d.moves == 0);
}

// The failover was announced while the store was between two Sentinels: it stayed at the old
// master for as long as that served.
BOOST_AUTO_TEST_CASE(a_failover_that_was_announced_without_a_connection_is_noticed) {
  driver d;
  d.watch();
  d.received_nothing();
  d.wait();
  BOOST_TEST(d.host == "s2");
  d.opened(error{});
  d.written();
  d.received(sentinel_hello + subscribed + address("10.0.0.2", 6380));
  BOOST_TEST(d.moves == 0);  // this Sentinel may be the one that does not know the master yet
  while (!d.writing) d.wait();
  BOOST_TEST(d.writing->find("GET-MASTER-ADDR") != std::string::npos);
  d.written();
  d.received(address("10.0.0.2", 6380));
  BOOST_TEST(d.moves == 1);
}

// It leads to the old master, which the other Sentinels are about to make a replica.
BOOST_AUTO_TEST_CASE(a_sentinel_that_names_another_master_once_moves_nobody) {
  driver d;
  d.watch();
  d.received_nothing();
  d.wait();
  d.opened(error{});
  d.written();
  d.received(sentinel_hello + subscribed + address("10.0.0.2", 6380));
  for (int i = 0; i < 3; ++i) {
    while (!d.writing) d.wait();
    d.written();
    d.received(address("10.0.0.1", 6379));
  }
  BOOST_TEST(d.moves == 0);
  BOOST_TEST(d.opens == 2);
}

// Each of them may be the one that is late.
BOOST_AUTO_TEST_CASE(two_sentinels_that_name_another_master_once_each_move_nobody) {
  driver d;
  d.watch();
  for (const char* next : {"s2", "s3"}) {
    d.received_nothing();
    d.wait();
    BOOST_TEST(d.host == next);
    d.opened(error{});
    d.written();
    d.now += 2s;
    d.received(sentinel_hello + subscribed + address("10.0.0.2", 6380));
  }
  BOOST_TEST(d.moves == 0);
}

// A Sentinel may be late for longer than a short ping_interval.
BOOST_AUTO_TEST_CASE(a_master_is_left_when_another_was_named_for_a_second) {
  redis_options o = three_sentinels();
  o.ping_interval = 10ms;
  driver d(o);
  d.watch();
  std::optional<moment> first;
  while (d.moves == 0) {
    d.wait();
    if (!d.writing) continue;
    if (!first) first = d.now;
    BOOST_TEST_REQUIRE((d.now <= *first + 2s));
    d.written();
    d.received(address("10.0.0.2", 6380));
  }
  BOOST_TEST((d.now >= *first + 1s));
}

BOOST_AUTO_TEST_CASE(a_reply_that_is_not_due_ends_the_connection) {
  driver d;
  d.watch();
  d.received("+OK\r\n");
  BOOST_TEST(d.closes == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sentinel_core_test

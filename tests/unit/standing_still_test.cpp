// A process that stood still, or a handler that held its thread, for longer than a call may take:
// the replies that have come meanwhile are read before calls expire.
#include "memcached_client.hpp"
#include "session_driver.hpp"
#include "support/test.hpp"

namespace standing_still_test {

using namespace weir;
using namespace weir::test;

BOOST_AUTO_TEST_SUITE(standing_still_suite)

// ---- Redis

namespace {
using weir::redis::test::driver;
using weir::redis::test::one_admitted;

struct redis_fixture : driver {
  redis_fixture() {
    become_ready();
    submit("sent", 100ms);
    write_succeeds();
  }
  auto& sent() { return checks.front(); }
  /// A call that no wake has sent yet.
  auto& start_unsent() {
    auto& c = checks.emplace_back(limiter, "unsent", 1, weir::detail::check_kind::record, 100ms);
    core.submit(c, now);
    return c;
  }
  bool is_served(fake_check& c) {
    write_succeeds();
    received(one_admitted);
    return done_with(c, {});
  }
};
}  // namespace

// A wake came before the reply that was waiting, and ended the call.
BOOST_FIXTURE_TEST_CASE(what_was_answered_meanwhile_is_read_before_it_expires, redis_fixture) {
  now += 200ms;
  auto& later = submit("later", 1s);
  wake();
  BOOST_TEST(sent().finished == 0);
  received(one_admitted);
  BOOST_TEST(done_with(sent(), {}));
  BOOST_TEST(is_served(later));
}

// With several threads, the timer came before the reply, too.
BOOST_FIXTURE_TEST_CASE(what_was_answered_meanwhile_is_read_although_the_timer_came,
                        redis_fixture) {
  stand_still(5s);
  now += 50ms;
  BOOST_TEST(sent().finished == 0);
  received(one_admitted);
  BOOST_TEST(done_with(sent(), {}));
}

// It had its time twice then, and no more.
BOOST_FIXTURE_TEST_CASE(what_was_not_answered_expires_as_much_later, redis_fixture) {
  stand_still(130ms);
  BOOST_TEST(sent().finished == 0);
  advance(30ms);
  BOOST_TEST(done_with(sent(), error::no_reply));
}
BOOST_FIXTURE_TEST_CASE(a_call_is_put_off_once_and_by_its_timeout, redis_fixture) {
  stand_still(5s);
  advance(99ms);
  BOOST_TEST(sent().finished == 0);
  stand_still(5s);
  BOOST_TEST(done_with(sent(), error::no_reply));
}

BOOST_FIXTURE_TEST_CASE(what_was_not_sent_yet_is_sent, redis_fixture) {
  auto& unsent = start_unsent();
  now += 200ms;
  wake();
  received(one_admitted);
  BOOST_TEST(is_served(unsent));
}

// A thread with much to do is always a little late.
BOOST_FIXTURE_TEST_CASE(a_wake_that_is_a_little_late_does_what_the_timer_would, redis_fixture) {
  now += 101ms;
  wake();
  BOOST_TEST(done_with(sent(), error::no_reply));
  submit("later");
  BOOST_TEST(writing.has_value());
}

// The replies looked as slow as the process had stood still: the next calls were held back, and
// expired.
BOOST_FIXTURE_TEST_CASE(what_was_answered_meanwhile_does_not_look_slow, redis_fixture) {
  received(one_admitted);
  constexpr int calls = 20;
  for (int i = 0; i < calls; ++i) {
    submit("s" + std::to_string(i), 500ms);
    write_succeeds();
  }
  stand_still(5s);
  for (int i = 0; i < calls; ++i) received(one_admitted);
  for (const char* subject : {"a", "b"}) {
    submit(subject, 400ms);
    BOOST_TEST_REQUIRE(writing.has_value());
    write_succeeds();
  }
}

// Each call that ended for it was held against the server.
BOOST_AUTO_TEST_CASE(a_standstill_opens_no_circuit) {
  redis_options o;
  o.breaker_failures = 1;
  driver d(o);
  d.become_ready();
  auto& sent = d.submit("a", o.timeout);
  d.write_succeeds();
  d.stand_still(5s);
  auto& next = d.submit("b", o.timeout);
  d.received(one_admitted);
  BOOST_TEST(done_with(sent, {}));
  d.write_succeeds();
  d.received(one_admitted);
  BOOST_TEST(done_with(next, {}));
}

// The connection had been made meanwhile, and was given up.
BOOST_AUTO_TEST_CASE(an_attempt_to_connect_is_not_given_up_for_a_standstill) {
  for (const bool greeting : {false, true}) {
    driver d;
    if (greeting) d.opened(error{});
    d.stand_still(d.options.connect_timeout + 1s);
    BOOST_TEST_REQUIRE((d.core.current() == (greeting ? weir::redis::test::state::greeting
                                                      : weir::redis::test::state::opening)));
    if (!greeting) d.opened(error{});
    d.write_succeeds();
    d.greet_back();
    BOOST_TEST((d.core.current() == weir::redis::test::state::ready));
  }
}
BOOST_AUTO_TEST_CASE(an_attempt_to_connect_is_put_off_once) {
  driver d;
  d.stand_still(d.options.connect_timeout + 1s);
  d.stand_still(10s);
  BOOST_TEST(d.closes == 1);
}

static weir::test::fake_check& sent_acquire(driver& d) {
  d.become_ready();
  auto& c = d.start(
      d.checks.emplace_back(d.limiter, "a", 1, weir::detail::check_kind::acquire, 1h));
  d.write_succeeds();
  return c;
}

// A store that closed gave up what had been answered: its callers got outcome_unknown.
BOOST_AUTO_TEST_CASE(a_closing_store_reads_before_it_gives_up) {
  driver d;
  auto& c = sent_acquire(d);
  d.core.close(d.now);
  d.stand_still(5s);
  BOOST_TEST(c.finished == 0);
  BOOST_TEST((d.core.current() == weir::redis::test::state::ready));
  d.stand_still(5s);
  BOOST_TEST(done_with(c, error::outcome_unknown));
  BOOST_TEST((d.core.current() != weir::redis::test::state::ready));
}

// The look at the silence had been put off before, and no reply had come since.
BOOST_AUTO_TEST_CASE(the_end_of_a_closing_store_has_a_put_off_of_its_own) {
  redis_options o;
  o.ping_interval = 1s;
  o.silence_timeout = 1h;
  driver d(o);
  auto& c = sent_acquire(d);
  d.stand_still(5s);
  d.core.close(d.now);
  d.stand_still(5s);
  BOOST_TEST(c.finished == 0);
  BOOST_TEST((d.core.current() == weir::redis::test::state::ready));
  d.stand_still(5s);
  BOOST_TEST(done_with(c, error::outcome_unknown));
}

BOOST_FIXTURE_TEST_CASE(a_store_that_closes_stops_although_its_timer_is_late, redis_fixture) {
  core.close(now);
  core.stop_when_idle();
  stand_still(1h);
  BOOST_TEST((core.current() == weir::redis::test::state::stopped));
  BOOST_TEST(sent().finished == 1);
}

// ---- Memcached

namespace {
using weir::detail::check_kind;
using weir::memcached::test::client;

struct memcached_fixture : weir::memcached::test::core_fixture {
  client one{server, options};
  fake_check& c = checks.add(limit_3, "a", check_kind::record, 1, 100ms);

  memcached_fixture() { one.settle(); }
  void wake() {
    one.core.on_time(one.now);
    one.pump();
  }
};
}  // namespace

BOOST_FIXTURE_TEST_CASE(the_answer_of_a_store_is_read_before_its_call_expires, memcached_fixture) {
  one.submit(c);
  one.send();
  one.serve();
  one.receive();
  one.send();
  one.serve();
  BOOST_TEST(server.stores == 1);
  one.now += 200ms;
  wake();
  one.receive();
  BOOST_TEST(done_with(c, {}));
  BOOST_TEST(c.answer.used == 1);
}

// Half of the calls under way had only asked for the value, and timed out.
BOOST_FIXTURE_TEST_CASE(a_value_that_was_read_meanwhile_is_still_used, memcached_fixture) {
  one.submit(c);
  one.send();
  one.serve();
  one.now += 200ms;
  wake();
  one.settle();
  BOOST_TEST(done_with(c, {}));
  BOOST_TEST(server.stores == 1);
}
// The read may come before the timer.
BOOST_FIXTURE_TEST_CASE(a_value_that_is_read_before_the_timer_is_used_too, memcached_fixture) {
  one.submit(c);
  one.send();
  one.serve();
  one.now += 200ms;
  one.receive();
  one.settle();
  BOOST_TEST(done_with(c, {}));
}

BOOST_FIXTURE_TEST_CASE(what_was_not_sent_to_memcached_yet_is_sent, memcached_fixture) {
  std::string key;
  c.check().limiter->append_subject_key(key, "a");
  one.core.submit(c, key, one.now);
  one.now += 200ms;
  wake();
  one.settle();
  BOOST_TEST(done_with(c, {}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace standing_still_test

// A process that stood still, or a handler that held its thread, for longer than a call may take:
// the replies that have come meanwhile are read before calls expire.
#include <boost/test/unit_test.hpp>
#include <string>

#include "memcached_client.hpp"
#include "session_driver.hpp"

namespace standing_still_test {

using namespace std::chrono_literals;
using weir::error;

BOOST_AUTO_TEST_SUITE(standing_still_suite)

// ---- Redis

namespace {
using weir::redis::test::driver;
using weir::redis::test::one_admitted;
using weir::test::done_with;

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
  bool is_served(weir::test::fake_check& c) {
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
  BOOST_TEST(!writing.has_value());
  wait();
  BOOST_TEST(is_served(later));
}

BOOST_FIXTURE_TEST_CASE(what_was_not_answered_expires_with_the_timer, redis_fixture) {
  now += 200ms;
  wake();
  BOOST_TEST(sent().finished == 0);
  wait();
  BOOST_TEST(done_with(sent(), error::no_reply));
}

BOOST_FIXTURE_TEST_CASE(what_expired_unsent_is_not_sent, redis_fixture) {
  auto& unsent = start_unsent();
  now += 200ms;
  wake();
  received(one_admitted);
  BOOST_TEST(!writing.has_value());
  wait();
  BOOST_TEST(done_with(unsent, error::timed_out));
  BOOST_TEST(!writing.has_value());
}

// No reply can be waiting, so the timer would find no more.
BOOST_FIXTURE_TEST_CASE(without_a_reply_due_a_wake_judges_at_once, redis_fixture) {
  received(one_admitted);
  auto& unsent = start_unsent();
  now += 200ms;
  auto& later = submit("later", 1s);
  BOOST_TEST(!writing.has_value());
  wake();
  BOOST_TEST(done_with(unsent, error::timed_out));
  BOOST_TEST(is_served(later));
}

// A thread with much to do is always a little late.
BOOST_FIXTURE_TEST_CASE(a_wake_that_is_a_little_late_does_what_the_timer_would, redis_fixture) {
  now += 101ms;
  wake();
  BOOST_TEST(done_with(sent(), error::no_reply));
  submit("later");
  BOOST_TEST(writing.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_store_that_closes_stops_although_its_timer_is_late, redis_fixture) {
  core.close(now);
  core.stop_when_idle();
  now += 1h;
  wake();
  BOOST_TEST((core.current() == weir::redis::test::state::stopped));
  BOOST_TEST(sent().finished == 1);
}

// ---- Memcached

namespace {
using weir::detail::check_kind;
using weir::memcached::test::client;

struct memcached_fixture : weir::memcached::test::core_fixture {
  client one{server, options};
  weir::test::fake_check& c = checks.add(limit_3, "a", check_kind::record, 1, 100ms);

  memcached_fixture() { one.settle(); }
  void wake() {
    one.core.woken(one.now);
    one.act();
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

// The value that was read is not stored for a call that is too late for the answer.
BOOST_FIXTURE_TEST_CASE(what_expired_before_its_value_was_read_counts_nothing, memcached_fixture) {
  one.submit(c);
  one.send();
  one.serve();
  one.now += 200ms;
  wake();
  one.receive();
  BOOST_TEST(!one.send());
  one.wake();
  BOOST_TEST(done_with(c, error::timed_out));
  one.settle();
  BOOST_TEST(server.stores == 0);
}

// Each of them was held against the server, which had answered.
BOOST_FIXTURE_TEST_CASE(values_that_came_too_late_open_no_circuit, memcached_fixture) {
  weir::memcached_options o = options;
  o.breaker_failures = 2;
  client careful(server, o);
  careful.settle();
  for (const char* subject : {"b", "c", "d"}) {
    careful.submit(checks.add(limit_3, subject, check_kind::record, 1, o.timeout));
  }
  while (careful.send()) {
  }
  careful.serve();
  careful.now += 2 * o.timeout;
  careful.receive();
  BOOST_TEST(checks.failed(error::timed_out) == 3);
  auto& next = checks.add(limit_3, "e", check_kind::record, 1, o.timeout);
  careful.wake();
  careful.submit(next);
  careful.settle();
  BOOST_TEST(done_with(next, {}));
}

BOOST_FIXTURE_TEST_CASE(what_expired_unsent_is_not_sent_to_memcached, memcached_fixture) {
  std::string key;
  c.check().limiter->append_subject_key(key, "a");
  one.core.submit(c, key, one.now);
  one.now += 200ms;
  wake();
  BOOST_TEST(!one.send());
  one.wake();
  BOOST_TEST(done_with(c, error::timed_out));
  BOOST_TEST(!one.send());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace standing_still_test

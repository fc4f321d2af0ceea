// A process that stood still, or a handler that held its thread, for longer than deadlines and
// silence allow: what has come meanwhile is read before anything is judged.
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
using weir::redis::test::moment;
using weir::redis::test::one_admitted;
using weir::redis::test::state;
using weir::test::done_with;
}  // namespace

// Its first wake came before the reply that was waiting, and ended the call.
BOOST_AUTO_TEST_CASE(a_process_that_stood_still_reads_before_calls_expire) {
  driver d;
  d.become_ready();
  auto& answered = d.submit("a", 100ms);
  d.write_succeeds();
  d.stand_still(200ms);
  d.received(one_admitted);
  BOOST_TEST(done_with(answered, {}));
  while (d.core.wakeup() <= d.now) d.wait();
  // If no reply is waiting, the call ends at once.
  auto& unanswered = d.submit("b", 100ms);
  d.write_succeeds();
  d.stand_still(200ms);
  BOOST_TEST(unanswered.finished == 0);
  BOOST_TEST((d.core.wakeup() <= d.now));
  d.wait();
  BOOST_TEST(done_with(unanswered, error::no_reply));
}

// A reply that is read may make room for the next: a TLS record, a buffer.
BOOST_AUTO_TEST_CASE(a_process_that_stood_still_looks_again_while_it_reads) {
  weir::redis_options o;
  o.max_keys_per_call = 1;
  driver d(o);
  d.become_ready();
  for (int i = 0; i < 4; ++i) d.submit(std::to_string(i), 100ms);
  while (d.writing) d.write_succeeds();
  d.now += 200ms;
  for (std::size_t i = 0; i < 3; ++i) {
    d.wait();
    d.received(one_admitted);
    BOOST_TEST(done_with(d.checks[i], {}));
  }
  d.wait();
  BOOST_TEST(d.checks[3].finished == 0);
  d.wait();  // nothing was read since the last look
  BOOST_TEST(done_with(d.checks[3], error::no_reply));
}

// However many replies come, deadlines are kept: a thread that is always late has them, too.
BOOST_AUTO_TEST_CASE(late_looks_come_to_an_end) {
  weir::redis_options o;
  o.max_keys_per_call = 1;
  driver d(o);
  d.become_ready();
  for (int i = 0; i < 50; ++i) d.submit(std::to_string(i), 100ms);
  while (d.writing) d.write_succeeds();
  d.now += 200ms;
  int looks = 0;
  for (; d.checks[49].finished == 0 && looks < 50; ++looks) {
    d.wait();
    if (d.checks[49].finished == 0) d.received(one_admitted);
  }
  BOOST_TEST(looks < 20);
  BOOST_TEST(done_with(d.checks[49], error::no_reply));
}

// The wake behind the standstill sent it, so it counted, and ended with no_reply.
BOOST_AUTO_TEST_CASE(a_call_that_expired_unsent_is_not_sent) {
  driver d;
  d.become_ready();
  auto& c = d.checks.emplace_back(d.limiter, "a", 1, weir::detail::check_kind::record, 100ms);
  d.core.submit(c, d.now);
  d.core.woken(d.now += 200ms);
  d.pump();
  BOOST_TEST(!d.writing.has_value());
  BOOST_TEST(done_with(c, error::timed_out));
}

// Its first wake came before the reply that was waiting, and gave a healthy connection up.
BOOST_AUTO_TEST_CASE(a_process_that_stood_still_reads_before_it_gives_up) {
  weir::redis_options o;
  o.ping_interval = 1h;
  driver d(o);
  d.become_ready();
  auto& c = d.submit("a", 1h);
  d.write_succeeds();
  d.stand_still(d.options.silence_timeout + 60ms);
  BOOST_TEST_REQUIRE((d.core.current() == state::ready));
  d.received(one_admitted);
  BOOST_TEST(done_with(c, {}));
  while (d.core.wakeup() <= d.now) d.wait();
  // If no reply is waiting, the server is the silent one.
  d.submit("b", 1h);
  d.write_succeeds();
  d.stand_still(2 * d.options.silence_timeout);
  BOOST_TEST_REQUIRE((d.core.current() == state::ready));
  const moment awake = d.now;
  while (d.core.current() == state::ready) d.wait();
  BOOST_TEST((d.now - awake <= d.options.silence_timeout));
  BOOST_TEST((d.now - awake >= d.options.silence_timeout / 2));
}

// ---- Memcached

namespace {
using memcached = weir::memcached::test::core_fixture;
using weir::detail::check_kind;
using weir::memcached::test::client;
}  // namespace

BOOST_FIXTURE_TEST_CASE(a_call_of_memcached_that_expired_unsent_is_not_sent, memcached) {
  client one(server, options);
  one.settle();
  auto& c = checks.add(limit_3, "a", check_kind::record, 1, 100ms);
  std::string key;
  c.check().limiter->append_subject_key(key, "a");
  one.core.submit(c, key, one.now);
  one.core.woken(one.now += 200ms);
  one.act();
  BOOST_TEST(!one.send());
  WEIR_TEST_ERROR(c.ec, error::timed_out);
}

// The value that was read is not stored for a call that is too late for the answer.
BOOST_FIXTURE_TEST_CASE(a_call_that_expired_before_its_value_was_read_counts_nothing, memcached) {
  client one(server, options);
  one.settle();
  auto& c = checks.add(limit_3, "a", check_kind::record, 1, 100ms);
  one.submit(c);
  one.send();
  one.serve();
  one.now += 200ms;
  one.receive();
  WEIR_TEST_ERROR(c.ec, error::timed_out);
  one.settle();
  BOOST_TEST(server.stores == 0);
}

BOOST_FIXTURE_TEST_CASE(the_answer_of_a_store_is_read_before_its_call_expires, memcached) {
  client one(server, options);
  one.settle();
  auto& c = checks.add(limit_3, "a", check_kind::record, 1, 100ms);
  one.submit(c);
  one.send();
  one.serve();
  one.receive();
  one.send();
  one.serve();
  BOOST_TEST(server.stores == 1);
  one.pass_time(200ms);
  one.receive();
  BOOST_TEST(!c.ec);
  BOOST_TEST(c.answer.used == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace standing_still_test

// A store that cannot say: what the failure policy makes of it, the circuit breaker, and links that
// die without a word.
#include <boost/test/unit_test.hpp>
#include <string>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace outage_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::condition;
using weir::error;
using weir::on_failure;
using weir::test::crowd;
using weir::test::redis_server;
using weir::test::run_until;
using weir::test::run_until_complete;

const weir::policy eight = weir::fixed_window{.limit = 8, .window = 24h};

struct fixture {
  redis_server server;
  asio::io_context io;
  weir::redis_options options = weir::test::patient_options(server);

  weir::limiter open(on_failure what = on_failure::raise) {
    return weir::limiter(weir::make_redis_store(io.get_executor(), options), "r", eight,
                         {.on_failure = what, .process_count = 4});
  }
  weir::test::outcome record(const weir::limiter& l, std::chrono::microseconds timeout = 0us) {
    crowd c;
    l.record("a", {.timeout = timeout}, c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c[0].times == 1);
    return c[0];
  }
  weir::limiter connected() {
    const auto l = open();
    BOOST_TEST(!record(l, 50s).ec.failed());
    return l;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(outage_suite, fixture)

BOOST_AUTO_TEST_CASE(failures_become_what_was_asked_for) {
  server.kill();
  options.timeout = 200ms;  // within which the refusal has come, also on a busy machine
  WEIR_TEST_ERROR(record(open()).ec, error::connection_refused);

  const auto pass = record(open(on_failure::open));
  BOOST_TEST(!pass.ec.failed());
  BOOST_TEST(pass.d.allowed);
  BOOST_TEST((pass.d.source == weir::source::fallback));

  const auto stop = record(open(on_failure::closed));
  BOOST_TEST(!stop.ec.failed());
  BOOST_TEST(!stop.d.allowed);
  BOOST_TEST((stop.d.source == weir::source::fallback));
  BOOST_TEST(stop.d.retry_after.count() > 0);
}

// A quarter of the limit, counted here; and the store's count again once it is back.
BOOST_AUTO_TEST_CASE(the_fallback_counts_its_share_until_the_store_is_back) {
  server.kill();
  const weir::store store = weir::make_redis_store(io.get_executor(), options);
  const weir::limiter l(store, "r", eight,
                        {.on_failure = on_failure::fallback, .process_count = 4});
  for (int i = 1; i <= 4; ++i) {
    const auto o = record(l, 10ms);
    BOOST_TEST(!o.ec.failed());
    BOOST_TEST(o.d.allowed == (i <= 2));
    BOOST_TEST((o.d.source == weir::source::fallback));
  }
  server.restart();
  // Counts one unit as soon as there is a connection.
  const weir::limiter raises(store, "r", eight);
  run_until(io, [&] { return !record(raises, 50s).ec; });
  const auto o = record(l);
  BOOST_TEST((o.d.source == weir::source::store));
  BOOST_TEST(o.d.used == 2);
}

BOOST_AUTO_TEST_CASE(mistakes_and_refusals_are_no_failures) {
  const auto l = open(on_failure::open);
  crowd c;
  for (int i = 0; i < 9; ++i) l.record("a", c.caller());
  l.record("", c.caller());
  l.record("a", {.cost = 9}, c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 8u);
  BOOST_TEST(!c[8].d.allowed);
  BOOST_TEST((c[8].d.source == weir::source::store));
  WEIR_TEST_ERROR(c[9].ec, error::invalid_subject);
  WEIR_TEST_ERROR(c[10].ec, error::cost_exceeds_limit);
}

// Eight calls, one after the other, took 4 s: each waited for its timeout.
BOOST_AUTO_TEST_CASE(calls_end_at_once_while_a_server_is_known_to_be_away) {
  options.timeout = 200ms;
  options.backoff_min = options.backoff_max = 50ms;
  const auto l = connected();
  server.kill();
  run_until(io, [&] { return record(l).ec == error::connection_refused; });
  for (int i = 0; i < 8; ++i) WEIR_TEST_ERROR(record(l, 1h).ec, error::connection_refused);
  // An acquire goes on.
  crowd waiting;
  l.acquire("a", {.max_wait = 50s}, waiting.caller());
  server.restart();
  run_until_complete(io, waiting);
  BOOST_TEST(waiting.allowed() == 1u);
}

// For the first 2 s, each call had timed out.
BOOST_AUTO_TEST_CASE(calls_to_a_server_without_tls_learn_so_at_their_deadline) {
  options.tls = true;
  options.timeout = 200ms;
  options.connect_timeout = 50s;
  const auto l = open();
  for (int i = 0; i < 3; ++i) WEIR_TEST_ERROR(record(l).ec, error::tls_failed);
}

BOOST_AUTO_TEST_CASE(the_circuit_opens_after_calls_without_an_answer) {
  options.timeout = 5ms;
  options.breaker_failures = 5;
  options.breaker_pause = 1h;  // no probe in this test
  const auto l = connected();
  server.pause();
  // On a busy machine, 5 ms may pass before a call is sent.
  run_until(io, [&] {
    const auto ec = record(l).ec;
    if (ec != error::timed_out) WEIR_TEST_ERROR(ec, error::no_reply);
    return ec == error::no_reply;
  });
  const auto left_alone = record(l, 50s);
  WEIR_TEST_ERROR(left_alone.ec, error::circuit_open);
  BOOST_CHECK(left_alone.ec == condition::not_counted);
  // The late replies are a success, too: the store lives.
  server.resume();
  run_until(io, [&] { return !record(l, 50s).ec; });
}

BOOST_AUTO_TEST_CASE(a_probe_closes_the_circuit) {
  options.timeout = 5ms;
  options.breaker_failures = 3;
  options.breaker_pause = 1ms;
  server.kill();
  const auto l = open();
  for (int i = 0; i < 3; ++i) {
    const weir::error_code ec = record(l).ec;
    // A call may end before the first attempt to connect does.
    if (ec != error::timed_out) WEIR_TEST_ERROR(ec, error::connection_refused);
  }
  server.restart();
  run_until(io, [&] {
    const auto ec = record(l, 50s).ec;
    // The last attempt to connect may have been one too early.
    if (ec != error::connection_refused && ec) WEIR_TEST_ERROR(ec, error::circuit_open);
    return !ec;
  });
}

// Refusals and error replies are answers: they open no circuit.
BOOST_AUTO_TEST_CASE(a_server_that_says_no_is_not_left_alone) {
  options.breaker_failures = 3;
  options.breaker_pause = 1h;
  const auto l = connected();
  weir::test::redis_client client(server);
  client.must("CONFIG", "SET", "maxmemory", "1");
  for (int i = 0; i < 10; ++i) WEIR_TEST_ERROR(record(l).ec, error::out_of_memory);
  client.must("CONFIG", "SET", "maxmemory", "0");
  for (int i = 0; i < 20; ++i) BOOST_TEST(!record(l).ec.failed());
}

// The far end of a dead link says nothing, not even that it is gone.
BOOST_AUTO_TEST_CASE(a_silent_connection_is_given_up) {
  options.silence_timeout = 40ms;
  options.connect_timeout = 40ms;
  const auto l = connected();
  server.pause();
  const auto o = record(l);  // its own deadline is far away
  WEIR_TEST_ERROR(o.ec, error::outcome_unknown);
  crowd waiting;
  l.record("b", waiting.caller());
  io.restart();
  io.poll();
  server.resume();
  run_until_complete(io, waiting);
  BOOST_TEST(waiting[0].d.used == 1);
}

BOOST_AUTO_TEST_CASE(an_idle_connection_is_asked_for_a_sign_of_life) {
  options.ping_interval = 10ms;
  const auto l = connected();
  weir::test::redis_client client(server);
  const auto clients = [&] { return client.must("CLIENT", "LIST", "TYPE", "normal").text; };
  const auto id = [&] {
    const std::string list = clients();
    const auto at = list.find("name=weir");
    const auto begin = list.rfind("id=", at);
    return list.substr(begin, list.find(' ', begin) - begin);
  };
  const std::string before = id();
  run_until(io, [&] { return clients().find("cmd=ping") != std::string::npos; });
  BOOST_TEST(id() == before);  // and it stays the same while it answers
}

// It heard of the time-out of its first question, though it would have waited for much longer.
BOOST_AUTO_TEST_CASE(acquire_outlives_an_outage_within_its_max_wait) {
  server.kill();
  const auto l = open();
  crowd patient, hurried;
  for (int i = 0; i < 3; ++i) {
    l.acquire("a", {.max_wait = 50s, .timeout = 1s}, patient.caller());
  }
  l.acquire("a", {.max_wait = 100ms, .timeout = 100ms}, hurried.caller());
  WEIR_TEST_ERROR(record(l, 1200ms).ec, error::connection_refused);
  BOOST_TEST(patient.answered() == 0u);
  BOOST_TEST(hurried.failed(error::connection_refused) == 1u);
  server.restart();
  run_until_complete(io, patient);
  BOOST_TEST(patient.allowed() == 3u);
  BOOST_TEST(record(l).d.used == 4);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace outage_test

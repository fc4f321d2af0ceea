// A store that cannot say: the circuit breaker, and calls that end at once or wait for it. What
// failure policies make of it is in fault.recovery, and links that die in fault.links.
#include "support/run.hpp"
#include "support/stores.hpp"

namespace outage_test {

using namespace weir;
using namespace weir::test;

const policy eight = fixed_window{.limit = 8, .window = 24h};

struct fixture {
  redis_server server;
  asio::io_context io;
  redis_options options = patient_options(server);

  limiter open(on_failure what = on_failure::raise) {
    return limiter(make_redis_store(io.get_executor(), options), "r", eight,
                   {.on_failure = what, .process_count = 4});
  }
  outcome record(const limiter& l, std::chrono::microseconds timeout = 0us) {
    crowd c;
    l.record("a", {.timeout = timeout}, c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c[0].times == 1);
    return c[0];
  }
  limiter connected() {
    const auto l = open();
    BOOST_TEST(!record(l, 50s).ec.failed());
    return l;
  }
};

BOOST_FIXTURE_TEST_SUITE(outage_suite, fixture)

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

// Refusals and error replies are answers: they open no circuit.
BOOST_AUTO_TEST_CASE(a_server_that_says_no_is_not_left_alone) {
  options.breaker_failures = 3;
  options.breaker_pause = 1h;
  const auto l = connected();
  redis_client client(server);
  client.must("CONFIG", "SET", "maxmemory", "1");
  for (int i = 0; i < 10; ++i) WEIR_TEST_ERROR(record(l).ec, error::out_of_memory);
  client.must("CONFIG", "SET", "maxmemory", "0");
  for (int i = 0; i < 20; ++i) BOOST_TEST(!record(l).ec.failed());
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

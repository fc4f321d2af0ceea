// What a store tells of its connections: statistics and events, on real servers.
#include "support/limiter_fixture.hpp"
#include "support/memcached_server.hpp"
#include "support/sentinel_group.hpp"

namespace observation_test {

using namespace weir;
using namespace weir::test;

const fixed_window plenty{.limit = 1'000'000, .window = 1h};

struct fixture : server_fixture {
  std::vector<event> told;

  event_handler noting() {
    return [this](const event& e) { told.push_back(e); };
  }
  bool was_told(event_kind what) const {
    return std::ranges::any_of(told, [what](const event& e) { return e.what == what; });
  }
  void await_event(event_kind what) {
    run_until(io, [&] { return was_told(what); });
  }
  store watched(redis_options options) {
    options.on_event = noting();
    return make_redis_store(io.get_executor(), std::move(options));
  }
};

BOOST_FIXTURE_TEST_SUITE(observation_suite, fixture)

BOOST_AUTO_TEST_CASE(the_sums_are_what_the_callers_saw) {
  const store s = open();
  const limiter l(s, "r", fixed_window{.limit = 700, .window = 1h});
  const limiter other(s, "other", plenty);
  crowd c;
  for (int i = 0; i < 1000; ++i) {
    l.record("a", c.caller());
    other.record("s" + std::to_string(i), c.caller());
  }
  run_until_complete(io, c);
  BOOST_TEST(l.stats().calls.all_allowed() == 700u);
  BOOST_TEST(l.stats().calls.all_refused() == 300u);
  const store_stats stats = s.stats();
  BOOST_TEST(stats.calls.all_allowed() == c.allowed());
  BOOST_TEST(stats.calls.all_refused() == c.refused());
  BOOST_TEST(stats.pending() == 0u);
  BOOST_TEST_REQUIRE(stats.connections.size() == 1u);
  const connection_stats& link = stats.connections[0];
  BOOST_TEST(link.address == "127.0.0.1:" + std::to_string(server.port()));
  BOOST_TEST((link.state == connection_state::ready));
  BOOST_TEST(link.connects == 1u);
  BOOST_TEST(link.lost.empty());
  BOOST_TEST((link.last_error == error{}));
  BOOST_TEST(link.checks == 2000u);
  BOOST_TEST(static_cast<std::int64_t>(link.requests) == script_calls());
  BOOST_TEST(link.scripts_sent == 1u);
  BOOST_TEST(link.round_trips.count() == link.requests);
  BOOST_TEST((link.round_trips.quantile(0.5) > 0us));
}

BOOST_AUTO_TEST_CASE(a_server_that_dies_and_comes_back_is_told_once_each) {
  const store s = watched(patient_options(server));
  await_event(event_kind::connected);
  server.kill();
  await_event(event_kind::connection_lost);
  BOOST_TEST((told.back().cause == error::closed_by_peer));
  poll_until([&] { return s.stats().connections[0].last_error == error::connection_refused; });
  BOOST_TEST((s.stats().connections[0].state != connection_state::ready));
  told.clear();
  server.restart();
  await_event(event_kind::connected);
  const auto link = s.stats().connections[0];
  BOOST_TEST(told.size() == 1u);
  BOOST_TEST(told[0].address == link.address);
  BOOST_TEST((link.state == connection_state::ready));
  BOOST_TEST(link.connects == 2u);
  BOOST_TEST_REQUIRE(link.lost.size() == 1u);
  BOOST_TEST((link.lost[0] == std::pair{error::closed_by_peer, std::uint64_t{1}}));
}

BOOST_AUTO_TEST_CASE(a_silent_server_opens_the_circuit_and_is_given_up) {
  redis_options options = parse_redis_url(server.url());
  options.timeout = 50ms;
  options.silence_timeout = 300ms;
  const store s = watched(std::move(options));
  const limiter l(s, "r", plenty);
  await_event(event_kind::connected);
  server.pause();
  crowd c;
  l.record("a", c.caller());
  run_until_complete(io, c);
  await_event(event_kind::circuit_opened);
  BOOST_TEST(s.stats().connections[0].is_circuit_open);
  await_event(event_kind::connection_lost);
  BOOST_TEST((told.back().cause == error::no_reply));
  server.resume();
  poll_until([&] {
    l.record("a", c.caller());
    run_until_complete(io, c);
    return !c[c.size() - 1].ec;
  });
  await_event(event_kind::circuit_closed);
  BOOST_TEST(!s.stats().connections[0].is_circuit_open);
  BOOST_TEST(l.stats().calls.all_failed() == c.size() - c.allowed());
}

BOOST_AUTO_TEST_CASE(a_ping_answers_or_says_why_not) {
  const store s = open();
  BOOST_TEST(!outcome_of([&](auto handler) { s.ping(2s, handler); }).ec.failed());
  BOOST_TEST(client.must("DBSIZE").integer == 0);  // it writes nothing
  server.kill();
  const store other = make_redis_store(io.get_executor(), patient_options(server));
  const outcome o = outcome_of([&](auto handler) { other.ping(300ms, handler); });
  WEIR_TEST_ERROR(o.ec, error::connection_refused);
}

BOOST_AUTO_TEST_CASE(without_its_context_a_store_tells_of_calls_only) {
  auto other = std::make_unique<asio::io_context>();
  const store s = make_redis_store(other->get_executor(), patient_options(server));
  const limiter l(s, "r", plenty);
  crowd c;
  l.record("a", c.caller());
  run_until_complete(*other, c);
  BOOST_TEST(s.stats().connections.size() == 1u);
  other.reset();
  BOOST_TEST(s.stats().connections.empty());
  BOOST_TEST(s.stats().calls.all_allowed() == 1u);
}

BOOST_AUTO_TEST_CASE(a_failover_is_told) {
  sentinel_group group;
  const store s = watched(group.options());
  await_event(event_kind::connected);
  told.clear();
  group.fail_over();
  await_event(event_kind::failed_over);
  await_event(event_kind::connected);
  BOOST_TEST(s.stats().connections[0].address == told.back().address);
}

BOOST_AUTO_TEST_CASE(memcached_tells_the_same) {
  memcached_server_process memcached;
  memcached_options options = memcached.patient_options();
  options.on_event = noting();
  const store s = make_memcached_store(io.get_executor(), std::move(options));
  const limiter l(s, "r", plenty);
  crowd c;
  for (int i = 0; i < 10; ++i) l.record("s" + std::to_string(i), c.caller());
  run_until_complete(io, c);
  await_event(event_kind::connected);
  const connection_stats link = s.stats().connections.at(0);
  BOOST_TEST(link.checks == 10u);
  BOOST_TEST(link.requests == 20u);  // a get and a store for each
  BOOST_TEST((link.state == connection_state::ready));
  memcached.kill();
  await_event(event_kind::connection_lost);
  BOOST_TEST(told.back().address == link.address);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace observation_test

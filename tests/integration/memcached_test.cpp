// A store on a real memcached: what differs from the other stores, and what servers do: restart,
// evict, flush, stop. integration.limiter has every policy, model.memcached_trace every call.
#include "support/leases.hpp"
#include "support/memcached_fixture.hpp"

namespace memcached_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(memcached_suite, memcached_fixture)

BOOST_AUTO_TEST_CASE(subjects_that_memcached_takes_for_no_key) {
  const store s = open();
  limiter l(s, "a resource with spaces", fixed_window{.limit = 2, .window = 24h});
  const std::vector<std::string> subjects = {"a b",
                                             "line\r\nflush_all\r\n",
                                             std::string("nul\0", 4),
                                             "\xc3\xa4\xc3\xb6",
                                             std::string(300, 'x'),
                                             std::string(300, 'x') + "y",
                                             std::string(60'000, 'z'),
                                             "{}%"};
  for (const std::string& subject : subjects) {
    for (int i = 0; i < 3; ++i) BOOST_TEST(record(l, subject).allowed == (i < 2));
  }
}

BOOST_AUTO_TEST_CASE(acquire_waits_for_its_turn) {
  const store s = open();
  limiter l(s, "r", token_bucket{.capacity = 1, .refill = per_second(50)});
  const auto begin = std::chrono::steady_clock::now();
  crowd c;
  for (int i = 0; i < 6; ++i) l.acquire("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 6u);
  BOOST_TEST((std::chrono::steady_clock::now() - begin >= 99ms));
  // A turn beyond max_wait is not reserved.
  limiter slow(s, "slow", token_bucket{.capacity = 1, .refill = per_day(1)});
  BOOST_TEST(record(slow, "a").allowed);
  const decision far = answer([&](auto handler) { slow.acquire("a", {.max_wait = 1s}, handler); });
  BOOST_TEST(!far.allowed);
}

BOOST_AUTO_TEST_CASE(a_cancelled_reservation_is_given_back) {
  const store s = open();
  limiter l(s, "r", token_bucket{.capacity = 1, .refill = {1, 5s}});
  BOOST_TEST(record(l, "a").allowed);
  cancellable_crowd waiting;
  l.acquire("a", {.max_wait = 20s}, waiting.caller());
  const auto is_reserved = [&] {
    return answer([&](auto handler) { l.fetch("a", handler); }).retry_after > 6s;
  };
  poll_until(is_reserved);
  waiting.cancel_all();
  run_until_complete(io, waiting.c);
  WEIR_TEST_ERROR(waiting.c[0].ec, boost::asio::error::operation_aborted);
  poll_until([&] { return !is_reserved(); });
}

BOOST_AUTO_TEST_CASE(leases_bound_what_is_in_flight) {
  const concurrency_limiter gate(open(), "gate", {.limit = 2, .lease_duration = 30s});
  lease one = enter(io, gate, "a"), two = enter(io, gate, "a");
  BOOST_TEST((one.is_held() && two.is_held()));
  BOOST_TEST(!enter(io, gate, "a").is_held());
  two.release();
  poll_until([&] { return enter(io, gate, "a").is_held(); });
}

BOOST_AUTO_TEST_CASE(joint_calls_are_refused) {
  const store s = open();
  limiter one(s, "one", fixed_window{.limit = 10, .window = 24h}, {.group = "g"});
  limiter two(s, "two", fixed_window{.limit = 10, .window = 24h}, {.group = "g"});
  const outcome o = outcome_of(
      [&](auto handler) { record_all(one.on("a"), two.on("b"), handler); });
  WEIR_TEST_ERROR(o.ec, error::joint_not_supported);
  BOOST_TEST((o.ec == condition::invalid_input));
  BOOST_TEST(record(one, "a").used == 1);
}

BOOST_AUTO_TEST_CASE(states_have_an_expiry) {
  const std::string key = "weir:{r:expiry}";
  const store s = make_memcached_store(io.get_executor(), server().patient_options());
  const auto left = [&] {
    const std::string reply = server().ask("mg " + key + " t\r\n");
    return std::stoll(reply.substr(reply.find('t') + 1));
  };
  limiter l(s, "r", fixed_window{.limit = 10, .window = 100s});
  record(l, "expiry");
  BOOST_TEST((left() >= 101 && left() <= 104));
  limiter longer(s, "r", sliding_log{.limit = 10, .window = 24h * 40});
  record(longer, "expiry");
  BOOST_TEST((left() >= 40 * 86'400 && left() <= 40 * 86'400 + 20));
}

// The value of a later version of weir stays as it is, byte for byte, until a reset.
BOOST_AUTO_TEST_CASE(a_state_of_the_future_is_not_touched_until_a_reset) {
  const store s = make_memcached_store(io.get_executor(), server().patient_options());
  limiter l(s, "r", fixed_window{.limit = 10, .window = 24h});
  server().ask("ms weir:{r:future} 6 T100\r\n\x02later\r\n");
  WEIR_TEST_ERROR(error_of_record(l, "future"), error::newer_state);
  BOOST_TEST(server().ask("mg weir:{r:future} v\r\n", "later\r\n") == "VA 6\r\n\x02later\r\n");
  BOOST_TEST(!outcome_of([&](auto handler) { l.reset("future", handler); }).ec.failed());
  BOOST_TEST(record(l, "future").used == 1);
}

BOOST_AUTO_TEST_CASE(a_key_of_somebody_else_is_an_error) {
  const store s = make_memcached_store(io.get_executor(), server().patient_options());
  limiter l(s, "r", fixed_window{.limit = 10, .window = 24h});
  server().ask("ms weir:{r:foreign} 5 T100\r\nhello\r\n");
  WEIR_TEST_ERROR(error_of_record(l, "foreign"), error::wrong_type);
  BOOST_TEST(!outcome_of([&](auto handler) { l.reset("foreign", handler); }).ec.failed());
  BOOST_TEST(record(l, "foreign").allowed);
}

BOOST_AUTO_TEST_CASE(a_large_log_is_bounded) {
  memcached_options o = options();
  o.max_value_size = 1000;
  const store s = open(o);
  limiter l(s, "r", sliding_log{.limit = 100'000, .window = 24h});
  error_code ec;
  int counted = 0;
  for (; !ec && counted < 2000; ++counted) ec = error_of_record(l);
  WEIR_TEST_ERROR(ec, error::state_too_large);
  BOOST_TEST(counted > 50);
  limiter coarse(s, "coarse", sliding_log{.limit = 100'000, .window = 24h, .resolution = 1h});
  for (int i = 0; i < 300; ++i) BOOST_TEST_REQUIRE(!error_of_record(coarse).failed());
}

BOOST_AUTO_TEST_CASE(several_servers_share_the_keys) {
  memcached_server_process more[2];
  memcached_options o = options();
  for (const auto& m : more) o.servers.push_back({.port = m.port()});
  const store s = open(o);
  limiter l(s, "r", fixed_window{.limit = 2, .window = 24h});
  for (int i = 0; i < 60; ++i) {
    const std::string subject = "subject" + std::to_string(i);
    for (int j = 0; j < 3; ++j) BOOST_TEST(record(l, subject).allowed == (j < 2));
  }
  for (const auto& m : more) BOOST_TEST(m.figure("curr_items") > 5);
  // A dead server fails its own calls, and nobody takes its keys over.
  more[0].kill();
  int failed = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string subject = "subject" + std::to_string(i);
    const outcome out = outcome_of(
        [&](auto handler) { l.record(subject, {.timeout = 60ms}, handler); });
    BOOST_TEST((out.ec.failed() || !out.d.allowed));
    failed += out.ec.failed() ? 1 : 0;
  }
  BOOST_TEST(failed > 5);
  BOOST_TEST(failed < 45);
}

BOOST_AUTO_TEST_CASE(a_restarted_server_has_forgotten) {
  memcached_server_process own;
  const store s = open(own.patient_options());
  limiter l(s, "r", fixed_window{.limit = 1, .window = 24h});
  BOOST_TEST(record(l, "a").allowed);
  BOOST_TEST(!record(l, "a").allowed);
  own.restart();
  BOOST_TEST(record(l, "a").allowed);
  BOOST_TEST(!record(l, "a").allowed);
}

BOOST_AUTO_TEST_CASE(flush_all_forgets_and_no_call_fails) {
  memcached_server_process own;
  const store s = open(own.patient_options());
  limiter l(s, "r", fixed_window{.limit = 1'000'000, .window = 24h});
  for (int round = 0; round < 20; ++round) {
    crowd c;
    for (int i = 0; i < 20; ++i) l.record("s" + std::to_string(i % 4), c.caller());
    own.flush();
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 20u);
  }
}

// A full server drops the subjects that were used longest ago: they begin anew. Calls do not fail.
BOOST_AUTO_TEST_CASE(an_evicted_subject_begins_anew) {
  memcached_server_process small({"-m", "2"});
  const store s = make_memcached_store(io.get_executor(), small.patient_options());
  limiter l(s, "r", fixed_window{.limit = 2, .window = 24h});
  // All values are of one size, so memcached keeps them in one list.
  const auto subject = [](int number) { return std::string(180, 'x') + std::to_string(number); };
  constexpr int chosen = 100'000, most = 900'000;
  const std::string key = "weir:{r:" + subject(chosen) + "}";
  // `me` tells whether an item is there, and does not count as a use of it.
  const auto is_there = [&] { return small.ask("me " + key + "\r\n") != "EN\r\n"; };
  for (const bool allowed : {true, true, false}) {
    BOOST_TEST(record(l, subject(chosen)).allowed == allowed);
  }
  BOOST_TEST_REQUIRE(is_there());
  int last = chosen;
  while (is_there()) {
    BOOST_TEST_REQUIRE(last < most, "the server has kept all subjects");
    crowd c;
    for (int i = 0; i < 1000; ++i) l.record(subject(++last), c.caller());
    run_until_complete(io, c);
    BOOST_TEST_REQUIRE(c.allowed() == 1000u);
  }
  BOOST_TEST(small.figure("evictions") > 0);
  for (const int used : {1, 2}) BOOST_TEST(record(l, subject(chosen)).used == used);
  BOOST_TEST(!record(l, subject(chosen)).allowed);
  // One that was used lately is still counted.
  BOOST_TEST(record(l, subject(last)).used == 2);
  BOOST_TEST(!record(l, subject(last)).allowed);
}

BOOST_AUTO_TEST_CASE(a_server_that_stops_is_waited_for) {
  memcached_server_process own;
  memcached_options o = own.patient_options();
  o.silence_timeout = 200ms;
  const store s = open(o);
  limiter l(s, "r", fixed_window{.limit = 100, .window = 24h});
  BOOST_TEST(record(l, "a").allowed);
  own.pause();
  // Nothing more than its read can have been sent.
  const outcome short_of_time = outcome_of(
      [&](auto handler) { l.record("a", {.timeout = 50ms}, handler); });
  WEIR_TEST_ERROR(short_of_time.ec, error::timed_out);
  crowd c;
  l.record("a", {.timeout = 30s}, c.caller());
  l.record("b", {.timeout = 30s}, c.caller());
  boost::asio::steady_timer timer(io, 400ms);  // the connection is given up meanwhile
  timer.async_wait([&](error_code) { own.resume(); });
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 2u);
  BOOST_TEST(record(l, "a").used == 3);
}

BOOST_AUTO_TEST_CASE(a_unix_socket) {
  auto at = memcached_server_process::on_unix_socket();
  const store s = open_store(io.get_executor(), at.url() + "?timeout=50s&prefix=socket");
  limiter l(s, "r", fixed_window{.limit = 2, .window = 24h});
  for (int i = 0; i < 3; ++i) BOOST_TEST(record(l, "a").allowed == (i < 2));
  BOOST_TEST(at.figure("curr_items") == 1);
  at.restart();  // at the same path, with nothing in it
  poll_until([&] { return record(l, "b").allowed; });
  BOOST_TEST(record(l, "a").allowed);

  at.kill();  // it leaves its socket
  for (const std::string& path : {at.socket_path(), std::string("/nonexistent/memcached.sock")}) {
    const store gone = open_store(io.get_executor(), "memcached+unix://" + path + "?timeout=100ms");
    limiter nobody(gone, "r", fixed_window{.limit = 2, .window = 24h});
    WEIR_TEST_ERROR(error_of_record(nobody), error::connection_refused);
  }
}

BOOST_AUTO_TEST_CASE(sockets_and_ports_share_the_keys) {
  auto at = memcached_server_process::on_unix_socket();
  memcached_options o = options();
  o.servers.push_back({.unix_path = at.socket_path()});
  const store s = open(std::move(o));
  limiter l(s, "r", fixed_window{.limit = 1, .window = 24h});
  for (int i = 0; i < 40; ++i) BOOST_TEST(record(l, std::to_string(i)).allowed);
  for (int i = 0; i < 40; ++i) BOOST_TEST(!record(l, std::to_string(i)).allowed);
  BOOST_TEST(at.figure("curr_items") > 0);
  BOOST_TEST(at.figure("curr_items") < 40);
}

BOOST_AUTO_TEST_CASE(closing_ends_calls) {
  store s = open();
  limiter l(s, "r", fixed_window{.limit = 1, .window = 24h});
  crowd c;
  l.record("a", c.caller());
  s.close();
  l.record("a", c.caller());
  run_out(io);
  BOOST_TEST(c.complete());
  WEIR_TEST_ERROR(c[0].ec, error::store_closed);
  WEIR_TEST_ERROR(c[1].ec, error::store_closed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_test

// A memcached that gets more than it can do.
#include "memcached_client.hpp"
#include "support/run.hpp"

namespace memcached_overload_test {

using namespace std::chrono_literals;
using weir::detail::check_kind;
using weir::memcached::test::client;
using weir::memcached::test::core_fixture;

struct fixture : core_fixture {
  fixture() {
    options.timeout = 500ms;
    options.max_pending = 1'000'000;
  }

  /// For a while, subjects come once each, and the server runs so many requests.
  void run(client& c, std::chrono::milliseconds length, int subjects_per_ms, int requests_per_ms) {
    for (auto ms = 0ms; ms < length; ++ms) {
      for (int i = 0; i < subjects_per_ms; ++i) {
        c.submit(checks.add(limit_3, "s" + std::to_string(checks.size())));
      }
      c.connect();
      c.send();
      c.serve(static_cast<std::size_t>(requests_per_ms));
      while (c.receive()) continue;
      c.pass_time(1ms);
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(memcached_overload_suite, fixture)

// From the third second on, nobody got an answer, and half of what the server did was to count.
BOOST_AUTO_TEST_CASE(a_server_with_too_much_to_do_works_for_callers_that_still_wait) {
  for (const int subjects_per_ms : {3, 10}) {
    server.restart();
    client one(server, options);
    run(one, 3s, subjects_per_ms, 4);
    const std::int64_t allowed = checks.allowed(), unknown = checks.unknown();
    run(one, 3s, subjects_per_ms, 4);
    // Two requests for each.
    BOOST_TEST(checks.allowed() - allowed > 5'000);
    BOOST_TEST(checks.unknown() - unknown < 100);
    one.settle();
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_becomes_fast_again_is_used_again) {
  client one(server, options);
  run(one, 1s, 10, 100);
  run(one, 3s, 10, 1);
  run(one, 1s, 10, 100);
  const std::int64_t allowed = checks.allowed();
  run(one, 1s, 10, 100);
  BOOST_TEST(checks.allowed() - allowed > 9'900);
  one.settle();
}

// How long the replies had taken in a pause was believed for ever: of the next calls that came
// together, one was sent, and the others timed out.
BOOST_AUTO_TEST_CASE(a_server_that_stood_still_once_is_not_called_slow) {
  client one(server, options);
  run(one, 100ms, 1, 100);
  run(one, 5ms, 1, 0);
  run(one, 600ms, 0, 0);
  run(one, 1s, 0, 1000);
  const std::int64_t allowed = checks.allowed();
  run(one, 1ms, 100, 1000);
  run(one, 50ms, 0, 1000);
  BOOST_TEST(checks.allowed() - allowed == 100);
}

// One of each ten calls was sent, and the others timed out.
BOOST_AUTO_TEST_CASE(calls_over_a_long_way_are_not_late_because_others_took_as_long) {
  client one(server, options);
  one.settle();
  std::int64_t before = 0;
  for (int round = 0; round < 26; ++round) {
    // At first, little is under way.
    if (round == 6) before = checks.allowed();
    for (int i = 0; i < 10; ++i) {
      one.submit(
          checks.add(limit_3, "s" + std::to_string(checks.size()), check_kind::record, 1, 50ms));
    }
    for (int leg = 0; leg < 2; ++leg) {
      while (one.send()) continue;
      one.pass_time(21ms);
      one.serve();
      one.receive();
    }
  }
  BOOST_TEST(checks.allowed() - before == 200);
}

BOOST_AUTO_TEST_CASE(keys_that_were_put_aside_are_read_over_the_next_connection) {
  client one(server, options);
  run(one, 2s, 10, 1);
  BOOST_TEST_REQUIRE(one.cut());
  const std::int64_t allowed = checks.allowed();
  run(one, 100ms, 0, 1000);
  BOOST_TEST(checks.allowed() - allowed > 3'000);
}

// Units that a cancelled caller gave back stayed taken.
BOOST_AUTO_TEST_CASE(what_has_no_caller_is_sent_however_late_its_answer_comes) {
  client one(server, options);
  run(one, 3s, 10, 2);
  auto& c = checks.add(limit_3, "s0", check_kind::reset, 1, 400ms);
  c.check().flight.is_detached = true;
  one.submit(c);
  run(one, 600ms, 10, 2);
  BOOST_TEST(!server.items.contains("weir:{r:s0}"));
  one.settle();
}

// The window went by the store's timeout: nearly nothing was answered in time.
BOOST_AUTO_TEST_CASE(calls_with_a_shorter_timeout_than_their_store_are_answered_in_time) {
  for (const auto timeout : {50ms, 100ms, 200ms}) {
    BOOST_TEST_CONTEXT(timeout.count() << " ms") {
      server.restart();
      client one(server, options);
      std::int64_t before = 0;
      for (int ms = 0; ms < 3000; ++ms) {
        if (ms == 1000) before = checks.allowed();
        for (int i = 0; i < 10; ++i) {
          one.submit(checks.add(limit_3, "s" + std::to_string(checks.size()), check_kind::record, 1,
                                timeout));
        }
        one.connect();
        one.send();
        one.serve(2);
        while (one.receive()) continue;
        one.pass_time(1ms);
      }
      // Two requests for each.
      BOOST_TEST(checks.allowed() - before > 1600);
      one.settle();
    }
  }
}

// Each process sent what it had before it knew better, and nobody got an answer.
BOOST_AUTO_TEST_CASE(a_fleet_that_meets_a_slow_server_cold_is_served) {
  for (const int processes : {8, 16}) {
    BOOST_TEST_CONTEXT(processes << " processes") {
      server.restart();
      std::list<client> all;
      for (int i = 0; i < processes; ++i) {
        all.emplace_back(server, options, static_cast<std::uint32_t>(i + 1));
      }
      const std::int64_t begin = checks.allowed();
      std::int64_t first = 0;
      auto next = all.begin();
      for (int ms = 0; ms < 6000; ++ms) {
        if (ms == 2000) first = checks.allowed() - begin;
        for (client& c : all) {
          c.submit(checks.add(limit_3, "s" + std::to_string(checks.size())));
          c.connect();
          c.send();
        }
        // 25 requests a second for each process, two for each check.
        int left = ms % 5 == 0 ? processes / 8 : 0;
        for (std::size_t tried = 0; left > 0 && tried < all.size(); ++tried) {
          left -= next->serve(1) ? 1 : 0;
          if (++next == all.end()) next = all.begin();
        }
        for (client& c : all) {
          while (c.receive()) continue;
          c.pass_time(1ms);
        }
      }
      const std::int64_t later = checks.allowed() - begin - first;
      BOOST_TEST_MESSAGE(processes << " processes: " << first << ", later " << later);
      // In two seconds, and in four: each process's part of what the server can do.
      BOOST_TEST(first >= 0.5 * processes * 25);
      BOOST_TEST(later >= 0.8 * processes * 50);
      for (client& c : all) c.settle();
    }
  }
}

// Once a check without a caller had come by, a busy subject was read for callers who were gone.
BOOST_AUTO_TEST_CASE(what_has_no_caller_makes_nothing_behind_it_worth_sending) {
  client one(server, options);
  server.watched = "weir:{r:hot}";
  run(one, 2s, 10, 2);
  auto& without = checks.add(limit_3, "hot");
  without.check().flight.is_detached = true;
  one.submit(without);
  for (int ms = 0; ms < 2'000 && !server.items.contains(server.watched); ++ms) {
    one.submit(checks.add(limit_3, "s" + std::to_string(checks.size())));
    one.send();
    one.serve(2);
    if (!server.items.contains(server.watched)) {
      while (one.receive()) continue;
    }
    one.pass_time(1ms);
  }
  BOOST_TEST_REQUIRE(server.items.contains(server.watched));
  // The reply is on its way; the next check waits behind it.
  auto& hasty = checks.add(limit_3, "hot", check_kind::record, 1, 5ms);
  one.submit(hasty);
  const int gets = server.gets_of_watched;
  run(one, 600ms, 10, 2);
  BOOST_TEST(without.finished == 1);
  WEIR_TEST_ERROR(hasty.ec, weir::error::timed_out);
  BOOST_TEST(server.gets_of_watched == gets);
  one.settle();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_overload_test

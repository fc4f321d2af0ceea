// Cool-downs in a real server: one process is told by the vendor, and all of them wait.
#include "support/limiter_fixture.hpp"

namespace cool_down_test {

using namespace weir;
using namespace weir::test;

const limiter_options listening{.cool_downs = true};

struct fixture : server_fixture {
  weir::store store = open();

  limiter vendor(const weir::store& s) {
    return limiter(s, "vendor", fixed_window{.limit = 100, .window = 24h}, listening);
  }
  std::int64_t ttl(const std::string& key) { return client.must("PTTL", key).integer; }
};

BOOST_FIXTURE_TEST_SUITE(cool_down_suite, fixture)

BOOST_AUTO_TEST_CASE(a_pause_holds_for_every_process) {
  const limiter here = vendor(store), there = vendor(open());
  BOOST_TEST(answer([&](auto h) { there.record("a", h); }).allowed);
  const decision told = answer([&](auto h) { here.cool_down("a", 10min, h); });
  BOOST_TEST((!told.allowed && told.cooling_down && told.retry_after == 10min));
  const decision d = answer([&](auto h) { there.record("a", h); });
  BOOST_TEST((!d.allowed && d.cooling_down));
  BOOST_TEST((d.retry_after > 9min && d.retry_after <= 10min + 1s));
  BOOST_TEST(d.used == 1);
  BOOST_TEST(answer([&](auto h) { there.record("b", h); }).allowed);
  BOOST_TEST(ttl("weir:{vendor:a}:h") > 540'000);
  BOOST_TEST(ttl("weir:{vendor:a}:h") <= 602'000);

  const decision longer = answer([&](auto h) { there.cool_down("a", 20min, h); });
  BOOST_TEST((longer.retry_after == 20min));
  const decision shorter = answer([&](auto h) { here.cool_down("a", 1s, h); });
  BOOST_TEST((shorter.retry_after > 19min));
  const decision look = answer([&](auto h) { here.cool_down("a", 0s, h); });
  BOOST_TEST((!look.allowed && look.cooling_down));
  BOOST_TEST((look.retry_after > 19min && look.retry_after <= shorter.retry_after));
  BOOST_TEST(answer([&](auto h) { here.cool_down("b", 0s, h); }).allowed);
  BOOST_TEST(ttl("weir:{vendor:b}:h") == -2);
  BOOST_TEST(ttl("weir:{vendor:a}:h") > 1'140'000);
}

// What waits together for one connection is one script call each for checks and pauses, in the
// order in which it came.
BOOST_AUTO_TEST_CASE(checks_before_a_pause_pass_and_those_behind_it_do_not) {
  const limiter l = vendor(store);
  crowd c;
  for (int i = 0; i < 5; ++i) l.record("a", c.caller());
  l.cool_down("a", 10min, c.caller());
  for (int i = 0; i < 5; ++i) l.record("a", c.caller());
  // At the cost that the pause has in microseconds.
  l.cool_down("b", 1us, c.caller());
  l.record("b", c.caller());
  run_until_complete(io, c);
  for (std::size_t i = 0; i < 11; ++i) {
    BOOST_TEST(!c[i].ec.failed());
    BOOST_TEST(c[i].d.allowed == (i < 5));
    BOOST_TEST(c[i].d.cooling_down == (i >= 5));
  }
  BOOST_TEST(!c[12].ec.failed());
  BOOST_TEST(c[12].d.limit == 100);
  BOOST_TEST(answer([&](auto h) { l.fetch("a", h); }).used == 5);
}

BOOST_AUTO_TEST_CASE(a_pause_ends_by_itself) {
  const limiter l = vendor(store);
  run(io, [&]() -> asio::awaitable<void> {
    decision d = co_await l.cool_down("a", 50ms);
    BOOST_TEST(d.cooling_down);
    asio::steady_timer timer(io);
    do {
      timer.expires_after(d.retry_after);
      co_await timer.async_wait(asio::deferred);
      d = co_await l.record("a");
    } while (d.cooling_down);  // a clock that runs differently
    BOOST_TEST(d.allowed);
    BOOST_TEST(d.used == 1);
    const auto [ec, said] = co_await l.on_response("a", 429, {}, asio::as_tuple(asio::deferred));
    BOOST_TEST(!ec.failed());
    BOOST_TEST((said.retry_after == 1s));
    co_await l.reset("a");
    BOOST_TEST((co_await l.record("a")).used == 1);
  });
}

// Ten minutes are not over before the next line: how they double is in the model tests.
BOOST_AUTO_TEST_CASE(a_guess_begins_once_for_each_burst_and_a_served_call_ends_it) {
  const limiter here(store, "vendor", fixed_window{.limit = 100, .window = 24h},
                     {.cool_downs = true, .default_cool_down = 10min});
  const auto respond = [&](int status) {
    return answer([&](auto h) { here.on_response("a", status, {}, h); });
  };
  const auto stored = [&] { return client.must("GET", "weir:{vendor:a}:h").text; };
  BOOST_TEST((respond(429).retry_after == 10min));
  const std::string guess = stored();
  BOOST_TEST(guess.substr(16) == "1000000600000000");
  BOOST_TEST(ttl("weir:{vendor:a}:h") > 19 * 60'000);
  BOOST_TEST((respond(429).retry_after < 10min));
  BOOST_TEST(respond(200).cooling_down);  // it was sent before
  BOOST_TEST(stored() == guess);
  // The same, but over.
  const std::string over = std::to_string(std::stoll(guess.substr(0, 16)) - 600'000'000);
  client.must("SET", "weir:{vendor:a}:h", over + guess.substr(16));
  BOOST_TEST(answer([&](auto h) { here.record("a", h); }).allowed);
  BOOST_TEST((respond(429).retry_after == 20min));
  client.must("SET", "weir:{vendor:a}:h", over + guess.substr(16));
  BOOST_TEST(respond(200).allowed);
  BOOST_TEST(client.must("EXISTS", "weir:{vendor:a}:h").integer == 0);
  BOOST_TEST((respond(429).retry_after == 10min));
  // One whose time the vendor gave is not doubled.
  client.must("SET", "weir:{vendor:a}:h", over + "0000000600000000");
  BOOST_TEST((respond(429).retry_after == 10min));
  BOOST_TEST(stored().substr(16) == "1000000600000000");
  // One that began while the clock was ahead is forgotten, not doubled.
  const std::string ahead = std::to_string(std::stoll(guess.substr(0, 16)) + 7'200'000'000);
  client.must("SET", "weir:{vendor:a}:h", ahead + guess.substr(16));
  BOOST_TEST((respond(429).retry_after == 10min));
  BOOST_TEST(stored().substr(16) == "1000000600000000");
}

BOOST_AUTO_TEST_CASE(limiters_of_one_resource_share_a_pause) {
  const limiter window = vendor(store);
  const limiter bucket(store, "vendor", token_bucket{.capacity = 5, .refill = per_day(1)},
                       listening);
  const auto both = [&] {
    return answer([&](auto h) { record_all(window.on("a"), bucket.on("a"), h); });
  };
  BOOST_TEST(both().allowed);
  answer([&](auto h) { bucket.cool_down("a", 10min, h); });
  const decision d = both();
  BOOST_TEST((!d.allowed && d.cooling_down));
  BOOST_TEST(d.tier == 0);
  BOOST_TEST(answer([&](auto h) { window.record("a", h); }).cooling_down);
  BOOST_TEST(answer([&](auto h) { window.fetch("a", h); }).used == 1);
}

// A caller that reports a cool-down must hear that it failed.
BOOST_AUTO_TEST_CASE(a_failure_policy_does_not_make_a_pause_of_nothing) {
  const limiter l(store, "vendor", fixed_window{.limit = 100, .window = 24h},
                  {.on_failure = on_failure::open, .cool_downs = true});
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).used == 1);
  server.kill();
  const auto check = outcome_of([&](auto h) { l.record("a", {.timeout = 50ms}, h); });
  BOOST_TEST((check.d.allowed && check.d.source == source::fallback));
  const auto pause = outcome_of([&](auto h) { l.cool_down("a", 1s, {.timeout = 50ms}, h); });
  BOOST_TEST(pause.ec.failed());
}

BOOST_AUTO_TEST_CASE(a_foreign_key_is_reported_and_unchanged) {
  const limiter l = vendor(store);
  const std::string key = "weir:{vendor:a}:h";
  std::vector<std::vector<std::string>> strange = {{"LPUSH", key, "a list"},
                                                   {"HSET", key, "a", "1"}};
  for (const char* text : {"soon", "1.5", "-1", "", "1e3", "9e99", "0x10", "007", "nan"}) {
    strange.push_back({"SET", key, text});
  }
  // As long as a state, but no two numbers that could be one.
  for (const char* half : {"9999999999999999", "0000000000000000", "0x10000000000000"}) {
    strange.push_back({"SET", key, half + std::string(half)});
  }
  for (const auto& command : strange) {
    client.must("DEL", key);
    BOOST_TEST_CONTEXT(command.back()) {
      command.size() == 3 ? client.must(command[0], command[1], command[2])
                          : client.must(command[0], command[1], command[2], command[3]);
      const std::string was = client.must("DUMP", key).text;
      WEIR_TEST_ERROR(outcome_of([&](auto h) { l.record("a", h); }).ec, error::wrong_type);
      WEIR_TEST_ERROR(outcome_of([&](auto h) { l.cool_down("a", 1s, h); }).ec, error::wrong_type);
      BOOST_TEST((client.must("DUMP", key).text == was));
    }
  }
  client.must("DEL", key);
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).used == 1);  // none of them has counted
}

BOOST_AUTO_TEST_CASE(a_pause_that_began_while_the_clock_was_ahead_does_not_outlast_the_mend) {
  const limiter l = vendor(store);
  const std::string key = "weir:{vendor:a}:h";
  const std::int64_t in_ten_days = std::stoll(client.must("TIME").children.at(0).text) + 864'000;
  client.must("SET", key, std::to_string(in_ten_days) + "000000" + "0000000001000000");
  answer([&](auto h) { l.fetch("a", h); });
  BOOST_TEST(client.must("EXISTS", key).integer == 1);
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).used == 1);
  BOOST_TEST(client.must("EXISTS", key).integer == 0);  // or it would come back in ten days
  BOOST_TEST((answer([&](auto h) { l.cool_down("a", 10min, h); }).retry_after == 10min));
  BOOST_TEST(ttl(key) <= 602'000);
}

BOOST_AUTO_TEST_CASE(a_pause_without_a_ttl_is_given_one) {
  const limiter l = vendor(store);
  const std::string key = "weir:{vendor:a}:h";
  const auto repaired = [&](auto&& ask) {
    answer([&](auto h) { l.cool_down("a", 10min, h); });
    client.must("PERSIST", key);
    ask();
    BOOST_TEST(ttl(key) > 540'000);
    BOOST_TEST(ttl(key) <= 602'000);
  };
  repaired([&] { answer([&](auto h) { l.record("a", h); }); });
  repaired([&] { answer([&](auto h) { l.cool_down("a", 1s, h); }); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cool_down_test

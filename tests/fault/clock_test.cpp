// The server's clock is set back, or wrongly ahead and back again, while it runs: that gives
// nothing away, and no caller stays out for good.
#include "support/run.hpp"
#include "support/shifted_clock.hpp"
#include "support/stores.hpp"

namespace clock_test {

using namespace weir;
using namespace weir::test;

// Long against the time that a test takes: only the steps of the clock count.
constexpr std::chrono::minutes span{20};
constexpr std::int64_t limit = 8;
// From full to where something passes again: the policy's length, and a tenth for the log's
// buckets.
constexpr std::chrono::seconds longest_way_out = span + span / 10;

/// Eight in twenty minutes.
struct shape {
  named_policy named;
  int border;  // how many times the limit may pass around one instant
};

std::vector<shape> shapes() {
  const weir::rate rate{limit, span};
  return {
      {{"fixed_window", fixed_window{.limit = limit, .window = span}}, 2},
      {{"fixed_window of the epoch",
        fixed_window{.limit = limit, .window = span, .anchor = anchor::epoch}},
       2},
      {{"sliding_log", sliding_log{.limit = limit, .window = span}}, 1},
      {{"sliding_log with a resolution",
        sliding_log{.limit = limit, .window = span, .resolution = span / 10}},
       1},
      {{"sliding_window", sliding_window{.limit = limit, .window = span}}, 1},
      {{"token_bucket", token_bucket{.capacity = limit, .refill = rate}}, 1},
      {{"gcra", gcra{.rate = rate, .burst = limit}}, 1},
      {{"leaky_bucket", leaky_bucket{.capacity = limit, .leak = rate}}, 1},
  };
}

struct fixture {
  shifted_clock clock;
  redis_server server{{.environment = clock.environment()}};
  asio::io_context io;
  weir::store store = make_redis_store(io.get_executor(), patient_options(server));
  redis_client client{server};

  std::int64_t server_seconds() { return std::stoll(client.must("TIME").children.at(0).text); }

  /// Puts the server's clock into the middle of an epoch-aligned span, so that borders are where
  /// the test puts them.
  void start_in_the_middle() {
    const std::int64_t length = std::chrono::seconds(span).count();
    clock.step(std::chrono::seconds(length - server_seconds() % length + length / 2));
  }

  /// As much as passes now.
  std::int64_t take(const limiter& l, int attempts = limit + 1) {
    crowd c;
    for (int i = 0; i < attempts; ++i) l.record("a", c.caller());
    run_until_complete(io, c);
    for (const auto& o : c) {
      BOOST_TEST(!o.ec.failed());
      // Told the truth, whatever the clock: never to come back in the past, and never allowed
      // beyond the limit.
      BOOST_TEST((o.d.allowed || o.d.retry_after.count() > 0));
      BOOST_TEST(o.d.used <= limit);
    }
    return static_cast<std::int64_t>(c.allowed());
  }
};

BOOST_FIXTURE_TEST_SUITE(clock_suite, fixture)

BOOST_AUTO_TEST_CASE(the_server_believes_the_clock) {
  const std::int64_t before = server_seconds();
  clock.step(-1h);
  BOOST_TEST(server_seconds() < before - 3500);
  client.must("SET", "a", "1", "PX", "600000");
  clock.step(599s);
  BOOST_TEST(client.must("EXISTS", "a").integer == 1);
  clock.step(10s);
  BOOST_TEST(client.must("EXISTS", "a").integer == 0);
}

BOOST_AUTO_TEST_CASE(a_step_back_mints_nothing_and_locks_nobody_out) {
  for (const auto& [named, border] : shapes()) {
    for (const std::chrono::seconds back : {10s, 3600s}) {
      BOOST_TEST_CONTEXT(named.name << ", back by " << back.count() << " s") {
        start_in_the_middle();
        client.must("FLUSHALL");
        const limiter l(store, "r", named.policy);
        std::int64_t admitted = take(l, 5);
        BOOST_TEST(admitted == 5);

        clock.step(-back);
        admitted += take(l);
        BOOST_TEST(admitted <= limit);

        // A clock that cannot make up its mind. Back never gives anything. Forth is time that
        // passes, as far as anybody can know: within the policy's length it was there before, and
        // beyond it gives what that time gives, once each.
        for (int i = 0; i < 20; ++i) {
          const bool forth = i % 2 == 0;
          clock.step(forth ? back : -back);
          const std::int64_t more = take(l);
          BOOST_TEST(more <= (forth && back > span ? limit : limit - admitted));
          if (back <= span) admitted += more;
        }

        // From here on the time just passes. What passes with it is bounded as ever, and it flows
        // again soon.
        std::chrono::seconds passed{0};
        std::chrono::seconds flows{0};
        std::int64_t later = 0;
        while (passed < 3 * span) {
          clock.step(span / 10);
          passed += span / 10;
          later += take(l);
          if (later == 0) flows = passed;
          BOOST_TEST(later <= limit * (passed / span + border), passed.count()
                                                                    << " s later: " << later);
        }
        BOOST_TEST(flows.count() <=
                   std::chrono::seconds(std::min(back, longest_way_out) + longest_way_out).count());
        BOOST_TEST(later >= 2 * limit);
        clock.step(3 * span);
        BOOST_TEST(take(l) == limit);
      }
    }
  }
}

// An hour ahead by mistake, and corrected: what was counted meanwhile lies in the future.
BOOST_AUTO_TEST_CASE(a_clock_that_was_wrong_for_a_while_locks_nobody_out_for_good) {
  for (const auto& [named, ignored] : shapes()) {
    BOOST_TEST_CONTEXT(named.name) {
      start_in_the_middle();
      client.must("FLUSHALL");
      const limiter l(store, "r", named.policy);
      BOOST_TEST(take(l) == limit);
      clock.step(1h);
      BOOST_TEST(take(l) == limit);
      clock.step(-1h);
      BOOST_TEST(take(l) == 0);

      std::chrono::seconds passed{0};
      std::int64_t later = 0;
      while (later == 0 && passed <= longest_way_out) {
        clock.step(span / 10);
        passed += span / 10;
        later = take(l);
        BOOST_TEST(later <= limit);
      }
      BOOST_TEST(later > 0);
      BOOST_TEST_MESSAGE(named.name << ": passes again after " << passed.count() << " s");
    }
  }
}

// The end of the cool-down was told as 51 s away, and acquire stopped for that long.
BOOST_AUTO_TEST_CASE(a_short_step_back_in_a_cool_down_does_not_stop_acquire_for_as_long) {
  const limiter l(store, "r", token_bucket{.capacity = limit, .refill = {limit, 1ms}},
                  {.cool_downs = true});
  // A refusal by a cool-down has up to a tenth of jitter.
  const auto waits_no_longer = [](const decision& d) {
    BOOST_TEST(d.cooling_down);
    BOOST_TEST((d.retry_after > 0s && d.retry_after <= 1100ms));
  };
  run(io, [&]() -> asio::awaitable<void> {
    co_await l.cool_down("a", 1s);
    clock.step(-50s);
    waits_no_longer(co_await l.record("a"));
    waits_no_longer(co_await l.fetch("a"));
    co_await l.cool_down("a", 1s);
    BOOST_TEST((co_await l.acquire("a", {.max_wait = 0s})).cooling_down);
    clock.step(50s);
    BOOST_TEST((co_await l.acquire("a", {.max_wait = 10s})).allowed);
    BOOST_TEST((co_await acquire_all(l.on("a"), {.max_wait = 10s})).allowed);
  });
}

// The first cool-down ended later by the clock of that moment, and ended the second one when the
// clock was put right.
BOOST_AUTO_TEST_CASE(a_cool_down_asked_for_behind_the_clock_is_not_lost_in_an_earlier_one) {
  const limiter l(store, "r", token_bucket{.capacity = limit, .refill = {limit, span}},
                  {.cool_downs = true});
  run(io, [&]() -> asio::awaitable<void> {
    co_await l.cool_down("a", 10min);
    clock.step(-9min);
    BOOST_TEST(((co_await l.cool_down("a", 15min)).retry_after == 15min));
    clock.step(9min + 14min);
    BOOST_TEST((co_await l.record("a")).cooling_down);
    clock.step(2min);
    BOOST_TEST((co_await l.record("a")).allowed);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace clock_test

// What record, fetch and reset answer for each policy, the same on every store. model.differential
// has the counts of windows and logs while time passes.
#include "integration/each_store.hpp"
#include "support/limiter_fixture.hpp"

namespace limiter_test {

using namespace weir;
using namespace weir::test;

struct fixture : limiter_fixture {
  limiter open(const std::string& store, const weir::policy& policy) {
    return limiter(open_store(io.get_executor(), empty_store_url(store)), "r", policy);
  }
  decision record(const limiter& l, std::int64_t cost = 1) {
    return answer([&](auto handler) { l.record("s", {.cost = cost}, handler); });
  }
  decision fetch(const limiter& l, std::int64_t cost = 1) {
    return answer([&](auto handler) { l.fetch("s", {.cost = cost}, handler); });
  }
  void reset(const limiter& l) {
    answer([&](auto handler) { l.reset("s", handler); });
  }
  void sleep(microseconds how_long) {
    asio::steady_timer timer(io, how_long + 1ms);  // the two clocks may differ a little
    bool over = false;
    timer.async_wait([&](error_code) { over = true; });
    run_until(io, [&] { return over; });
  }
};

BOOST_FIXTURE_TEST_SUITE(limiter_suite, fixture)

// Whatever the policy: `limit` calls pass, the next does not, nothing is changed by looking, and
// reset forgets.
BOOST_DATA_TEST_CASE_F(fixture, every_policy_allows_its_limit_and_no_more, each_store, store) {
  for (const auto& [name, policy] : slow_policies(4)) {
    BOOST_TEST_CONTEXT(name) {
      const auto l = open(store, policy);
      BOOST_TEST(l.resource() == "r");
      reset(l);
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 4; ++i) {
          const decision look = fetch(l, 4);
          BOOST_TEST(look.allowed == (i == 0));
          BOOST_TEST(look.used == i);
          const decision d = record(l);
          BOOST_TEST(d.allowed);
          BOOST_TEST(d.limit == 4);
          BOOST_TEST(d.used == i + 1);
          BOOST_TEST(d.remaining == 3 - i);
          BOOST_TEST(d.retry_after.count() == 0);
          BOOST_TEST(d.reset_after.count() > 0);
          BOOST_TEST(d.tier == -1);
          BOOST_TEST((d.source == source::store));
        }
        const decision d = record(l);
        BOOST_TEST(!d.allowed);
        BOOST_TEST(d.used == 4);
        BOOST_TEST(d.remaining == 0);
        BOOST_TEST(d.retry_after.count() > 0);
        BOOST_TEST((d.retry_after <= d.reset_after));
        BOOST_TEST((d.delay.count() == 0));
        reset(l);
        BOOST_TEST(fetch(l).used == 0);
      }
    }
  }
}

BOOST_DATA_TEST_CASE_F(fixture, a_weighted_cost_fits_or_consumes_nothing, each_store, store) {
  for (const auto& [name, policy] : slow_policies(10)) {
    BOOST_TEST_CONTEXT(name) {
      const auto l = open(store, policy);
      reset(l);
      BOOST_TEST(record(l, 7).remaining == 3);
      BOOST_TEST(!record(l, 4).allowed);
      BOOST_TEST(fetch(l, 3).allowed);
      BOOST_TEST(record(l, 3).remaining == 0);
      BOOST_TEST(!record(l, 1).allowed);
    }
  }
}

BOOST_DATA_TEST_CASE_F(fixture, fixed_window_ends_for_all_at_once, each_store, store) {
  const auto l = open(store, fixed_window{.limit = 2, .window = 24h});
  const decision first = record(l);
  BOOST_TEST((first.reset_after == 24h));
  record(l);
  const decision third = record(l);
  BOOST_TEST((third.decided_at + third.retry_after == first.decided_at + 24h));
  BOOST_TEST((third.decided_at + third.reset_after == first.decided_at + 24h));
}

BOOST_DATA_TEST_CASE_F(fixture, fixed_window_of_the_epoch_ends_at_a_multiple, each_store, store) {
  const auto l = open(
      store, fixed_window{.limit = 2, .window = 24h, .anchor = anchor::epoch, .offset = 7h});
  const decision d = record(l);
  BOOST_TEST(((d.decided_at + d.reset_after).time_since_epoch() % 24h == 7h));
}

BOOST_DATA_TEST_CASE_F(fixture, sliding_log_waits_for_the_oldest, each_store, store) {
  const auto l = open(store, sliding_log{.limit = 3, .window = 24h});
  const decision first = record(l);
  const decision second = record(l, 2);
  const decision one = fetch(l, 1);
  BOOST_TEST((one.decided_at + one.retry_after == first.decided_at + 24h));
  const decision two = fetch(l, 2);
  BOOST_TEST((two.decided_at + two.retry_after == second.decided_at + 24h));
  BOOST_TEST((two.decided_at + two.reset_after == second.decided_at + 24h));
}

BOOST_DATA_TEST_CASE_F(fixture, token_bucket_and_gcra_refill_at_their_rate, each_store, store) {
  const weir::policy both[] = {token_bucket{.capacity = 3, .refill = per_day(12)},
                               gcra{.rate = per_day(12), .burst = 3}};
  for (const weir::policy& policy : both) {
    const auto l = open(store, policy);
    reset(l);
    const decision first = record(l, 3);
    BOOST_TEST((first.reset_after == 6h));
    const decision d = fetch(l, 2);
    BOOST_TEST((d.decided_at + d.retry_after == first.decided_at + 4h));
    BOOST_TEST((d.decided_at + d.reset_after == first.decided_at + 6h));
  }
}

BOOST_DATA_TEST_CASE_F(fixture, leaky_bucket_tells_each_its_turn, each_store, store) {
  const auto l = open(store, leaky_bucket{.capacity = 3, .leak = per_day(24)});
  const decision first = record(l);
  BOOST_TEST(first.delay.count() == 0);
  for (int i = 1; i < 3; ++i) {
    const decision d = record(l);
    BOOST_TEST((d.decided_at + d.delay == first.decided_at + i * 1h));
  }
}

BOOST_DATA_TEST_CASE_F(fixture, unlimited_counts_and_never_refuses, each_store, store) {
  const weir::policy policies[] = {fixed_window{.limit = unlimited, .window = 24h},
                                   sliding_log{.limit = unlimited, .window = 24h, .resolution = 1h},
                                   sliding_window{.limit = unlimited, .window = 24h}};
  for (const weir::policy& policy : policies) {
    const auto l = open(store, policy);
    for (int i = 1; i <= 20; ++i) {
      const decision d = record(l, 100);
      BOOST_TEST(d.allowed);
      BOOST_TEST(d.used == 100 * i);
      BOOST_TEST(d.limit == unlimited);
      BOOST_TEST(d.remaining == unlimited);
    }
  }
}

BOOST_DATA_TEST_CASE_F(fixture, who_hammers_stays_out_if_refused_calls_count, each_store, store) {
  const weir::policy policies[] = {
      fixed_window{.limit = 3, .window = 24h, .count_refused = true},
      sliding_window{.limit = 3, .window = 24h, .count_refused = true}};
  for (const weir::policy& policy : policies) {
    const auto l = open(store, policy);
    for (int i = 1; i <= 10; ++i) {
      const decision d = record(l);
      BOOST_TEST(d.allowed == (i <= 3));
      BOOST_TEST(d.used == i);
    }
  }
  const auto l = open(store, sliding_log{.limit = 3, .window = 24h, .count_refused = true});
  decision last;
  for (int i = 1; i <= 10; ++i) BOOST_TEST((last = record(l)).allowed == (i <= 3));
  // The newest three alone keep it out now: no call gets in before the oldest of them has left.
  BOOST_TEST((last.retry_after > 23h));
}

BOOST_DATA_TEST_CASE_F(fixture, limiters_of_one_resource_and_kind_share_their_counts, each_store,
                       store) {
  const auto s = open_store(io.get_executor(), empty_store_url(store));
  const limiter one(s, "r", fixed_window{.limit = 3, .window = 24h});
  const limiter two(s, "r", fixed_window{.limit = 3, .window = 24h});
  const limiter other_kind(s, "r", sliding_log{.limit = 3, .window = 24h});
  const limiter other_resource(s, "q", fixed_window{.limit = 3, .window = 24h});
  record(one);
  BOOST_TEST(record(two).used == 2);
  BOOST_TEST(record(other_kind).used == 1);
  BOOST_TEST(record(other_resource).used == 1);
}

// Calls made together are answered one by one in their order, as if each had been sent alone.
BOOST_DATA_TEST_CASE_F(fixture, a_crowd_is_answered_in_order, each_store, store) {
  for (const auto& [name, policy] : slow_policies(50)) {
    BOOST_TEST_CONTEXT(name) {
      const auto l = open(store, policy);
      crowd c;
      l.reset("s", c.caller());
      for (int i = 0; i < 30; ++i) {
        l.record("s", c.caller());
        l.record("s", {.cost = 2}, c.caller());
        l.fetch("s", c.caller());
        l.record("t", c.caller());
      }
      run_until_complete(io, c);
      std::int64_t used = 0;
      for (std::size_t i = 0; i < 30; ++i) {
        const outcome* o = &c[1 + 4 * i];
        for (const std::int64_t cost : {1, 2}) {
          const bool fits = used + cost <= 50;
          if (fits) used += cost;
          BOOST_TEST(o->d.allowed == fits);
          BOOST_TEST(o->d.used == used);
          ++o;
        }
        BOOST_TEST(o->d.used == used);  // fetch sees what came before it
      }
    }
  }
}

// Article 3: limit oneself before the vendor does. A caller that waits as long as it was told gets
// through.
BOOST_DATA_TEST_CASE_F(fixture, waiting_for_retry_after_is_enough, each_store, store) {
  const weir::policy policies[] = {fixed_window{.limit = 2, .window = 60ms},
                                   sliding_log{.limit = 2, .window = 60ms},
                                   sliding_window{.limit = 2, .window = 60ms},
                                   token_bucket{.capacity = 2, .refill = every(30ms)},
                                   gcra{.rate = every(30ms), .burst = 2},
                                   leaky_bucket{.capacity = 2, .leak = every(30ms)}};
  for (std::size_t i = 0; i < std::size(policies); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      const auto l = open(store, policies[i]);
      for (int round = 0; round < 4; ++round) {
        const decision d = record(l);
        if (d.allowed) continue;
        sleep(d.retry_after);
        BOOST_TEST(record(l).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace limiter_test

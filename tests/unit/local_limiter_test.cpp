// One policy for one process, without a store.
#include "weir/local_limiter.hpp"

#include <atomic>
#include <boost/system/system_error.hpp>
#include <thread>

#include "local/one_word.hpp"
#include "support/random_source.hpp"
#include "support/run.hpp"

namespace local_limiter_test {

using namespace weir;
using namespace weir::test;

struct fixture {
  std::chrono::microseconds now = 1'000'000s;  // a multiple of 10 s
  std::function<time_point()> clock = [this] { return time_point(now); };

  template <class L>
  int allowed_of(L& l, int calls) {
    int n = 0;
    for (int i = 0; i < calls; ++i) n += l.allowed() ? 1 : 0;
    return n;
  }
};

BOOST_FIXTURE_TEST_SUITE(local_limiter_suite, fixture)

BOOST_AUTO_TEST_CASE(any_policy_may_be_chosen_at_run_time) {
  weir::policy chosen = token_bucket{.capacity = 2, .refill = per_hour(1)};
  local_limiter<weir::policy> l(chosen, clock);
  BOOST_TEST(allowed_of(l, 5) == 2);
}

// Article 4 of SOURCES.md: 60 per hour together with 10 per 5 s. By hand: ask both, then count in
// both, so that a refusal by one consumes from none.
BOOST_AUTO_TEST_CASE(two_tiers_by_hand) {
  local_limiter hourly(fixed_window{.limit = 60, .window = 1h}, clock);
  local_limiter bursts(fixed_window{.limit = 10, .window = 5s}, clock);
  const auto allowed = [&] {
    if (!hourly.fetch().allowed || !bursts.fetch().allowed) return false;
    return hourly.allowed() && bursts.allowed();
  };
  const auto passing = [&] {
    int n = 0;
    for (int i = 0; i < 15; ++i) n += allowed() ? 1 : 0;
    return n;
  };
  for (int burst = 0; burst < 6; ++burst) {
    BOOST_TEST(passing() == 10);
    BOOST_TEST(hourly.fetch().used == 10 * (burst + 1));
    now += 5s;
  }
  BOOST_TEST(passing() == 0);  // the hour's share is used up
  BOOST_TEST(bursts.fetch().used == 0);
  now += 1h - 30s;
  BOOST_TEST(passing() == 10);
}

BOOST_AUTO_TEST_CASE(fetch_changes_nothing_and_reset_forgets) {
  local_limiter l(fixed_window{.limit = 2, .window = 10s}, clock);
  for (int i = 0; i < 5; ++i) BOOST_TEST(l.fetch(2).allowed);
  BOOST_TEST(l.allowed());
  BOOST_TEST(l.fetch().allowed);
  BOOST_TEST(!l.fetch(2).allowed);
  BOOST_TEST(allowed_of(l, 5) == 1);
  l.reset();
  BOOST_TEST(allowed_of(l, 5) == 2);
}

BOOST_AUTO_TEST_CASE(weighted_costs_and_a_refusal_that_consumes_nothing) {
  local_limiter l(token_bucket{.capacity = 10, .refill = per_hour(1)}, clock);
  BOOST_TEST(l.allowed(7));
  BOOST_TEST(!l.allowed(4));
  BOOST_TEST(l.allowed(3));
  BOOST_TEST(!l.allowed());
}

BOOST_AUTO_TEST_CASE(unlimited_refuses_nothing_and_counts) {
  local_limiter l(fixed_window{.limit = unlimited, .window = 10s}, clock);
  for (int i = 0; i < 100; ++i) BOOST_TEST(l.allowed(1'000'000));
  const decision d = l.fetch();
  BOOST_TEST(d.used == 100'000'000);
  BOOST_TEST(d.limit == unlimited);
  BOOST_TEST(d.remaining == unlimited);
}

BOOST_AUTO_TEST_CASE(a_moved_limiter_keeps_its_count) {
  local_limiter first(fixed_window{.limit = 2, .window = 10s}, clock);
  BOOST_TEST(first.allowed());
  local_limiter second(std::move(first));
  BOOST_TEST(allowed_of(second, 5) == 1);
}

BOOST_AUTO_TEST_CASE(the_system_clock_is_the_default) {
  local_limiter l(fixed_window{.limit = 2, .window = 24h});
  const auto before = std::chrono::floor<std::chrono::microseconds>(
      std::chrono::system_clock::now());
  const decision d = l.record();
  BOOST_TEST((d.decided_at >= before));
  BOOST_TEST((d.decided_at <= std::chrono::system_clock::now()));
}

BOOST_AUTO_TEST_CASE(errors_are_thrown_and_count_nothing) {
  local_limiter l(fixed_window{.limit = 2, .window = 10s}, clock);
  WEIR_TEST_ERROR(error_of([&] { l.record(0); }), error::invalid_cost);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed(-1); }), error::invalid_cost);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed(INT64_MAX); }), error::invalid_cost);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed(3); }), error::cost_exceeds_limit);
  WEIR_TEST_ERROR(error_of([&] { l.fetch(3); }), error::cost_exceeds_limit);
  BOOST_TEST(l.fetch().used == 0);
}

// unit.policy_validation has the bounds.
BOOST_AUTO_TEST_CASE(a_policy_that_makes_no_sense_is_refused) {
  const auto error_with = [](auto policy) { return error_of([&] { local_limiter l(policy); }); };
  WEIR_TEST_ERROR(error_with(fixed_window{.limit = 0, .window = 1s}), error::invalid_policy);
  WEIR_TEST_ERROR(error_with(sliding_log{.limit = 1, .window = 0s}), error::invalid_policy);
  WEIR_TEST_ERROR(error_with(token_bucket{.capacity = -1, .refill = per_second(1)}),
                  error::invalid_policy);
  WEIR_TEST_ERROR(error_with(gcra{.rate = {}, .burst = 1}), error::invalid_policy);
}

/// How many of 2,000 calls from four threads pass.
int allowed_of_threads(auto& l) {
  std::atomic<int> allowed{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          const bool passes = i % 2 == 0 ? l.allowed() : l.record().allowed;
          if (passes) allowed.fetch_add(1, std::memory_order_relaxed);
          if (i % 50 == 0) l.fetch();
        }
      });
    }
  }
  return allowed;
}

BOOST_AUTO_TEST_CASE(threads_share_one_limiter) {
  const auto none_is_lost = [&](const auto& policy) {
    local_limiter l(policy, clock);
    BOOST_TEST(allowed_of_threads(l) == 1000);
  };
  none_is_lost(token_bucket{.capacity = 1000, .refill = per_day(1)});
  none_is_lost(token_bucket{.capacity = 1000, .refill = {7, 24h}});  // not in one word
  none_is_lost(fixed_window{.limit = 1000, .window = 1h});
  none_is_lost(fixed_window{.limit = 1000, .window = 1h, .anchor = anchor::epoch});
  none_is_lost(sliding_log{.limit = 1000, .window = 1h});
}

// A thread read the clock and then lost its core. It took the state that others had written since
// for one of a clock that was set back, moved it to its own late time, and let them pass again.
BOOST_AUTO_TEST_CASE(a_thread_that_waits_behind_its_look_at_the_clock_moves_no_state_back) {
  const auto check = [&](const auto& policy) {
    std::atomic<bool> has_read{false}, may_go_on{false};
    thread_local bool is_slow = false;
    const auto slow_clock = [&] {
      const auto seen = now;
      if (std::exchange(is_slow, false)) {
        has_read = true;
        has_read.notify_one();
        may_go_on.wait(false);
      }
      return time_point(seen);
    };
    local_limiter l(policy, slow_clock);
    bool passed = true;
    std::jthread other([&] {
      is_slow = true;
      passed = l.allowed();
    });
    has_read.wait(false);
    now += 10ms;
    BOOST_TEST(l.allowed());
    may_go_on = true;
    may_go_on.notify_one();
    other.join();
    BOOST_TEST(!passed);
    BOOST_TEST(!l.allowed());
  };
  check(token_bucket{.capacity = 1, .refill = per_second(1000)});
  check(fixed_window{.limit = 1, .window = 1ms});
  check(fixed_window{.limit = 1, .window = 1ms, .anchor = anchor::epoch});
}

// A limiter beside its policy's kernel, under a clock that jumps: onward, back, and far back. Many
// a state is in one atomic word.
BOOST_AUTO_TEST_CASE(each_limiter_decides_as_its_kernel_does) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    random_source random(seed);
    const auto compare = [&](const auto& policy, bool is_one_word = true) {
      const weir::policies::kernel kernel = weir::policies::compile(policy);
      BOOST_TEST_REQUIRE(weir::detail::one_word::of(kernel).has_value() == is_one_word);
      local_limiter l(policy, clock);
      weir::policies::any_state state;
      now = std::chrono::microseconds(random.between(1, 3));  // the clock's very beginning
      std::visit(
          [&](const auto& k) {
            for (int i = 0; i < 50'000; ++i) {
              const std::int64_t far = random.between(0, 99) == 0 ? 100'000'000 : 400'000;
              now += std::chrono::microseconds(random.between(-far, far + 10'000));
              now = std::max(now, std::chrono::microseconds(1));
              const std::int64_t cost = random.between(1, 4);
              auto& own = weir::policies::state_for(k, state);
              const decision peeked = k.fetch(own, now.count(), cost);
              BOOST_TEST_REQUIRE((l.fetch(cost) == peeked));
              const decision expected = k.record(own, now.count(), cost);
              if (random.between(0, 1) == 0) {
                BOOST_TEST_REQUIRE(l.allowed(cost) == expected.allowed);
              } else {
                BOOST_TEST_REQUIRE((l.record(cost) == expected));
              }
            }
          },
          kernel);
    };
    for (const std::int64_t limit : {4, 5, 60, 2047}) {
      const auto time = std::chrono::microseconds(limit * random.between(1, 100'000));
      compare(token_bucket{.capacity = limit, .refill = {limit, time}});
      compare(leaky_bucket{.capacity = limit, .leak = {1, time / limit}});
      compare(gcra{.rate = {limit, time}, .burst = limit});
      compare(fixed_window{.limit = limit, .window = time});
      const auto offset = std::chrono::microseconds(random.between(0, time.count() - 1));
      compare(
          fixed_window{.limit = limit, .window = time, .anchor = anchor::epoch, .offset = offset});
    }
    for (const std::int64_t limit : {4, 60}) {
      const auto time = std::chrono::microseconds(limit * random.between(1, 100'000));
      compare(sliding_log{.limit = limit, .window = time}, false);
      compare(sliding_log{.limit = limit, .window = time, .resolution = time / 7}, false);
      compare(sliding_window{.limit = limit, .window = time}, false);
      compare(token_bucket{.capacity = limit, .refill = {7, 7 * time + 3us}}, false);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_state_that_does_not_fit_one_word_is_not_put_there) {
  const auto fits = [](const auto& policy) {
    return weir::detail::one_word::of(weir::policies::compile(policy)).has_value();
  };
  BOOST_TEST(fits(token_bucket{.capacity = 5, .refill = per_second(100)}));
  BOOST_TEST(!fits(token_bucket{.capacity = 5, .refill = per_second(3)}));
  BOOST_TEST(fits(fixed_window{.limit = 2047, .window = 1s}));
  BOOST_TEST(!fits(fixed_window{.limit = 2048, .window = 1s}));
  const auto epoch = anchor::epoch;
  BOOST_TEST(fits(fixed_window{.limit = 1'000'000, .window = 60s, .anchor = epoch}));
  BOOST_TEST(!fits(fixed_window{.limit = unlimited, .window = 60s, .anchor = epoch}));
  BOOST_TEST(!fits(fixed_window{.limit = 5, .window = 1s, .count_refused = true}));
  BOOST_TEST(!fits(sliding_log{.limit = 5, .window = 1s}));
}

BOOST_AUTO_TEST_CASE(the_coarse_clock_is_the_systems_last_tick) {
  local_limiter l(fixed_window{.limit = 2, .window = 24h}, local_clock::coarse);
  const decision d = l.record();
  const auto after = std::chrono::system_clock::now();
  BOOST_TEST((d.decided_at <= after));
  BOOST_TEST((d.decided_at > after - 1h));  // another clock would be years away
}

BOOST_AUTO_TEST_CASE(tiers_allow_together_or_count_nothing) {
  local_limiter l(tiers{fixed_window{.limit = 3, .window = 1s}, sliding_log{5, 10s}}, clock);
  BOOST_TEST(allowed_of(l, 9) == 3);
  BOOST_TEST(l.fetch().tier == 0);
  BOOST_CHECK(error_of([&] { l.record(4); }) == error::cost_exceeds_limit);
  BOOST_CHECK(error_of([&] { l.fetch(0); }) == error::invalid_cost);
  now += 1s;
  BOOST_TEST(allowed_of(l, 9) == 2);  // the log holds five
  const auto d = l.record();
  BOOST_TEST(d.tier == 1);
  BOOST_TEST((d.retry_after == 9s));
  l.reset();
  BOOST_TEST(allowed_of(l, 9) == 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace local_limiter_test

// One policy for each of many keys in one process, without a store.
#include "weir/local_keyed_limiter.hpp"

#include <atomic>
#include <boost/system/system_error.hpp>
#include <thread>

#include "support/random_source.hpp"
#include "support/run.hpp"

namespace local_keyed_limiter_test {

using namespace weir;
using namespace weir::test;

struct fixture {
  std::chrono::microseconds now = 1'000'000s;
  std::function<time_point()> clock = [this] { return time_point(now); };

  static std::string name(int i) { return "account-" + std::to_string(i); }

  template <class L>
  int allowed_of(L& l, std::string_view key, int calls) {
    int n = 0;
    for (int i = 0; i < calls; ++i) n += l.allowed(key) ? 1 : 0;
    return n;
  }
};

const token_bucket slow_bucket{.capacity = 5, .refill = per_day(1)};

BOOST_FIXTURE_TEST_SUITE(local_keyed_limiter_suite, fixture)

// Every policy, as tiers too: each key beside a local_limiter of its own, under a clock that steps
// back by up to the 2 s for which states are kept. New keys come all the time, and idle ones are
// dropped.
BOOST_AUTO_TEST_CASE(decides_for_each_key_as_a_local_limiter_does) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    random_source random(seed);
    const auto compare = [&]<class Policy>(const Policy& policy) {
      // Few shards, so that the hand comes round often.
      local_keyed_limiter<Policy> keyed(policy, {.max_keys = 2000}, clock);
      std::map<std::string, local_limiter<Policy>> alone;
      std::size_t fewest = 1000, next = 0;
      std::chrono::microseconds latest = now;
      std::vector<std::string> keys;
      for (int i = 0; i < 20'000; ++i) {
        if (keys.size() < 10 || random.one_in(20)) {  // another key for an old one
          std::string fresh(static_cast<std::size_t>(random.between(1, 80)), 'x');
          fresh += std::to_string(next++);
          if (keys.size() < 10) {
            keys.push_back(fresh);
          } else {
            keys[next % keys.size()] = fresh;
          }
          alone.try_emplace(fresh, policy, clock);
        }
        latest += std::chrono::microseconds(
            random.between(0, random.one_in(50) ? 9'000'000 : 9000));
        now = latest -
              std::chrono::microseconds(random.one_in(3) ? random.between(0, 2'000'000) : 0);
        const std::string& key = random.pick(keys);
        local_limiter<Policy>& own = alone.at(key);
        const std::int64_t cost = random.between(1, 4);
        BOOST_TEST_REQUIRE((keyed.fetch(key, cost) == own.fetch(cost)));
        if (random.one_in(100)) {
          keyed.reset(key);
          own.reset();
        } else if (random.one_in(2)) {
          BOOST_TEST_REQUIRE(keyed.allowed(key, cost) == own.allowed(cost));
        } else {
          BOOST_TEST_REQUIRE((keyed.record(key, cost) == own.record(cost)));
        }
        if (i > 1000) fewest = std::min(fewest, keyed.size());
      }
      BOOST_TEST(keyed.evicted() == 0u);
      BOOST_TEST(keyed.size() < next / 2);  // idle keys were dropped
      BOOST_TEST(fewest >= 1u);
    };
    const auto epoch = anchor::epoch;
    compare(token_bucket{.capacity = 5, .refill = per_second(4)});
    compare(token_bucket{.capacity = 5, .refill = per_second(3)});  // not in one word
    compare(leaky_bucket{.capacity = 4, .leak = per_second(2)});
    compare(gcra{.rate = {7, 3s}, .burst = 6});
    compare(fixed_window{.limit = 5, .window = 1s});
    compare(fixed_window{.limit = 5, .window = 1s, .anchor = epoch, .offset = 300ms});
    compare(fixed_window{.limit = 5, .window = 1s, .count_refused = true});
    compare(sliding_window{.limit = 6, .window = 1s});
    compare(sliding_log{.limit = 6, .window = 1s});
    compare(sliding_log{.limit = 6, .window = 1s, .resolution = 50ms});
    compare(weir::policy(sliding_window{.limit = 4, .window = 2s}));
    compare(weir::tiers{gcra{.rate = per_second(6), .burst = 4},
                        sliding_log{.limit = 7, .window = 2s},
                        fixed_window{.limit = 9, .window = 3s}});
  }
}

// The clock stands still, so no key becomes idle: what does not fit displaces another key.
BOOST_AUTO_TEST_CASE(the_bound_holds_under_a_flood_of_new_keys) {
  for (const int most : {1, 2, 10, 100, 1000, 5000}) {
    BOOST_TEST_CONTEXT("max_keys " << most) {
      local_keyed_limiter l(slow_bucket, {.max_keys = static_cast<std::size_t>(most)}, clock);
      const int flood = 4 * most + 100;
      for (int i = 0; i < flood; ++i) {
        // Each new key is counted from its first request on.
        BOOST_TEST_REQUIRE(allowed_of(l, name(i), i % 7 == 0 ? 9 : 1) == (i % 7 == 0 ? 5 : 1));
        BOOST_TEST_REQUIRE(l.size() <= static_cast<std::size_t>(most));
      }
      BOOST_TEST(l.size() == static_cast<std::size_t>(most));
      BOOST_TEST(l.evicted() == static_cast<std::uint64_t>(flood - most));
    }
  }
}

// A flood of keys that are asked once does not free the key that has used up its limit. With
// windows and logs, that key was idle before those of the flood, and was displaced.
BOOST_AUTO_TEST_CASE(a_flood_displaces_its_own_keys) {
  constexpr auto day = 24h;
  using weir::tiers;
  struct {
    tiers policy;
    std::int64_t flood_cost = 1;
  } const each[] = {
      {tiers{slow_bucket}},
      {tiers{fixed_window{.limit = 5, .window = day}}},
      {tiers{fixed_window{.limit = 5, .window = day, .anchor = anchor::epoch}}},
      {tiers{fixed_window{.limit = 5000, .window = day, .count_refused = true}}},
      {tiers{sliding_window{.limit = 5, .window = day}}},
      {tiers{sliding_log{.limit = 5, .window = day}}},
      {tiers{slow_bucket, sliding_log{.limit = 5, .window = day}}},
      {tiers{fixed_window{.limit = 5, .window = day}, sliding_window{.limit = 99, .window = day}}},
      // The flood uses the short tier up, and heavy keys the long one.
      {tiers{fixed_window{.limit = 5, .window = 1s},
             token_bucket{.capacity = 50, .refill = per_day(50)}},
       5},
      {tiers{token_bucket{.capacity = 5, .refill = per_second(5)},
             sliding_window{.limit = 50, .window = day}},
       5},
      // Each key of the flood uses its limit up, too.
      {tiers{token_bucket{.capacity = 1, .refill = per_day(1)}}},
      {tiers{fixed_window{.limit = 1, .window = day}}},
      {tiers{sliding_log{.limit = 1, .window = day}}},
  };
  for (const auto& [policy, flood_cost] : each) {
    for (const std::size_t most : {20u, 1000u}) {
      BOOST_TEST_CONTEXT(to_string(policy) << ", " << most << " keys") {
        local_keyed_limiter<tiers> l(policy, {.max_keys = most}, clock);
        now += 3 * day;
        for (int i = 0; i < 100; ++i, now += 1s) allowed_of(l, "heavy", 60);
        for (int i = 0; i < 20'000; ++i) {
          now += 10us;
          (void)l.allowed(name(i), flood_cost);
          if (i % 100 == 0) BOOST_TEST_REQUIRE(!l.allowed("heavy"));
        }
        BOOST_TEST(allowed_of(l, "heavy", 9) == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(idle_keys_make_room_first) {
  local_keyed_limiter l(token_bucket{.capacity = 5, .refill = per_second(1)}, {.max_keys = 16},
                        clock);
  for (int i = 0; i < 16; ++i) (void)l.allowed(name(i));
  now += 3s;  // one second, and two of grace
  for (int i = 16; i < 32; ++i) (void)l.allowed(name(i));
  BOOST_TEST(l.evicted() == 0u);
  BOOST_TEST(l.size() == 16u);
  (void)l.allowed(name(32));
  BOOST_TEST(l.evicted() == 1u);
}

// Keys that were counted while the clock was ahead ended last: a full table displaced each new key
// for as long as the clock had been ahead, and 2,000 clients passed as often as they liked.
BOOST_AUTO_TEST_CASE(a_table_that_filled_while_the_clock_was_ahead_counts_new_keys) {
  constexpr int most = 1000, clients = 100;
  const auto count_new_keys = [&]<class Policy>(const Policy& policy) {
    local_keyed_limiter<Policy> l(policy, {.max_keys = most}, clock);
    now += 48h;
    for (int i = 0; i < 2 * most; ++i) (void)l.allowed("old " + name(i));
    now -= 48h;
    now += 1min;
    const std::uint64_t evicted = l.evicted();
    int passed = 0;
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < clients; ++i) passed += l.allowed(name(i)) ? 1 : 0;
    }
    BOOST_TEST(passed == 5 * clients);
    BOOST_TEST(l.size() == static_cast<std::size_t>(most));
    // The displaced keys start anew with their whole limit.
    BOOST_TEST(l.evicted() - evicted == static_cast<std::uint64_t>(clients));
  };
  const auto epoch = anchor::epoch;
  count_new_keys(token_bucket{.capacity = 5, .refill = per_second(1)});
  count_new_keys(token_bucket{.capacity = 5, .refill = {3, 3'000'001us}});  // not in one word
  count_new_keys(fixed_window{.limit = 5, .window = 10s});
  count_new_keys(fixed_window{.limit = 5, .window = 10s, .anchor = epoch});
  count_new_keys(fixed_window{.limit = 5, .window = 10s, .count_refused = true});
  count_new_keys(sliding_window{.limit = 5, .window = 10s});
  count_new_keys(sliding_log{.limit = 5, .window = 10s});
  count_new_keys(sliding_log{.limit = 5, .window = 10s, .resolution = 1s});
  count_new_keys(weir::tiers{fixed_window{.limit = 5, .window = 10s},
                             gcra{.rate = per_hour(100), .burst = 1000}});
}

BOOST_AUTO_TEST_CASE(idle_keys_make_room_before_keys_that_lie_ahead_of_the_clock) {
  local_keyed_limiter l(fixed_window{.limit = 5, .window = 10s}, {.max_keys = 16}, clock);
  now += 48h;
  for (int i = 0; i < 8; ++i) (void)l.allowed(name(i));
  now -= 48h;
  for (int i = 8; i < 16; ++i) (void)l.allowed(name(i));
  now += 12s;
  for (int i = 16; i < 24; ++i) (void)l.allowed(name(i));
  BOOST_TEST(l.evicted() == 0u);
  (void)l.allowed(name(24));
  BOOST_TEST(l.evicted() == 1u);
}

// While the clock is behind, all keys lie ahead of it.
BOOST_AUTO_TEST_CASE(a_clock_that_steps_back_for_a_moment_does_not_free_the_key_that_ends_last) {
  local_keyed_limiter l(fixed_window{.limit = 5, .window = 1h}, {.max_keys = 16}, clock);
  for (int i = 0; i < 15; ++i) (void)l.allowed(name(i));
  now += 1s;
  BOOST_TEST(allowed_of(l, "heavy", 9) == 5);
  now -= 48h;
  for (int i = 15; i < 30; ++i) (void)l.allowed(name(i));
  BOOST_TEST(l.evicted() == 15u);
  now += 48h;
  BOOST_TEST(allowed_of(l, "heavy", 9) == 0);
}

// One key is asked all the time, and new ones come and go. A key matters for 1 s after its one
// request, and is kept for 2 s more: 300 are remembered, and about one in each of 4,096 shards
// waits until the hand comes round.
BOOST_AUTO_TEST_CASE(an_hour_of_new_keys_does_not_pile_up) {
  local_keyed_limiter l(token_bucket{.capacity = 10, .refill = per_second(1)}, {}, clock);
  int allowed = 0;
  std::size_t most = 0;
  for (int i = 0; i < 3600 * 100; ++i) {
    BOOST_TEST_REQUIRE(l.allowed(name(i)));
    if (i % 10 == 0) allowed += l.allowed("the one") ? 1 : 0;
    most = std::max(most, l.size());
    now += 10ms;
  }
  BOOST_TEST(allowed == 10 + 3599);
  BOOST_TEST_MESSAGE("at the most " << most << " keys");
  BOOST_TEST(most < 6000u);
  BOOST_TEST(most > 300u);
  BOOST_TEST(l.evicted() == 0u);
  now += 1h;
  for (int i = 0; i < 200'000; ++i) (void)l.allowed("the one");
  BOOST_TEST(l.size() == 1u);
}

BOOST_AUTO_TEST_CASE(threads_admit_exactly_the_limit_of_each_key) {
  const auto none_is_lost = [&](const auto& policy, std::int64_t limit) {
    constexpr int keys = 10, threads = 4;
    local_keyed_limiter l(policy, {}, clock);
    std::array<std::atomic<std::int64_t>, keys> allowed{};
    {
      std::vector<std::jthread> running;
      for (int t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
          for (int i = 0; i < 3000; ++i) {
            const int key = i % keys;
            const bool passes = i % 2 == 0 ? l.allowed(name(key)) : l.record(name(key)).allowed;
            if (passes) allowed[static_cast<std::size_t>(key)].fetch_add(1);
            (void)l.allowed("of thread " + std::to_string(t) + " " + std::to_string(i));
            if (i % 50 == 0) l.fetch(name(key));
          }
        });
      }
    }
    for (const auto& of_key : allowed) BOOST_TEST(of_key == limit);
    BOOST_TEST(l.size() == static_cast<std::size_t>(keys + threads * 3000));
  };
  none_is_lost(token_bucket{.capacity = 1000, .refill = per_day(1)}, 1000);
  none_is_lost(token_bucket{.capacity = 1000, .refill = {7, 24h}}, 1000);
  none_is_lost(fixed_window{.limit = 1000, .window = 1h}, 1000);
  none_is_lost(weir::tiers{sliding_log{.limit = 700, .window = 1h},
                           fixed_window{.limit = 1000, .window = 1h}},
               700);
}

// Many shards hold fewer keys than there are threads: displacing looks for keys in other shards.
BOOST_AUTO_TEST_CASE(threads_keep_the_bound) {
  for (const std::size_t most : {3u, 1000u}) {
    local_keyed_limiter l(slow_bucket, {.max_keys = most}, clock);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 5000; ++i) {
          (void)l.allowed(std::to_string(t) + " " + std::to_string(i));
          if (i % 16 == 0) l.reset(std::to_string(t) + " " + std::to_string(i));
          if (l.size() > most) std::terminate();
        }
      });
    }
    threads.clear();
    BOOST_TEST(l.size() <= most);
    BOOST_TEST(l.size() > most / 2);
    BOOST_TEST(l.evicted() > 10'000u);
  }
}

BOOST_AUTO_TEST_CASE(keys_are_any_bytes_and_need_not_outlive_the_call) {
  local_keyed_limiter l(slow_bucket, {}, clock);
  for (std::size_t size = 1; size < 100; ++size) {
    std::string key(size, 'x');
    BOOST_TEST_REQUIRE(allowed_of(l, key, 9) == 5);
    key.assign(size, 'y');
    BOOST_TEST_REQUIRE(allowed_of(l, key, 9) == 5);
    key[size / 2] = '\0';
    BOOST_TEST_REQUIRE(allowed_of(l, key, 9) == 5);
  }
  for (std::size_t size = 1; size < 100; ++size) {
    BOOST_TEST_REQUIRE(allowed_of(l, std::string(size, 'x'), 9) == 0);
  }
  const std::string_view part = std::string_view("abcdef").substr(1, 3);
  BOOST_TEST(allowed_of(l, part, 9) == 5);
  BOOST_TEST(!l.allowed("bcd"));
}

BOOST_AUTO_TEST_CASE(fetch_remembers_nothing_and_reset_forgets_one_key) {
  local_keyed_limiter l(fixed_window{.limit = 2, .window = 10s}, {}, clock);
  BOOST_TEST(l.fetch("a", 2).allowed);
  BOOST_TEST(l.fetch("a").limit == 2);
  BOOST_TEST(l.size() == 0u);
  BOOST_TEST(allowed_of(l, "a", 5) == 2);
  BOOST_TEST(allowed_of(l, "b", 5) == 2);
  BOOST_TEST(!l.fetch("a").allowed);
  l.reset("a");
  l.reset("unknown");
  BOOST_TEST(l.size() == 1u);
  BOOST_TEST(allowed_of(l, "a", 5) == 2);
  BOOST_TEST(allowed_of(l, "b", 5) == 0);
}

BOOST_AUTO_TEST_CASE(errors_are_thrown_and_count_nothing) {
  local_keyed_limiter l(fixed_window{.limit = 2, .window = 10s}, {}, clock);
  WEIR_TEST_ERROR(error_of([&] { l.record("a", 0); }), error::invalid_cost);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed("a", -1); }), error::invalid_cost);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed("a", INT64_MAX); }), error::invalid_cost);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed("a", 3); }), error::cost_exceeds_limit);
  WEIR_TEST_ERROR(error_of([&] { l.fetch("a", 3); }), error::cost_exceeds_limit);
  WEIR_TEST_ERROR(error_of([&] { (void)l.allowed(""); }), error::invalid_subject);
  WEIR_TEST_ERROR(error_of([&] { l.fetch(""); }), error::invalid_subject);
  WEIR_TEST_ERROR(error_of([&] { l.reset(""); }), error::invalid_subject);
  WEIR_TEST_ERROR(error_of([&] { l.record(std::string(65'537, 'x')); }), error::invalid_subject);
  BOOST_TEST(l.size() == 0u);
  BOOST_TEST(l.allowed(std::string(65'536, 'x')));
}

BOOST_AUTO_TEST_CASE(options_and_policies_are_checked) {
  const auto code_of = [](const auto& policy, local_keyed_options options) {
    return error_of([&] { local_keyed_limiter l(policy, options); });
  };
  WEIR_TEST_ERROR(code_of(slow_bucket, {.max_keys = 0}), error::invalid_options);
  WEIR_TEST_ERROR(code_of(slow_bucket, {.max_keys = 1'000'000'001}), error::invalid_options);
  WEIR_TEST_ERROR(code_of(sliding_log{.limit = 0, .window = 1s}, {}), error::invalid_policy);
}

BOOST_AUTO_TEST_CASE(a_moved_limiter_keeps_its_counts) {
  local_keyed_limiter first(slow_bucket, {}, clock);
  BOOST_TEST(allowed_of(first, "a", 3) == 3);
  local_keyed_limiter second(std::move(first));
  BOOST_TEST(allowed_of(second, "a", 9) == 2);
}

BOOST_AUTO_TEST_CASE(either_system_clock_may_be_chosen) {
  for (const auto chosen : {local_clock::precise, local_clock::coarse}) {
    local_keyed_limiter l(slow_bucket, {}, chosen);
    const decision d = l.record("a");
    const auto after = std::chrono::system_clock::now();
    BOOST_TEST((d.decided_at <= after));
    BOOST_TEST((d.decided_at > after - 1h));  // another clock would be years away
  }
}

BOOST_AUTO_TEST_CASE(a_clock_that_throws_changes_nothing) {
  bool is_broken = false;
  local_keyed_limiter l(slow_bucket, {}, [&]() -> time_point {
    if (is_broken) throw std::runtime_error("no time");
    return time_point(now);
  });
  BOOST_TEST(allowed_of(l, "a", 3) == 3);
  is_broken = true;
  BOOST_CHECK_THROW((void)l.allowed("a"), std::runtime_error);
  BOOST_CHECK_THROW((void)l.allowed("b"), std::runtime_error);
  is_broken = false;
  BOOST_TEST(l.size() == 1u);
  BOOST_TEST(allowed_of(l, "a", 9) == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace local_keyed_limiter_test

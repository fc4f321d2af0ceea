// Refusals that a process remembers: as long as the store would refuse, and no longer.
#include "limiter/deny_cache.hpp"

#include "policy/kernel.hpp"
#include "policy/tier_set.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"
#include "weir/local_limiter.hpp"

namespace deny_cache_test {

using namespace weir;
using namespace weir::test;
using weir::detail::deny_cache;

const deny_cache::time start{1h};

decision refusal(std::chrono::microseconds retry_after) {
  decision d;
  d.limit = d.used = 5;
  d.retry_after = retry_after;
  d.reset_after = retry_after * 2;
  d.decided_at = time_point(100s);
  return d;
}

BOOST_AUTO_TEST_SUITE(deny_cache_suite)

BOOST_AUTO_TEST_CASE(a_refusal_is_repeated_with_the_times_that_are_left) {
  deny_cache cache(8, 1min);
  cache.note("a", 2, refusal(10s), start);
  const auto d = cache.find("a", 2, start + 4s);
  BOOST_TEST_REQUIRE(d.has_value());
  BOOST_TEST(!d->allowed);
  BOOST_TEST((d->source == source::deny_cache));
  BOOST_TEST((d->retry_after == 6s));
  BOOST_TEST((d->reset_after == 16s));
  BOOST_TEST((d->decided_at == time_point(104s)));
  BOOST_TEST(d->used == 5);

  BOOST_TEST(!cache.find("a", 2, start + 10s).has_value());
  BOOST_TEST(!cache.find("a", 1, start + 4s).has_value());
  BOOST_TEST(!cache.find("a", 3, start + 4s).has_value());
  BOOST_TEST(!cache.find("b", 2, start + 4s).has_value());
}

BOOST_AUTO_TEST_CASE(a_refusal_is_remembered_no_longer_than_asked_for) {
  deny_cache cache(8, 1s);
  cache.note("a", 1, refusal(10s), start);
  BOOST_TEST((cache.find("a", 1, start + 999ms)->retry_after == 9001ms));
  BOOST_TEST(!cache.find("a", 1, start + 1s).has_value());
}

BOOST_AUTO_TEST_CASE(a_forgotten_refusal_is_asked_again) {
  deny_cache cache(1, 1min);
  cache.note("a", 1, refusal(10s), start);
  cache.forget("b", start);  // of the same set
  BOOST_TEST(cache.find("a", 1, start).has_value());
  cache.forget("a", start);
  BOOST_TEST(!cache.find("a", 1, start).has_value());
}

// A thread whose refusal came before another thread's refund noted it after that, and the process
// refused for up to deny_cache_duration what the refund had made room for.
BOOST_AUTO_TEST_CASE(a_refusal_from_before_a_refund_is_not_remembered) {
  deny_cache cache(8, 1min);
  cache.forget("a", start + 2ms);
  cache.note("a", 1, refusal(10s), start + 1ms);
  BOOST_TEST(!cache.find("a", 1, start + 3ms).has_value());
  cache.note("a", 1, refusal(10s), start + 3ms);
  BOOST_TEST(cache.find("a", 1, start + 4ms).has_value());
}

// A slot kept up to 64 KiB of a subject, so the table was as large as callers made it.
BOOST_AUTO_TEST_CASE(a_long_subject_is_not_remembered) {
  deny_cache cache(8, 1min);
  const std::string longest(256, 's');
  cache.note(longest, 1, refusal(10s), start);
  BOOST_TEST(cache.find(longest, 1, start).has_value());
  cache.note(longest + 's', 1, refusal(10s), start);
  BOOST_TEST(!cache.find(longest + 's', 1, start).has_value());
}

// A subject had one slot, which the next refusal took over: with a tenth of the subjects that the
// table has room for, 17 % of their checks went to the store, and with two costs in turn nearly
// all.
BOOST_AUTO_TEST_CASE(refusals_stay_while_others_come) {
  constexpr int subjects = 256;
  deny_cache cache(4 * subjects, 1h);
  const auto name = [](int i) { return "subject " + std::to_string(i); };
  for (int i = 0; i < subjects; ++i) {
    for (const std::int64_t cost : {1, 2}) cache.note(name(i), cost, refusal(10s), start);
  }
  int kept = 0;
  for (int i = 0; i < subjects; ++i) {
    for (const std::int64_t cost : {1, 2}) kept += cache.find(name(i), cost, start) ? 1 : 0;
  }
  // Nearly all. The names that share a set are random.
  BOOST_TEST(kept > 2 * subjects * 8 / 10);
  cache.forget(name(0), start);
  for (const std::int64_t cost : {1, 2}) BOOST_TEST(!cache.find(name(0), cost, start).has_value());
}

BOOST_AUTO_TEST_CASE(a_refusal_that_is_over_makes_room) {
  deny_cache cache(1, 1min);
  for (int i = 0; i < 20; ++i) {
    const auto now = start + i * 10s;
    cache.note(std::to_string(i), 1, refusal(10s), now);
    BOOST_TEST(cache.find(std::to_string(i), 1, now).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_full_table_never_confuses) {
  deny_cache cache(4, 1min);
  for (int i = 0; i < 100; ++i) {
    cache.note(std::to_string(i), 1, refusal(std::chrono::seconds(1 + i)), start);
  }
  int kept = 0;
  for (int i = 0; i < 100; ++i) {
    const auto d = cache.find(std::to_string(i), 1, start);
    if (!d) continue;
    ++kept;
    BOOST_TEST((d->retry_after == std::chrono::seconds(1 + i)));
  }
  BOOST_TEST(kept == 8);
}

// With any policy, and as long as nothing is given back, the cache refuses only what the policy
// refuses at that moment, and names the same time.
BOOST_AUTO_TEST_CASE(what_the_cache_refuses_the_policy_refuses) {
  const policy policies[] = {
      fixed_window{.limit = 3, .window = 1s},
      sliding_window{.limit = 3, .window = 1s},
      sliding_log{.limit = 3, .window = 1s},
      token_bucket{.capacity = 3, .refill = per_second(3)},
      leaky_bucket{.capacity = 3, .leak = per_second(7)},
  };
  const std::uint64_t seed = run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    random_source random(seed);
    std::int64_t repeated = 0;
    for (const policy& p : policies) {
      time_point now(1000s);
      local_limiter limiter(tiers{p}, std::function<time_point()>([&] { return now; }));
      deny_cache cache(16, 500ms);
      const auto steady = [&] { return start + (now - time_point(1000s)); };
      for (int i = 0; i < 3000; ++i) {
        now += std::chrono::microseconds(random.between(0, 100'000));
        const std::int64_t cost = random.between(1, 3);
        const auto remembered = cache.find("a", cost, steady());
        const decision truth = limiter.fetch(cost);
        if (remembered) {
          ++repeated;
          BOOST_TEST_REQUIRE(!truth.allowed);
          // Others that were admitted since make the wait longer, never shorter.
          BOOST_TEST_REQUIRE((remembered->retry_after <= truth.retry_after));
          BOOST_TEST_REQUIRE((remembered->decided_at == truth.decided_at));
        }
        const decision d = limiter.record(cost);
        if (!d.allowed) cache.note("a", cost, d, steady());
      }
    }
    BOOST_TEST(repeated > 100);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace deny_cache_test

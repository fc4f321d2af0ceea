// The units that a process takes from the store beforehand: how many pass, and how many it takes.
#include "limiter/unit_supply.hpp"

#include <boost/test/unit_test.hpp>
#include <deque>
#include <vector>

#include "policy/kernel.hpp"
#include "policy/tier_set.hpp"
#include "support/random_source.hpp"
#include "support/run.hpp"

namespace unit_supply_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using weir::decision;
using weir::source;
using weir::detail::supply_rules;
using weir::detail::unit_supply;

const unit_supply::time start{1h};

decision granted(std::int64_t remaining, microseconds reset_after = 10s) {
  decision d;
  d.allowed = true;
  d.limit = 1000;
  d.used = 1000 - remaining;
  d.remaining = remaining;
  d.reset_after = reset_after;
  d.decided_at = weir::time_point(100s);
  d.receipt.id = 7;
  return d;
}

const supply_rules in_windows{.most = 64, .life = {}, .pace = 500ms};
const supply_rules in_bucket{.most = 64, .life = 4s, .pace = 500ms};

/// A take that the store allows at once.
std::int64_t take(unit_supply& s, std::int64_t remaining, unit_supply::time now) {
  const std::int64_t units = s.begin_take(now);
  if (units > 0) s.taken(units, granted(remaining), now, now);
  return units;
}
std::int64_t spend_all(unit_supply& s, unit_supply::time now) {
  std::int64_t n = 0;
  while (s.spend(1, now)) ++n;
  return n;
}

/// Lets a supply grow to its bound of 64 units and spends 32 of them. Returns the time.
unit_supply::time grow_and_spend_half(unit_supply& s) {
  s.heard(granted(1'000'000));
  unit_supply::time now = start;
  for (int i = 0; i < 10; ++i) {
    take(s, 1'000'000, now += 1ms);
    spend_all(s, now);
  }
  BOOST_TEST(take(s, 1'000'000, now) == 64);
  for (int i = 0; i < 32; ++i) s.spend(1, now);
  return now;
}

/// The state in a store, and its clock.
struct simulated_store {
  weir::policies::kernel kernel;
  weir::policies::any_state state = {};
  weir::policies::instant clock = 1'000'000'000;

  decision record(std::int64_t cost) {
    return std::visit(
        [&](const auto& k) { return k.record(weir::policies::state_for(k, state), clock, cost); },
        kernel);
  }
  void give_back(const unit_supply::rest& rest) {
    const weir::policies::tickets all = weir::policies::tickets_of(rest.from);
    std::visit(
        [&]<class Kernel>(const Kernel& k) {
          if constexpr (Kernel::can_settle) {
            k.give_back(weir::policies::state_for(k, state), clock,
                        {all.turn, all.counted, all.buckets[0]}, rest.units);
          }
        },
        kernel);
  }
};

/// A process whose takes are on their way for a while.
struct process {
  unit_supply supply;
  struct message {
    std::int64_t units = 0;
    unit_supply::time sent{};
    std::optional<decision> answer = {};
  };
  std::optional<message> under_way = {};
  std::int64_t balance = 0;  // units counted by the store for this process, less those that passed
};

/// Random processes check one subject for a while. Calls passed(time, units) for what passes, and
/// returns the number of checks and of calls to the store.
struct tally {
  std::int64_t checks = 0, calls = 0, allowed = 0;
};
template <class Passed>
tally run_fleet(weir::test::random_source& random, const weir::policy& policy, std::int64_t most,
                std::size_t count, microseconds longest_step, int steps, Passed&& passed) {
  const supply_rules rules = supply_rules::of(weir::tiers{policy}, most);
  simulated_store store{weir::policies::compile(policy)};
  const auto first = store.clock;
  std::vector<process> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back({unit_supply(rules)});
  tally sum;
  for (int i = 0; i < steps; ++i) {
    // Now more checks come than may pass, now fewer, so that units are left at the end of a window.
    store.clock += random.between(0, longest_step.count() * (i / 500 % 2 == 0 ? 1 : 5));
    const auto now = start + microseconds(store.clock - first);
    process& p = all[static_cast<std::size_t>(random.between(0, static_cast<int>(count) - 1))];
    auto& message = p.under_way;
    if (message && !message->answer && random.one_in(4)) {
      message->answer = store.record(message->units);
      if (message->answer->allowed) p.balance += message->units;
    } else if (message && message->answer && random.one_in(4)) {
      if (random.one_in(50)) {
        p.supply.failed();  // the answer is lost
        p.balance -= message->answer->allowed ? message->units : 0;
      } else {
        p.supply.taken(message->units, *message->answer, message->sent, now);
      }
      message.reset();
    }
    if (random.one_in(200)) {
      const unit_supply::rest rest = p.supply.give_up(now);
      store.give_back(rest);
      p.balance = message && message->answer && message->answer->allowed ? message->units : 0;
    }
    const std::int64_t cost = random.one_in(10) ? random.between(1, 5) : 1;
    ++sum.checks;
    if (const auto d = p.supply.spend(cost, now)) {
      BOOST_TEST_REQUIRE((d->source == source::local_units));
      p.balance -= cost;
      BOOST_TEST_REQUIRE(p.balance >= 0);  // only what the store has counted passes
      sum.allowed += cost;
      passed(store.clock, cost);
    } else {
      ++sum.calls;
      const decision direct = store.record(cost);
      p.supply.heard(direct);
      if (direct.allowed) {
        sum.allowed += cost;
        passed(store.clock, cost);
      }
    }
    if (const std::int64_t units = p.supply.begin_take(now); units > 0) {
      BOOST_TEST_REQUIRE(!message.has_value());
      BOOST_TEST_REQUIRE(units <= most);
      ++sum.calls;
      message = process::message{units, now};
    }
  }
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unit_supply_suite)

BOOST_AUTO_TEST_CASE(nothing_is_taken_before_the_store_has_said_that_units_are_left) {
  unit_supply s(in_windows);
  BOOST_TEST(!s.spend(1, start).has_value());
  BOOST_TEST(s.begin_take(start) == 0);
  s.heard(granted(0));
  BOOST_TEST(s.begin_take(start) == 0);
  s.heard(granted(100));
  BOOST_TEST(s.begin_take(start) == 1);
  BOOST_TEST(s.is_taking());
  BOOST_TEST(s.begin_take(start) == 0);  // one at a time
}

BOOST_AUTO_TEST_CASE(a_local_decision_counts_from_the_present_moment) {
  unit_supply s(in_windows);
  s.heard(granted(100));
  s.begin_take(start);
  s.taken(3, granted(97), start, start + 1s);
  const auto d = s.spend(2, start + 4s);
  BOOST_TEST_REQUIRE(d.has_value());
  BOOST_TEST(d->allowed);
  BOOST_TEST((d->source == source::local_units));
  BOOST_TEST(d->limit == 1000);
  BOOST_TEST(d->used == 902);      // the store counts 903, and one is left here
  BOOST_TEST(d->remaining == 98);  // 97 in the store, and one here
  BOOST_TEST((d->reset_after == 6s));
  BOOST_TEST((d->decided_at == weir::time_point(104s)));
  BOOST_TEST(d->receipt.id == 0u);
  BOOST_TEST(!s.spend(2, start + 4s).has_value());
  BOOST_TEST(s.spend(1, start + 4s).has_value());
}

BOOST_AUTO_TEST_CASE(units_of_a_window_end_with_it) {
  unit_supply s(in_windows);
  s.heard(granted(100));
  s.begin_take(start);
  s.taken(3, granted(97, 10s), start, start + 2s);
  BOOST_TEST(s.spend(1, start + 9999ms).has_value());
  BOOST_TEST(!s.spend(1, start + 10s).has_value());
  BOOST_TEST(s.give_up(start + 10s).units == 0);
}

BOOST_AUTO_TEST_CASE(units_of_a_bucket_end_with_its_drain_time) {
  unit_supply s(in_bucket);
  s.heard(granted(100));
  s.begin_take(start);
  s.taken(3, granted(97, 1s), start, start);
  BOOST_TEST(s.spend(1, start + 3999ms).has_value());
  BOOST_TEST(!s.spend(1, start + 4s).has_value());
}

// The bucket had drained while the process still held units: 1063 of 1000 were left.
BOOST_AUTO_TEST_CASE(no_more_units_remain_than_the_limit) {
  unit_supply s(in_bucket);
  const unit_supply::time now = grow_and_spend_half(s);
  BOOST_TEST(take(s, 1'000, now) == 32);
  const auto d = s.spend(1, now);
  BOOST_TEST_REQUIRE(d.has_value());
  BOOST_TEST(d->remaining == 1'000);
  BOOST_TEST(d->used == 0);
}

BOOST_AUTO_TEST_CASE(a_supply_grows_with_demand_up_to_its_bound) {
  unit_supply s(in_windows);
  s.heard(granted(1'000'000));
  std::int64_t largest = 0, takes = 0, spent = 0;
  for (int i = 0; i < 100; ++i) {
    const auto now = start + i * 10ms;
    const std::int64_t units = take(s, 1'000'000, now);
    largest = std::max(largest, units);
    takes += units > 0 ? 1 : 0;
    spent += spend_all(s, now);
  }
  BOOST_TEST(largest == 64);
  BOOST_TEST(takes == 100);
  BOOST_TEST(spent > 90 * 64);
}

BOOST_AUTO_TEST_CASE(a_supply_stays_small_if_it_is_spent_slowly) {
  unit_supply s(in_windows);
  s.heard(granted(1'000'000));
  for (int i = 0; i < 100; ++i) {
    const auto now = start + i * 2s;
    BOOST_TEST(take(s, 1'000'000, now) <= 1);
    s.spend(1, now);
  }
}

BOOST_AUTO_TEST_CASE(units_that_ended_unspent_halve_the_supply) {
  unit_supply s(in_windows);
  s.heard(granted(1'000'000));
  unit_supply::time now = start;
  for (int i = 0; i < 10; ++i) {
    take(s, 1'000'000, now += 10ms);
    spend_all(s, now);
  }
  BOOST_TEST(take(s, 1'000'000, now += 10ms) == 64);
  now += 10s;  // the end of the window
  BOOST_TEST(take(s, 1'000'000, now) == 32);
  now += 10s;
  BOOST_TEST(take(s, 1'000'000, now) == 16);
}

BOOST_AUTO_TEST_CASE(a_take_leaves_half_of_what_remains_to_the_others) {
  unit_supply s({.most = 16, .life = {}, .pace = 500ms});
  s.heard(granted(1'000'000));
  for (int i = 0; i < 5; ++i) {
    take(s, 1'000'000, start);
    spend_all(s, start);
  }
  s.heard(granted(7));
  BOOST_TEST(take(s, 3, start) == 4);
  BOOST_TEST(spend_all(s, start) == 4);
  BOOST_TEST(take(s, 1, start) == 2);
  BOOST_TEST(spend_all(s, start) == 2);
  // One unit of sixteen is not worth a call.
  BOOST_TEST(s.begin_take(start) == 0);
}

BOOST_AUTO_TEST_CASE(after_a_failed_take_the_store_is_not_asked_until_it_has_answered_a_check) {
  unit_supply s(in_windows);
  s.heard(granted(100));
  s.begin_take(start);
  s.failed();
  BOOST_TEST(!s.is_taking());
  BOOST_TEST(s.begin_take(start) == 0);
  s.heard(granted(99));
  BOOST_TEST(s.begin_take(start + 2s) == 1);
}

BOOST_AUTO_TEST_CASE(what_is_left_during_a_failure_is_spent) {
  unit_supply s(in_windows);
  const unit_supply::time now = grow_and_spend_half(s);
  BOOST_TEST(s.begin_take(now) == 32);
  s.failed();
  BOOST_TEST(spend_all(s, now) == 32);
}

BOOST_AUTO_TEST_CASE(what_goes_back_is_no_more_than_the_last_take_counted) {
  unit_supply s(in_bucket);
  s.heard(granted(1'000));
  for (int i = 0; i < 3; ++i) {
    take(s, 1'000, start);
    spend_all(s, start);
  }
  BOOST_TEST(take(s, 1'000, start) == 8);
  s.spend(4, start);
  BOOST_TEST(take(s, 1'000, start) == 12);
  const unit_supply::rest rest = s.give_up(start);
  BOOST_TEST(rest.units == 12);
  BOOST_TEST(rest.from.receipt.id == 7u);
  BOOST_TEST(!s.spend(1, start).has_value());
  BOOST_TEST(s.give_up(start).units == 0);
}

// Each pause between two bursts lost what was left when the last take came, until a daily window
// ended: of 100,000 units, bursts of 20 got 77,000.
BOOST_AUTO_TEST_CASE(a_window_gets_back_what_was_left_of_earlier_takes) {
  unit_supply s(in_windows);
  const unit_supply::time now = grow_and_spend_half(s);
  BOOST_TEST(take(s, 1'000, now) == 32);
  const unit_supply::rest rest = s.give_up(now);
  BOOST_TEST(rest.units == 64);
  BOOST_TEST(rest.from.receipt.id == 7u);
  BOOST_TEST(!s.spend(1, now).has_value());
}

// The server's clock had stepped into the next window, which ends a little later. Units that the
// window before had counted went back to it, and took away what other processes had counted there.
BOOST_AUTO_TEST_CASE(a_window_gets_nothing_back_that_another_one_counted) {
  unit_supply s(in_windows);
  const unit_supply::time now = grow_and_spend_half(s);
  const std::int64_t units = s.begin_take(now);
  s.taken(units, granted(1'000, 10s + 1ms), now, now);
  BOOST_TEST(units == 32);
  BOOST_TEST(s.give_up(now).units == units);
}

// A check of cost 2 did not spend the one unit of the first take, so no further take came: with
// costs of two and more, nothing was answered here, and the takes came on top.
BOOST_AUTO_TEST_CASE(a_supply_serves_checks_that_cost_more_than_one) {
  unit_supply s(in_windows);
  s.heard(granted(1'000'000));
  std::int64_t local = 0, takes = 0;
  for (int i = 0; i < 100; ++i) {
    const auto now = start + i * 10ms;
    local += s.spend(5, now) ? 1 : 0;
    takes += take(s, 1'000'000, now) > 0 ? 1 : 0;
  }
  BOOST_TEST(local == 99);
  BOOST_TEST(takes < 30);
}

BOOST_AUTO_TEST_CASE(a_supply_takes_nothing_for_checks_that_cost_more_than_an_eighth_of_it) {
  unit_supply s(in_windows);
  s.heard(granted(1'000'000));
  for (int i = 0; i < 100; ++i) {
    BOOST_TEST(!s.spend(9, start).has_value());
    BOOST_TEST(s.begin_take(start) == 0);
  }
  BOOST_TEST(!s.spend(1, start).has_value());
  BOOST_TEST(s.begin_take(start) == 1);
}

// The answer to a take may be delivered after the reset that came behind it, and its units were
// then spent: more passed than the limit.
BOOST_AUTO_TEST_CASE(a_take_from_before_a_reset_brings_nothing) {
  unit_supply s(in_windows);
  s.heard(granted(100));
  BOOST_TEST(s.begin_take(start) == 1);
  s.forget(start);
  s.taken(1, granted(99), start, start);
  BOOST_TEST(!s.spend(1, start).has_value());
  BOOST_TEST(take(s, 98, start + 2s) == 1);
  BOOST_TEST(s.spend(1, start + 2s).has_value());
}

// If the server's clock was set forward, units of the old window were spent in the new one.
BOOST_AUTO_TEST_CASE(units_do_not_go_over_into_the_next_window) {
  unit_supply s(in_windows);
  const unit_supply::time now = grow_and_spend_half(s);
  BOOST_TEST(s.begin_take(now) == 32);
  s.taken(32, granted(1'000'000, 19s), now, now);  // the window before ended after 10 s
  BOOST_TEST(spend_all(s, now) == 32);
}

// In no window more passes than the limit, whatever the processes hold, lose and give back.
BOOST_AUTO_TEST_CASE(a_fleet_passes_no_more_than_the_limit_in_each_window) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    weir::test::random_source random(seed, 1);
    for (const std::int64_t most : {1, 7, 50}) {
      const weir::fixed_window policy{.limit = 200, .window = 1s, .anchor = weir::anchor::epoch};
      std::int64_t window = 0, count = 0, largest = 0;
      const auto passed = [&](std::int64_t at, std::int64_t units) {
        if (at / 1'000'000 != window) count = 0;
        window = at / 1'000'000;
        count += units;
        largest = std::max(largest, count);
        BOOST_TEST_REQUIRE(count <= policy.limit);
      };
      run_fleet(random, policy, most, 4, 4ms, 30'000, passed);
      BOOST_TEST(largest >= policy.limit * 9 / 10);
    }
  }
}

// In a stretch of time, a bucket lets its burst pass, its rate, and what the processes held.
BOOST_AUTO_TEST_CASE(a_fleet_passes_no_more_than_burst_rate_and_what_it_holds) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    weir::test::random_source random(seed, 2);
    for (const std::int64_t most : {1, 7, 50}) {
      for (const std::int64_t processes : {1, 4}) {
        const weir::token_bucket policy{.capacity = 100, .refill = weir::per_second(1000)};
        // The largest surplus over the rate in any stretch, as a bucket's level, in units / 1000.
        std::int64_t level = 0, last = 0, highest = 0;
        const auto passed = [&](std::int64_t at, std::int64_t units) {
          level = std::max<std::int64_t>(0, level - (at - last)) + units * 1000;
          last = at;
          highest = std::max(highest, level);
          BOOST_TEST_REQUIRE(level <= (policy.capacity + processes * most) * 1000);
        };
        run_fleet(random, policy, most, static_cast<std::size_t>(processes), 1ms, 20'000, passed);
        BOOST_TEST(highest >= policy.capacity * 500);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_fleet_with_room_asks_the_store_for_few_of_its_checks) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    weir::test::random_source random(seed, 3);
    const auto nothing = [](std::int64_t, std::int64_t) {};
    const tally sum = run_fleet(random, weir::fixed_window{.limit = 10'000'000, .window = 1min},
                                1000, 4, 100us, 100'000, nothing);
    BOOST_TEST(sum.allowed >= sum.checks);
    BOOST_TEST(sum.calls < sum.checks / 10);
  }
}

BOOST_AUTO_TEST_CASE(rules_follow_from_the_policy) {
  const auto rules = [](const weir::policy& p, std::int64_t most) {
    return supply_rules::of(weir::tiers{p}, most);
  };
  const supply_rules window = rules(weir::fixed_window{.limit = 10, .window = 100ms}, 10);
  BOOST_TEST((window.life == 0us));
  BOOST_TEST((window.pace == 25ms));
  const supply_rules bucket = rules(weir::token_bucket{1000, {7, 10ms}}, 100);
  BOOST_TEST((bucket.life == 142'857us));
  BOOST_TEST((bucket.pace == 35'714us));
  BOOST_TEST((rules(weir::gcra{weir::per_second(1), 60}, 60).life == 60s));
  BOOST_TEST((rules(weir::gcra{weir::per_second(1), 60}, 60).pace == 500ms));
  // Rounded down to 0, it would be the rule of a window.
  BOOST_TEST((rules(weir::gcra{{2'000'000, 1s}, 1}, 1).life == 1us));

  const auto refuses = [&](const weir::tiers& policies, std::int64_t most) {
    return weir::test::error_of([&] { supply_rules::of(policies, most); }) ==
           weir::error::invalid_policy;
  };
  const weir::fixed_window plain{.limit = 10, .window = 1s};
  BOOST_TEST(refuses(weir::tiers{plain}, 11));
  BOOST_TEST(refuses(weir::tiers{plain}, -1));
  BOOST_TEST(refuses(weir::tiers{plain, plain}, 1));
  BOOST_TEST(refuses(
      weir::tiers{weir::fixed_window{.limit = 10, .window = 1s, .count_refused = true}}, 1));
  BOOST_TEST(refuses(weir::tiers{weir::sliding_window{.limit = 10, .window = 1s}}, 1));
  BOOST_TEST(refuses(weir::tiers{weir::sliding_log{.limit = 10, .window = 1s}}, 1));
  BOOST_TEST(refuses(weir::tiers{weir::leaky_bucket{10, weir::per_second(1)}}, 1));
  BOOST_TEST(!refuses(weir::tiers{weir::fixed_window{.limit = weir::unlimited, .window = 1s}},
                      weir::max_units));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace unit_supply_test

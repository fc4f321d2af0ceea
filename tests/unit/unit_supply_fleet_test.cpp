// Processes with local units at one store, whose takes are on their way for a while: what passes in
// all, and how many checks ask the store.
#include "limiter/unit_supply.hpp"
#include "policy/kernel.hpp"
#include "policy/tier_set.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace unit_supply_fleet_test {

using namespace weir;
using namespace weir::test;
using weir::detail::supply_rules;
using weir::detail::unit_supply;

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
          if constexpr (weir::policies::is_policy(Kernel::kind)) {
            k.give_back(weir::policies::state_for(k, state), clock, {all.counted, all.buckets[0]},
                        rest.units);
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
tally run_fleet(random_source& random, const weir::policy& policy, std::int64_t most,
                std::size_t count, microseconds longest_step, int steps, Passed&& passed) {
  const supply_rules rules = supply_rules::of(tiers{policy}, most);
  simulated_store store{weir::policies::compile(policy)};
  const auto first = store.clock;
  std::vector<process> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back({unit_supply(rules)});
  tally sum;
  for (int i = 0; i < steps; ++i) {
    // Now more checks come than may pass, now fewer, so that units are left at the end of a window.
    store.clock += random.between(0, longest_step.count() * (i / 500 % 2 == 0 ? 1 : 5));
    const unit_supply::time now{1h + microseconds(store.clock - first)};
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
      p.supply.note_reply(direct);
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

BOOST_AUTO_TEST_SUITE(unit_supply_fleet_suite)

// In no window more passes than the limit, whatever the processes hold, lose and give back.
BOOST_AUTO_TEST_CASE(a_fleet_passes_no_more_than_the_limit_in_each_window) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    random_source random(seed, 1);
    for (const std::int64_t most : {1, 7, 50}) {
      const fixed_window policy{.limit = 200, .window = 1s, .anchor = anchor::epoch};
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
  const std::uint64_t seed = run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    random_source random(seed, 2);
    for (const std::int64_t most : {1, 7, 50}) {
      for (const std::int64_t processes : {1, 4}) {
        const token_bucket policy{.capacity = 100, .refill = per_second(1000)};
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
  const std::uint64_t seed = run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    random_source random(seed, 3);
    const auto nothing = [](std::int64_t, std::int64_t) {};
    const tally sum = run_fleet(random, fixed_window{.limit = 10'000'000, .window = 1min}, 1000, 4,
                                100us, 100'000, nothing);
    BOOST_TEST(sum.allowed >= sum.checks);
    BOOST_TEST(sum.calls < sum.checks / 10);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace unit_supply_fleet_test

// Random calls on a memcached server and on a memory store, under one clock: every field of every
// decision is the same, of reservations and of those that are given back, too. When a reservation
// has its turn is also checked against the written references, which share no code with the stores.
#include "model/policy_shapes.hpp"
#include "model/twin_stores.hpp"
#include "support/reservation_ledger.hpp"
#include "support/sanitized.hpp"

namespace memcached_trace_test {

using namespace weir;
using namespace weir::test;
using model::twin_stores::reservation;
using model::twin_stores::twins;

constexpr std::int64_t day = 86'400'000'000;
constexpr int traces = test::is_sanitized ? 8 : 24;  // for each kind of policy, an even number
constexpr int most_traces = 8 * traces;              // if chance leaves something out till then
constexpr int steps = 240;

struct fixture : model::twin_stores::fixture {
  /// The clock never steps back: each store drops a state that is over at a time of its own, so a
  /// step back by more than the grace would tell the stores apart.
  void advance() {
    moves->advance();
    now = std::max(now, moves->now());
  }

  void step(twins& t, std::int64_t most, std::int64_t span, bool cools) {
    const std::int64_t cost = random.one_in(3) ? random.magnitude(most) : 1;
    const std::int64_t chance = random.between(0, 19);
    if (chance < 2) {
      both(t, "fetch",
           [&](const limiter& l, auto handler) { l.fetch(subject, {.cost = cost}, handler); });
    } else if (chance < 3) {
      // Each store's own decision: only their receipts' ids differ.
      if (!t.kept.allowed) return;
      // Twice at one instant: a store forgets later that it has done it.
      for (int times = 0; times < 2; ++times) {
        const std::int64_t actual = random.between(0, 2 * t.kept_cost);
        both(t, "settle", [&](const limiter& l, auto handler) {
          l.settle(subject, &l == &t.far ? t.kept : t.kept_near, std::min(actual, max_units),
                   handler);
        });
        ++total.settled;
      }
      t.kept.allowed = false;
    } else if (chance < 4) {
      if (!random.one_in(8)) return;
      both(t, "reset", [&](const limiter& l, auto handler) { l.reset(subject, handler); });
    } else if (chance < 5) {
      if (!cools || !random.one_in(4)) return;
      both(t, "cool_down", [&](const limiter& l, auto handler) {
        l.cool_down(subject, std::chrono::microseconds(1 + span / 4), handler);
      });
    } else if (chance < 9) {
      acquire(t, cost, span, cools);
    } else if (chance < 11) {
      if (!t.reserved.empty()) give_back(t, some_place(t));
    } else {
      const decision d = take(t, "record", cost, [&](const limiter& l, auto handler) {
        l.record(subject, {.cost = cost}, handler);
      });
      total.refused += d.allowed ? 0 : 1;
    }
    // The old ones have had their turns.
    if (t.reserved.size() > 20) t.reserved.erase(t.reserved.begin());
  }

  twins next_twins(const tiers& rules, bool cools) {
    return twins(remote, local, "trace" + std::to_string(++number), rules, {.cool_downs = cools});
  }

  void trace(const tiers& rules, std::int64_t most, std::int64_t span, bool cools) {
    twins t = next_twins(rules, cools);
    const auto start = now;
    moves.emplace(random, now, span);
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << t.far.resource() << " "
                                         << test::text_of(*rules.begin()) << " from " << start) {
      for (int i = 0; i < steps; ++i) {
        advance();
        step(t, most, span, cools);
      }
    }
    now = start;
  }

  /// One in which a few requests meet the limit.
  template <class Policy>
  Policy small_policy() {
    Policy p = model::random_policy<Policy>(random);
    const std::int64_t size = random.magnitude(20);
    if constexpr (requires { p.limit; }) p.limit = size;
    if constexpr (requires { p.count_refused; }) p.count_refused = false;
    if constexpr (requires { p.capacity; }) p.capacity = std::min(p.capacity, size);
    if constexpr (requires { p.burst; }) p.burst = std::min(p.burst, size);
    return p;
  }

  /// Half of them with small policies.
  template <class Policy>
  void traces_of(const char* name) {
    total = {};
    const auto had_all = [&] {
      return total.refused > traces && total.settled > traces && total.at_once > traces &&
             total.reserved > traces / 4 && total.too_late > traces / 4 &&
             total.given_back > traces && total.came_back > traces / 8;
    };
    for (int i = 0; i < traces || (i < most_traces && !had_all());) {
      const bool is_small = i % 2 == 0;
      const Policy p = is_small ? small_policy<Policy>() : model::random_policy<Policy>(random);
      const std::int64_t span = model::span_of(p);
      if (span > day) continue;  // memcached's own clock, which is real, ends what is longer
      if constexpr (std::is_same_v<Policy, sliding_log>) {
        if (p.limit == unlimited && p.resolution.count() == 0) continue;
      }
      const std::int64_t most = is_small ? 5 : model::most_of(p);
      trace(tiers(p), std::min<std::int64_t>(most, 1'000'000), span, false);
      ++i;
    }
    BOOST_TEST_MESSAGE(name << ": " << total);
    BOOST_TEST(had_all(), name << " left something out: " << total);
  }

  /// Reservations and returns only: the written references know when each has its turn.
  template <class Policy>
  void lines_of(const char* name) {
    test::reservation_ledger::totals sum;
    const auto had_all = [&] {
      return sum.at_once > traces && sum.reserved > traces && sum.refused > traces &&
             sum.given_back > traces;
    };
    for (int i = 0; i < traces / 2 || (i < most_traces && !had_all());) {
      const policy p = small_policy<Policy>();
      const std::int64_t span = model::span_of(p);
      if (span > day) continue;
      twins t = next_twins(tiers(p), false);
      const auto start = now;
      moves.emplace(random, now, span);
      test::reservation_ledger ledger;
      BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << t.far.resource() << " "
                                           << test::text_of(p) << " from " << start) {
        for (int n = 0; n < steps; ++n) {
          advance();
          std::erase_if(t.reserved, [&](const reservation& r) { return r.turn() <= now; });
          if (!t.reserved.empty() && random.one_in(3)) {
            const std::size_t place = some_place(t);
            ledger.give_back(now, t.reserved[place].number);
            give_back(t, place);
          } else {
            ask(t, ledger, span);
          }
        }
        const policy all[] = {p};
        try {
          sum += ledger.check(all);
        } catch (const std::exception& e) {
          BOOST_ERROR(e.what());
        }
      }
      now = start;
      ++i;
    }
    BOOST_TEST_MESSAGE(name << ": " << sum.text());
    BOOST_TEST(had_all(), name << " left something out: " << sum.text());
  }

  void ask(twins& t, test::reservation_ledger& ledger, std::int64_t span) {
    const std::int64_t most = t.far_spec->ceiling;
    const std::int64_t cost = random.one_in(2) ? 1 : random.magnitude(most);
    const std::int64_t max_wait = random.one_in(8)
                                      ? random.between(0, 3)
                                      : std::min(random.magnitude(10 * span), 30 * day);
    reservation r = reserve(t, cost, max_wait);
    const decision& d = r.answer();
    const std::int64_t wait = d.allowed ? d.delay.count() : d.retry_after.count() + max_wait;
    r.number = ledger.ask({now, cost, max_wait, d.allowed, now + wait});
    if (d.allowed) t.reserved.push_back(std::move(r));
  }
};

BOOST_FIXTURE_TEST_SUITE(memcached_trace_suite, fixture)

BOOST_AUTO_TEST_CASE(every_policy_decides_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  traces_of<fixed_window>("fixed_window");
  traces_of<sliding_log>("sliding_log");
  traces_of<sliding_window>("sliding_window");
  traces_of<token_bucket>("token_bucket");
  traces_of<gcra>("gcra");
  traces_of<leaky_bucket>("leaky_bucket");
}

BOOST_AUTO_TEST_CASE(waiters_leave_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  const policy policies[] = {fixed_window{3, 1h},   sliding_log{3, 1h},
                             sliding_window{3, 1h}, token_bucket{3, per_hour(3)},
                             gcra{per_hour(3), 3},  leaky_bucket{3, per_hour(3)}};
  for (const policy& p : policies) {
    total = {};
    const auto had_all = [&] {
      return total.reserved > traces / 2 && total.left > traces / 4 && total.came_back > traces / 4;
    };
    for (int i = 0; i < traces / 2 || (i < most_traces && !had_all()); ++i) {
      trace(tiers(p), 3, model::span_of(p), false);
    }
    BOOST_TEST_MESSAGE(test::text_of(p) << ": " << total);
    BOOST_TEST(had_all(), test::text_of(p) << " left something out: " << total);
  }
}

BOOST_AUTO_TEST_CASE(reservations_are_those_of_the_written_references) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  lines_of<fixed_window>("fixed_window");
  lines_of<sliding_log>("sliding_log");
  lines_of<sliding_window>("sliding_window");
  lines_of<token_bucket>("token_bucket");
  lines_of<gcra>("gcra");
  lines_of<leaky_bucket>("leaky_bucket");
}

BOOST_AUTO_TEST_CASE(tiers_and_cool_downs_decide_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  const auto had_all = [&] {
    return total.refused > traces && total.cooling > 10 && total.reserved > traces &&
           total.given_back > traces && total.came_back > traces / 2;
  };
  for (int i = 0; i < 2 * traces || (i < most_traces && !had_all());) {
    const policy one = model::random_policy_that_combines(random);
    const policy two = i % 2 == 0 ? policy(small_policy<token_bucket>())
                                  : model::random_policy_that_combines(random);
    const std::int64_t span = std::max(model::span_of(one), model::span_of(two));
    if (span > day) continue;
    const std::int64_t most = std::min(model::most_of(one), model::most_of(two));
    trace(tiers(one, two), std::min<std::int64_t>(most, i % 2 == 0 ? 5 : 1000), span, true);
    ++i;
  }
  BOOST_TEST_MESSAGE(total);
  BOOST_TEST(had_all(), "left something out: " << total);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_trace_test

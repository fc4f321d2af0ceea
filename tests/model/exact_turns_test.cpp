// Reservations lose no part of a microsecond: each is told the first whole microsecond of its exact
// turn, and the bucket goes on from the exact one, in C++ and in a real server's scripts.
#include <numeric>

#include "model/policy_shapes.hpp"
#include "model/tier_script.hpp"
#include "support/joint.hpp"
#include "support/redis_server.hpp"
#include "support/text.hpp"

namespace exact_turns_test {

using namespace weir;
using namespace weir::test;
using policies::any_state;
using policies::wide;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t long_enough = std::int64_t{1} << 50;

struct fixture : model::script_server {
  fixture() : script_server(4900) {}
};

struct shape {
  rate r;
  std::int64_t size;
  bool leaky;
};

shape shape_of(const policy& p) {
  if (const auto* b = std::get_if<token_bucket>(&p)) return {b->refill, b->capacity, false};
  if (const auto* b = std::get_if<gcra>(&p)) return {b->rate, b->burst, false};
  const auto& b = std::get<leaky_bucket>(p);
  return {b.leak, b.capacity, true};
}

/// ceil(units * T), not below 0.
std::int64_t time_of(const rate& r, wide units) {
  if (units <= 0) return 0;
  return static_cast<std::int64_t>((units * r.period.count() + r.count - 1) / r.count);
}

/// When a request goes, in microseconds after the first, if `before` units were reserved since the
/// bucket was full or empty: a leaky bucket has drained them by then, the others have room for it.
std::int64_t turn_in(const policy& p, wide before, std::int64_t cost) {
  const shape s = shape_of(p);
  return time_of(s.r, s.leaky ? before : before + cost - s.size);
}

policy make(int kind, rate r, std::int64_t size) {
  if (kind == 0) return token_bucket{.capacity = size, .refill = r};
  if (kind == 1) return gcra{.rate = r, .burst = size};
  return leaky_bucket{.capacity = size, .leak = r};
}

/// Some buckets that are asked together, in C++ and in a server.
class subject {
 public:
  subject(fixture& f, std::vector<policy> tiers) : f_(f), tiers_(std::move(tiers)) {
    for (const policy& p : tiers_) {
      asked_.kernels.push_back(policies::compile(p));
      asked_.keys.push_back("k" + std::to_string(asked_.keys.size()));
      asked_.costs.push_back(1);
      states_.emplace_back(policies::meter::state());
      f_.client.must("DEL", asked_.keys.back());
      text_ += test::text_of(p) + "; ";
    }
  }

  const std::string& text() const { return text_; }
  std::vector<any_state>& states() { return states_; }

  struct turn {
    std::int64_t when;
    policies::tickets known;
    std::int64_t cost;
  };
  /// The turns of equal requests; C++ and Lua say the same.
  std::vector<turn> reserve(std::int64_t now, std::int64_t checks, std::int64_t cost) {
    std::ranges::fill(asked_.costs, cost);
    std::vector<turn> all;
    for (const auto& there : f_.reserve(asked_, now, checks, long_enough)) {
      auto found = policies::found_in(asked_.tiers(states_), now);
      const joint_decision d = test::joint([&](auto* further) {
        return policies::reserve_all<any_state>(asked_.tiers(states_), now, long_enough, further);
      });
      BOOST_TEST_REQUIRE((d == there.said), "\n  C++: " << test::text_of(d) << "\n  Lua: "
                                                        << test::text_of(there.said));
      BOOST_TEST_REQUIRE(d.allowed);
      BOOST_TEST(d.delay.count() >= 0);
      if (d.delay.count() == 0) found.clear();
      all.push_back({now + d.delay.count(), policies::tickets_of(d, std::move(found)), cost});
    }
    return all;
  }

  void give_back(std::int64_t now, const turn& t) {
    std::ranges::fill(asked_.costs, t.cost);
    f_.give_back(asked_, now, t.known);
    policies::settle_all(asked_.tiers(states_), now, t.known);
  }

 private:
  fixture& f_;
  std::vector<policy> tiers_;
  model::tier_script asked_;
  std::vector<any_state> states_;
  std::string text_;
};

std::vector<std::int64_t> turns_of(const std::vector<subject::turn>& all) {
  std::vector<std::int64_t> turns;
  for (const auto& one : all) turns.push_back(one.when - t0);
  return turns;
}

/// One to three buckets: T is mostly not whole; of several, T is often nearly the same.
std::vector<policy> some_buckets(test::random_source& random) {
  std::vector<policy> all;
  const std::int64_t count = random.magnitude(2'000'000), period = random.magnitude(50'000'000);
  for (std::int64_t n = random.one_in(2) ? 1 : random.between(2, 3); n > 0; --n) {
    const rate r{count + random.between(0, 2),
                 std::chrono::microseconds(period + random.between(0, 2))};
    all.push_back(make(static_cast<int>(random.between(0, 2)), r,
                       random.one_in(2) ? 1 : random.magnitude(1000)));
  }
  return all;
}

BOOST_FIXTURE_TEST_SUITE(exact_turns_suite, fixture)

// The turns were 0, 3334, 6668, 10002: each lost the rest of a microsecond.
BOOST_AUTO_TEST_CASE(ten_at_three_in_ten_milliseconds) {
  subject one(*this, {leaky_bucket{.capacity = 100, .leak = {3, 10ms}}});
  const std::vector<std::int64_t> expected{0,     3334,  6667,  10000, 13334,
                                           16667, 20000, 23334, 26667, 30000};
  BOOST_TEST(turns_of(one.reserve(t0, 10, 1)) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(requests_of_one_instant_get_the_exact_turns_rounded_up) {
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed()) {
    for (int n = 0; n < 300; ++n) {
      const std::vector<policy> tiers = some_buckets(random);
      subject one(*this, tiers);
      std::int64_t most = 1000;
      for (const policy& p : tiers) most = std::min(most, shape_of(p).size);
      BOOST_TEST_CONTEXT(one.text()) {
        // With equal costs, the slowest bucket alone decides once it is full; before that, each
        // counts from the first turn on.
        const std::int64_t cost = tiers.size() > 1 ? 1 : random.between(1, most);
        wide before = 0;
        for (int calls = 0; calls < 6; ++calls) {
          const std::int64_t checks = random.between(1, 12);
          for (const auto& t : one.reserve(t0, checks, cost)) {
            std::int64_t expected = 0;
            for (const policy& p : tiers) expected = std::max(expected, turn_in(p, before, cost));
            BOOST_TEST_REQUIRE(t.when - t0 == expected);
            before += cost;
          }
        }
      }
    }
  }
}

// 98 % of 60,000 in a second, 71 % of 700,000 and 50 % of 999,999 went.
BOOST_AUTO_TEST_CASE(a_queue_that_never_ends_moves_at_the_rate) {
  for (const std::int64_t per_second_ : {3, 60'000, 700'000, 999'999, 7'000'003}) {
    for (int kind = 0; kind < 3; ++kind) {
      for (const std::int64_t size : {1, 2, 50}) {
        subject one(*this, {make(kind, per_second(per_second_), size)});
        BOOST_TEST_CONTEXT(one.text()) {
          // Each time as many come as the queue has let go.
          std::int64_t reserved = 0, now = t0, last = t0;
          while (reserved < 400) {
            for (const auto& t : one.reserve(now, 20, 1)) last = t.when, ++reserved;
            now += (last - now) / 2;
          }
          const std::int64_t before = kind == 2 ? reserved - 1 : reserved - size;
          BOOST_TEST(last - t0 == time_of(per_second(per_second_), before));
        }
      }
    }
  }
}

// A total and a bucket of one consumer, of one rate: the consumer's was counted from the rounded
// turn on, and so delayed both.
BOOST_AUTO_TEST_CASE(a_bucket_that_another_one_delays_does_not_slow_it_down) {
  const policy p = leaky_bucket{.capacity = 1000, .leak = {7, 10us}};
  subject both(*this, {p, p});
  subject::turn last{};
  for (int i = 0; i < 5; ++i) last = both.reserve(t0, 1, 1).back();
  both.states()[1] = policies::meter::state();
  client.must("DEL", "k1");
  for (int i = 5; i < 500; ++i) last = both.reserve(t0, 1, 1).back();
  BOOST_TEST(last.when - t0 == time_of({7, 10us}, 499));
}

BOOST_AUTO_TEST_CASE(reservations_that_are_given_back_leave_the_state_as_it_was) {
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed()) {
    for (int n = 0; n < 300; ++n) {
      subject one(*this, some_buckets(random));
      BOOST_TEST_CONTEXT(one.text()) {
        std::vector<std::vector<any_state>> before;
        std::vector<subject::turn> taken;
        for (int i = 0; i < 12; ++i) {
          before.push_back(one.states());
          taken.push_back(one.reserve(t0, 1, 1).back());
        }
        const auto same_tats = [](const any_state& a, const any_state& b) {
          const auto& x = std::get<policies::meter::state>(a);
          const auto& y = std::get<policies::meter::state>(b);
          return x.whole == y.whole && x.part == y.part && x.ahead == y.ahead;
        };
        std::vector<std::int64_t> again;
        while (taken.size() > 4) {
          again.push_back(taken.back().when);
          one.give_back(t0, taken.back());
          BOOST_TEST_REQUIRE(std::ranges::equal(one.states(), before.back(), same_tats));
          taken.pop_back();
          before.pop_back();
        }
        std::ranges::reverse(again);
        for (const std::int64_t when : again) {
          BOOST_TEST_REQUIRE(one.reserve(t0, 1, 1).back().when == when);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace exact_turns_test

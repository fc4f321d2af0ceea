// Random calls on a memcached server and on a memory store, under one clock: every field of every
// decision is the same.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "model/policy_shapes.hpp"
#include "model/trace_clock.hpp"
#include "support/limiter_fixture.hpp"
#include "support/memcached_server.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"
#include "weir/weir.hpp"

namespace memcached_trace_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;
using test::random_source;

constexpr std::int64_t day = 86'400'000'000;
constexpr int traces = test::is_sanitized ? 3 : 12;  // for each kind of policy
constexpr int steps = 120;

struct tally {
  int calls = 0, refused = 0, settled = 0, booked = 0, cooling = 0, failed = 0;
};

struct fixture : test::limiter_fixture {
  test::memcached_server_process server;
  random_source random{test::run_seed(), 7400};
  std::int64_t now = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  std::function<time_point()> clock = [this] { return time_point(std::chrono::microseconds(now)); };
  store remote = make_memcached_store(io.get_executor(), options());
  store local = make_memory_store(io.get_executor(), {.clock = clock});
  tally total;
  int number = 0;

  memcached_options options() {
    memcached_options o = server.patient_options();
    o.max_clock_skew = {};
    o.clock = clock;
    return o;
  }

  /// A retry_after during a cool-down has random jitter.
  static decision without_jitter(decision d) {
    if (d.cooling_down) d.retry_after = {};
    return d;
  }

  /// Makes the call on both limiters. The answer; nothing if both fail alike.
  template <class Call>
  decision both(limiter& far, limiter& near, const std::string& what, Call&& call) {
    const test::outcome got = outcome_of([&](auto handler) { call(far, handler); });
    const test::outcome expected = outcome_of([&](auto handler) { call(near, handler); });
    ++total.calls;
    total.failed += expected.ec.failed() ? 1 : 0;
    BOOST_TEST_REQUIRE((got.ec == expected.ec),
                       what << ": " << got.ec.message() << ", not " << expected.ec.message());
    BOOST_TEST_REQUIRE((without_jitter(got.d) == without_jitter(expected.d)),
                       what << "\n  memory:    " << test::text_of(expected.d)
                            << "\n  memcached: " << test::text_of(got.d));
    total.cooling += got.d.cooling_down ? 1 : 0;
    return got.d;
  }

  void step(limiter& far, limiter& near, const std::string& subject, std::int64_t most,
            std::int64_t span, decision& kept, decision& kept_near, std::int64_t& kept_cost,
            bool cools) {
    const std::int64_t cost = random.one_in(3) ? random.magnitude(most) : 1;
    switch (random.between(0, 11)) {
      case 0:
      case 1:
        both(far, near, "fetch",
             [&](limiter& l, auto handler) { l.fetch(subject, {.cost = cost}, handler); });
        break;
      case 2:
        // Each store's own decision: only their receipts' ids differ.
        if (!kept.allowed) break;
        // Twice at one instant: a store forgets later that it has done it.
        for (int times = 0; times < 2; ++times) {
          const std::int64_t actual = random.between(0, 2 * kept_cost);
          both(far, near, "settle", [&](limiter& l, auto handler) {
            l.settle(subject, &l == &far ? kept : kept_near, std::min(actual, max_units), handler);
          });
          ++total.settled;
        }
        kept.allowed = false;
        break;
      case 3:
        if (random.one_in(8)) {
          both(far, near, "reset", [&](limiter& l, auto handler) { l.reset(subject, handler); });
        }
        break;
      case 4:
        if (cools && random.one_in(4)) {
          both(far, near, "cool_down", [&](limiter& l, auto handler) {
            l.cool_down(subject, std::chrono::microseconds(1 + span / 4), handler);
          });
        }
        break;
      default: {
        const decision d = both(far, near, "record", [&](limiter& l, auto handler) {
          l.record(subject, {.cost = cost}, [&, handler](error_code ec, decision answer) mutable {
            if (answer.allowed) (&l == &far ? kept : kept_near) = answer;
            handler(ec, answer);
          });
        });
        if (d.allowed) kept_cost = cost;
        total.refused += d.allowed ? 0 : 1;
      }
    }
  }

  /// The clock never steps back: each store drops a state that is over at a time of its own, so a
  /// step back by more than the grace would tell the stores apart.
  void trace(const tiers& rules, std::int64_t most, std::int64_t span, bool cools) {
    const limiter_options options{.cool_downs = cools};
    const std::string name = "trace" + std::to_string(++number);
    limiter far(remote, name, rules, options), near(local, name, rules, options);
    model::trace_clock moves(random, now, span);
    decision kept, kept_near;
    std::int64_t kept_cost = 1;
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << name << " "
                                         << test::text_of(*rules.begin())) {
      for (int i = 0; i < steps; ++i) {
        moves.advance();
        now = std::max(now, moves.now());
        step(far, near, "a", most, span, kept, kept_near, kept_cost, cools);
      }
    }
  }

  template <class Policy>
  void traces_of() {
    for (int i = 0; i < traces;) {
      const Policy p = model::random_policy<Policy>(random);
      const std::int64_t span = model::span_of(p);
      if (span > day) continue;  // memcached's own clock, which is real, ends what is longer
      if constexpr (std::is_same_v<Policy, sliding_log>) {
        if (p.limit == unlimited && p.resolution.count() == 0) continue;
      }
      const std::int64_t most = model::most_of(p);
      const auto start = now;
      trace(tiers(p), std::min<std::int64_t>(most, 1'000'000), span, false);
      now = start;
      ++i;
    }
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memcached_trace_suite, fixture)

BOOST_AUTO_TEST_CASE(every_policy_decides_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  traces_of<fixed_window>();
  traces_of<sliding_log>();
  traces_of<sliding_window>();
  traces_of<token_bucket>();
  traces_of<gcra>();
  traces_of<leaky_bucket>();
  BOOST_TEST_MESSAGE(total.calls << " calls, " << total.refused << " refused, " << total.settled
                                 << " settled, " << total.failed << " failed alike");
  BOOST_TEST(total.refused > total.calls / 20);
  BOOST_TEST(total.settled > 20);
}

BOOST_AUTO_TEST_CASE(tiers_and_cool_downs_decide_as_in_memory) {
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << test::run_seed());
  for (int i = 0; i < 2 * traces;) {
    const policy one = model::random_policy_that_combines(random);
    const policy two = model::random_policy_that_combines(random);
    const std::int64_t span = std::max(model::span_of(one), model::span_of(two));
    if (span > day) continue;
    const std::int64_t most = std::min(model::most_of(one), model::most_of(two));
    trace(tiers(one, two), std::min<std::int64_t>(most, 1000), span, true);
    ++i;
  }
  BOOST_TEST_MESSAGE(total.calls << " calls, " << total.refused << " refused, " << total.cooling
                                 << " during a cool-down, " << total.failed << " failed alike");
  BOOST_TEST(total.refused > total.calls / 20);
  BOOST_TEST(total.cooling > 10);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_trace_test

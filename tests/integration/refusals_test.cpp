// The store, the queue of acquire, the deny cache, failure policies and gates make refusals. The
// fields of each are those that fetch() tells at that moment.
#include "support/leases.hpp"
#include "support/limiter_fixture.hpp"

namespace refusals_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t limit = 3;
constexpr microseconds max_jitter = 1s;

/// One of each kind, full after `limit` requests, for a day at least and for 20 days at most.
std::vector<named_policy> policies() {
  using namespace weir;
  return {{"fixed_window", fixed_window{.limit = limit, .window = 24h}},
          {"fixed_window of the epoch",
           fixed_window{.limit = limit, .window = 480h, .anchor = anchor::epoch}},
          {"sliding_log", sliding_log{.limit = limit, .window = 24h}},
          {"sliding_log with a resolution",
           sliding_log{.limit = limit, .window = 24h, .resolution = 1h}},
          {"sliding_window", sliding_window{.limit = limit, .window = 240h}},
          {"token_bucket", token_bucket{.capacity = limit, .refill = per_day(1)}},
          {"token_bucket in parts", token_bucket{.capacity = limit, .refill = {7, 240h}}},
          {"gcra", gcra{.rate = per_day(1), .burst = limit}},
          {"leaky_bucket", leaky_bucket{.capacity = limit, .leak = per_day(1)}}};
}

/// When the refusal ends, and when nothing is in use, by the store's clock.
time_point end_of(const decision& d) { return d.decided_at + d.retry_after; }
time_point idle_of(const decision& d) { return d.decided_at + d.reset_after; }

/// Compares all fields but retry_after and source with what fetch() told before and after.
void is_as_told(const decision& d, const decision& before, const decision& after) {
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.limit == after.limit);
  BOOST_TEST(d.used == after.used);
  BOOST_TEST(d.remaining == after.remaining);
  BOOST_TEST(d.cooling_down == after.cooling_down);
  BOOST_TEST(d.tier == after.tier);
  BOOST_TEST((d.failure == after.failure));
  BOOST_TEST(d.delay.count() == 0);
  BOOST_TEST(d.receipt.id == 0u);
  BOOST_TEST(!d.clamped);
  BOOST_TEST((idle_of(d) == idle_of(after)), idle_of(d).time_since_epoch().count()
                                                 << " is not "
                                                 << idle_of(after).time_since_epoch().count());
  BOOST_TEST((d.decided_at >= before.decided_at));
}

/// A refusal by a cool-down has jitter, in `d` and in what fetch() told.
void ends_as_told(const decision& d, const decision& told, microseconds sooner = 0s) {
  const microseconds jitter = told.cooling_down ? max_jitter : microseconds(0);
  const microseconds difference = end_of(d) - (end_of(told) - sooner);
  BOOST_TEST((difference >= -jitter && difference <= jitter), difference.count() << " us too late");
}

struct fixture : server_fixture {
  fixture() {
    memory_clock = [] { return time_point(1'000'000s); };
  }

  decision record(const limiter& l) {
    return answer([&](auto h) { l.record("a", h); });
  }
  decision fetch(const limiter& l) {
    return answer([&](auto h) { l.fetch("a", h); });
  }
  void use_up(const limiter& l) {
    for (int i = 0; i < limit; ++i) BOOST_TEST(record(l).allowed);
  }
  /// Calls test(limiter) with each policy, used up, in each kind of store.
  template <class Test>
  void with_each(const limiter_options& options, Test&& test) {
    on_both([&](const weir::store& store) {
      for (const named_policy& named : policies()) {
        BOOST_TEST_CONTEXT(named.name) {
          const limiter l(store, named.name, named.policy, options);
          use_up(l);
          test(l);
        }
      }
    });
  }
};

const limiter_options cooled{.group = "g", .cool_downs = true, .max_cool_down = 24h * 31};
constexpr std::chrono::hours pause{24 * 30}, max_wait{24 * 29};

BOOST_FIXTURE_TEST_SUITE(refusals_suite, fixture)

BOOST_AUTO_TEST_CASE(of_a_record_and_of_the_deny_cache_also_in_a_cool_down) {
  for (const bool cools_down : {false, true}) {
    limiter_options options = cools_down ? cooled : limiter_options{};
    options.deny_cache_subjects = 10;
    with_each(options, [&](const limiter& l) {
      if (cools_down) answer([&](auto h) { l.cool_down("a", pause, h); });
      const decision before = fetch(l);
      const decision first = record(l), again = record(l);
      const decision after = fetch(l);
      BOOST_TEST((first.source == source::store && again.source == source::deny_cache));
      for (const decision& d : {first, again}) {
        is_as_told(d, before, after);
        ends_as_told(d, after);
      }
    });
  }
}

// A reservation in a leaky bucket may have to wait longer than a record.
BOOST_AUTO_TEST_CASE(of_an_acquire_and_an_acquire_all_with_a_short_max_wait) {
  with_each({.group = "g"}, [&](const limiter& l) {
    for (const microseconds wait : {0us, 20us, microseconds(1h)}) {
      const decision before = fetch(l);
      const decision one = answer([&](auto h) { l.acquire("a", {.max_wait = wait}, h); });
      const joint_acquire_options options{.max_wait = wait};
      const decision all = answer([&](auto h) { acquire_all(l.on("a"), options, h); });
      const decision after = fetch(l);
      for (const decision& d : {one, all}) {
        BOOST_TEST((d.source == source::store));
        is_as_told(d, before, after);
        if (l.resource() != "leaky_bucket") ends_as_told(d, after, wait);
      }
    }
  });
}

// reset_after was 0, and `used` counted the waiter's own reservation.
BOOST_AUTO_TEST_CASE(of_waiters_whose_max_wait_a_cool_down_outlasts) {
  with_each(cooled, [&](const limiter& l) {
    crowd c;
    for (int i = 0; i < 3; ++i) {
      l.acquire("a", {.max_wait = max_wait - 24h * i}, c.caller());
      fetch(l);  // the store has answered the acquire before
    }
    run_ready();
    BOOST_TEST_REQUIRE(c.answered() == 0u);
    const decision before = fetch(l);
    answer([&](auto h) { l.cool_down("a", pause, h); });
    run_until_complete(io, c);
    const decision after = fetch(l);
    BOOST_TEST((after.cooling_down && after.used == limit));
    for (int i = 0; i < 3; ++i) {
      BOOST_TEST(!c[i].ec.failed());
      BOOST_TEST((c[i].d.source == source::store));
      is_as_told(c[i].d, before, after);
      ends_as_told(c[i].d, after, max_wait - 24h * i);
    }
  });
}

BOOST_AUTO_TEST_CASE(of_a_waiter_in_a_cool_down_that_ends_before_the_bucket_is_full_again) {
  with_each(cooled, [&](const limiter& l) {
    crowd c;
    l.acquire("a", {.max_wait = 36h}, c.caller());
    fetch(l);
    run_ready();
    if (c.answered() > 0) return;  // no bucket: the reservation would be too late
    const decision before = fetch(l);
    answer([&](auto h) { l.cool_down("a", 37h, h); });
    run_until_complete(io, c);
    const decision after = fetch(l);
    BOOST_TEST((after.cooling_down && after.used > 0));
    is_as_told(c[0].d, before, after);
    ends_as_told(c[0].d, after, 36h);
  });
}

BOOST_AUTO_TEST_CASE(of_callers_of_acquire_all_whose_max_wait_a_cool_down_outlasts) {
  on_both([&](const weir::store& store) {
    for (const named_policy& named : policies()) {
      BOOST_TEST_CONTEXT(named.name) {
        const limiter l(store, named.name, named.policy, cooled);
        const limiter beside(store, std::string(named.name) + "2", named.policy, cooled);
        const auto fetch_both = [&] {
          return answer([&](auto h) { fetch_all(l.on("a"), beside.on("a"), h); });
        };
        use_up(l);
        use_up(beside);
        crowd c;
        for (int i = 0; i < 2; ++i) {
          acquire_all(l.on("a"), beside.on("a"), {.max_wait = max_wait - 24h * i}, c.caller());
          fetch_both();
        }
        run_ready();
        BOOST_TEST_REQUIRE(c.answered() == 0u);
        const decision before = fetch_both();
        answer([&](auto h) { beside.cool_down("a", pause, h); });
        run_until_complete(io, c);
        const decision after = fetch_both();
        BOOST_TEST((after.cooling_down && after.tier == 1 && after.used == limit));
        for (int i = 0; i < 2; ++i) {
          BOOST_TEST(!c[i].ec.failed());
          is_as_told(c[i].d, before, after);
          ends_as_told(c[i].d, after, max_wait - 24h * i);
        }
      }
    }
  });
}

// The failure policy decides, because nobody listens.
BOOST_AUTO_TEST_CASE(of_failure_policies) {
  redis_options nowhere{.port = 1, .timeout = 20ms, .breaker_failures = 1};
  nowhere.breaker_pause = 24h;  // every further call fails at once
  const weir::store store = make_redis_store(io.get_executor(), nowhere);
  for (const auto by : {on_failure::fallback, on_failure::closed}) {
    for (const named_policy& named : policies()) {
      BOOST_TEST_CONTEXT(named.name << ", " << static_cast<int>(by)) {
        const limiter l(store, named.name, named.policy, {.on_failure = by, .process_count = 1});
        if (by == on_failure::fallback) use_up(l);
        const decision before = fetch(l);
        const decision recorded = record(l);
        const decision acquired = answer([&](auto h) { l.acquire("a", {.max_wait = 0s}, h); });
        const decision joint = answer([&](auto h) { record_all(l.on("a"), h); });
        const decision after = fetch(l);
        for (decision d : {recorded, acquired, joint}) {
          BOOST_TEST((d.source == source::fallback));
          BOOST_TEST((d.failure == error::connection_refused || d.failure == error::circuit_open));
          d.failure = after.failure;
          if (by == on_failure::fallback) {
            is_as_told(d, before, after);
          } else {
            BOOST_TEST((d.limit == limit && d.used == 0 && d.remaining == 0));
            BOOST_TEST((d.retry_after == 1s && d.reset_after == 0s));
          }
        }
        if (by == on_failure::fallback) ends_as_told(recorded, after);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_a_full_queue_there_are_none_but_errors_without_an_answer) {
  with_each({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority},
            [&](const limiter& l) {
              crowd c;
              for (int i = 0; i < 2; ++i) {
                l.acquire("a", {.max_wait = max_wait, .priority = i}, c.caller());
                fetch(l);
              }
              run_until(io, [&] { return c.answered() == 1; });
              WEIR_TEST_ERROR(c[0].ec, error::overloaded);
              BOOST_TEST((c[0].d == decision{}));
              answer([&](auto h) { l.reset("a", h); });
            });
}

BOOST_AUTO_TEST_CASE(of_a_gate_alone_and_with_a_claim) {
  on_both([&](const weir::store& store) {
    const concurrency_limiter gate(store, "gate", {.limit = 1, .group = "g"});
    const limiter l(store, "r", weir::fixed_window{.limit = 5, .window = 1h}, {.group = "g"});
    const lease held = enter(io, gate, "a");
    BOOST_TEST(held.allowed());
    const auto fetch_gate = [&] { return answer([&](auto h) { gate.fetch("a", h); }); };
    const decision before = fetch_gate();
    const lease alone = enter(io, gate, "a");
    decision joint;
    bool done = false;
    gate.enter("a", l.on("a"), [&](error_code, const lease& got) {
      joint = got.decision();
      done = true;
    });
    run_until(io, [&] { return done; });
    const decision after = fetch_gate();
    is_as_told(alone.decision(), before, after);
    ends_as_told(alone.decision(), after);
    BOOST_TEST(joint.tier == 0);  // the gate is the first
    joint.tier = after.tier;
    is_as_told(joint, before, after);
    ends_as_told(joint, after);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refusals_test

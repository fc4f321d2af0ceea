// The memory store when it fills while its clock is wrong, and the clock is set right later.
#include "memory/shard.hpp"
#include "memory_store_fixture.hpp"

namespace memory_store_clock_test {

using namespace weir;
using namespace weir::test;

const fixed_window three_per_10s{.limit = 3, .window = 10s};

struct fixture : memory_store_fixture {
  static std::string name(int i) { return "account-" + std::to_string(i); }

  /// Asks for a new subject every second.
  void must_stay_full(const limiter& l, std::chrono::seconds length) {
    for (const auto until = now + length; now < until; now += 1s) {
      WEIR_TEST_ERROR(record(l, "new").ec, error::store_full);
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(memory_store_clock_suite, fixture)

// Each new subject got store_full for as long as the clock had been ahead.
BOOST_AUTO_TEST_CASE(a_store_that_filled_while_the_clock_was_ahead_has_room_soon) {
  const policy all[] = {three_per_10s,
                        fixed_window{.limit = 3, .window = 10s, .anchor = anchor::epoch},
                        sliding_log{.limit = 3, .window = 10s},
                        sliding_log{.limit = 3, .window = 10s, .resolution = 1s},
                        sliding_window{.limit = 3, .window = 10s},
                        token_bucket{.capacity = 3, .refill = {3, 10s}},
                        leaky_bucket{.capacity = 3, .leak = {3, 10s}}};
  const std::size_t buckets = std::size(all) - 2;
  for (std::size_t i = 0; i < std::size(all); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      now = 1'000'000s;
      const limiter l(store(10), "r", all[i]);
      now += 48h;
      for (int n = 0; n < 10; ++n) BOOST_TEST(!record(l, name(n), 3).ec.failed());
      now -= 48h;
      // A call that moves the state of a window does not shorten how long its subject stays: a
      // longer window of the subject may count it. A bucket ends by itself.
      if (i < buckets) BOOST_TEST(!record(l, name(0)).d.allowed);
      must_stay_full(l, 60s);
      // The store does not forget them at once: what they have counted matters from now on.
      WEIR_TEST_ERROR(record(l, "new").ec, error::store_full);
      BOOST_TEST(!record(l, name(1)).d.allowed);
      now += 25s;  // a sliding window's state matters for up to 20 s; and 2 s of grace
      BOOST_TEST(record(l, "new").d.allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(settlements_that_were_made_while_the_clock_was_ahead_make_room_soon) {
  const auto s = make_memory_store(io.get_executor(),
                                   {.max_settled = 3, .clock = [this] { return time_point(now); }});
  const limiter l(s, "r", three_per_10s);
  now += 48h;
  std::vector<decision> old;
  for (int i = 0; i < 3; ++i) old.push_back(record(l, name(i)).d);
  for (int i = 0; i < 2; ++i) BOOST_TEST(refund(l, name(i), old[std::size_t(i)]).d.allowed);
  now -= 48h;
  // Its decision was made before the clock was set right.
  BOOST_TEST(refund(l, name(2), old[2]).d.allowed);
  const auto fresh = record(l, "a").d;
  for (int i = 0; i < 130; ++i, now += 1s) {
    WEIR_TEST_ERROR(refund(l, "a", fresh).ec, error::settlements_full);
    // Until there is room, each of them is known to be settled.
    BOOST_TEST(!refund(l, name(i % 3), old[std::size_t(i % 3)]).d.allowed);
  }
  now += 61s;
  BOOST_TEST(refund(l, "a", fresh).d.allowed);
}

// What lies ahead of a clock that has stepped back may be right.
// The marker went when the window ended, and the state 2 s later. If the clock stepped back
// between, the refund was done again: it took the units of another request.
BOOST_AUTO_TEST_CASE(a_clock_that_steps_back_into_a_window_does_not_let_it_settle_twice) {
  const policy all[] = {fixed_window{.limit = 9, .window = 2min},
                        sliding_log{.limit = 9, .window = 2min},
                        sliding_window{.limit = 9, .window = 1min}};
  for (const policy& p : all) {
    now = 1'000'020s;  // a window of a minute begins
    const auto s = store(1000, 1);
    const limiter l(s, "r", p);
    const decision one = record(l, "a").d;
    BOOST_TEST(record(l, "a").d.allowed);
    BOOST_TEST(refund(l, "a", one).d.allowed);
    now += 2min;
    for (int i = 0; i < 200; ++i) record(l, name(i));  // what is over is dropped
    now -= 1s;
    BOOST_TEST(!refund(l, "a", one).d.allowed);
    BOOST_TEST(fetch(l, "a").d.used == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_full_store_forgets_nothing_while_the_clock_steps_back_for_a_moment) {
  const limiter l(store(10), "r", fixed_window{.limit = 3, .window = 1h});
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) record(l, name(i), 3);
    now -= 48h;
    must_stay_full(l, 59s);
    now += 48h;
    must_stay_full(l, 10s);
    for (int i = 0; i < 10; ++i) BOOST_TEST(!record(l, name(i)).d.allowed);
    now += 1h;
  }
}

// A subject's end is lowered to the longest time for which a state has mattered. A state that a
// call left as another clock had written it would make that time as long as the clock was ahead.
BOOST_AUTO_TEST_CASE(a_call_that_leaves_a_state_far_ahead_does_not_keep_the_store_full) {
  constexpr policies::instant start = 1'000'000'000'000, second = 1'000'000;
  constexpr policies::span length = 10 * second;
  const auto compiled = [](const policy& p) { return policies::compile(p); };
  const auto same = [&](const policy& p) { return std::array{compiled(p), compiled(p)}; };
  using enum policies::lease_set::act;
  // The kernel that writes the state, and the kernel of the later call.
  const std::array<policies::kernel, 2> all[] = {
      same(three_per_10s),
      same(sliding_window{.limit = 3, .window = 10s}),
      same(sliding_log{.limit = 3, .window = 10s}),
      same(token_bucket{.capacity = 3, .refill = {3, 10s}}),
      {policies::cool_down(length), policies::cool_down()},
      {policies::lease_set(2, length, 1, enter), policies::lease_set(2, length, 1, enter)}};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    for (const bool is_settled : {false, true}) {
      BOOST_TEST_CONTEXT("kernel " << i << (is_settled ? ", settlement" : "")) {
        const auto& [writer, later] = all[i];
        const policies::kernel once = compiled(fixed_window{.limit = 1, .window = 10s});
        policies::instant now = start;
        const auto clock = [&] { return now; };
        const auto record = [&](memory::shard& s, const policies::kernel& k, std::string_view key) {
          decision d;
          return s.record(k, key, clock, 1, d);
        };
        memory::shard_set both(2, 1);
        memory::shard& s = both.of(0);
        decision d;
        now += 48 * 3600 * second;
        WEIR_TEST_ERROR(s.record(writer, "a", clock, 1, d), error_code());
        WEIR_TEST_ERROR(s.record(once, "b", clock, 1, d), error_code());
        now -= 48 * 3600 * second;
        const memory::shard::tier_key places[] = {{&later, "a", 2}, {&once, "b", 1}};
        if (is_settled) {
          const auto settle = [](auto tiers, policies::instant at) {
            policies::settle_all(tiers, at, {});
          };
          WEIR_TEST_ERROR(s.change_all(places, clock, settle), error_code());
        } else {
          const auto record_both = [&](auto tiers, policies::instant at) {
            d = policies::record_all(tiers, at);
          };
          WEIR_TEST_ERROR(s.change_all(places, clock, record_both), error_code());
          BOOST_TEST(!d.allowed);
        }
        for (int n = 0; n <= 60; ++n, now += second) record(s, once, "c");
        now += 25 * second;
        WEIR_TEST_ERROR(record(s, once, "c"), error_code());
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memory_store_clock_test

// A limiter object with other numbers, while callers of an older one wait (docs/policies.md,
// "Reservations ahead"). Each older limiter has used up its limit, and one caller waits, for about
// an hour.
#include "integration/acquire_queue_fixture.hpp"

namespace newer_limiter_test {

using namespace weir;
using namespace weir::test;
using namespace weir::test::waiting;

struct newer_fixture : fixture {
  decision record(const limiter& l) {
    return answer([&](auto h) { l.record("a", h); });
  }
  /// A caller that does not wait learns when its reservation would have been.
  decision look_for_turn(const limiter& l) {
    return answer([&](auto h) { l.acquire("a", {.max_wait = 0s}, h); });
  }

  /// Runs test(newer) on both stores, and again when the waiter has left: `is_waiting` tells.
  template <class Test>
  void beside_a_waiter(const policy& before, const policy& after, Test&& test) {
    on_both([&](const weir::store& store) {
      const limiter older(store, "r", before);
      const std::int64_t all = answer([&](auto h) { older.fetch("a", h); }).remaining;
      BOOST_TEST(answer([&](auto h) { older.record("a", {.cost = all}, h); }).allowed);
      cancellable_crowd waiting;
      older.acquire("a", patiently, waiting.caller());
      settle(older);
      const limiter newer(store, "r", after);
      test(newer, true);
      settle(newer);
      BOOST_TEST(waiting.c[0].times == 0);  // keeps its reservation
      waiting.cancel_all();
      run_until_complete(io, waiting.c);
      WEIR_TEST_ERROR(waiting.c[0].ec, aborted);
      settle(older);
      test(newer, false);
    });
  }
};

constexpr rate hourly = per_hour(1);

BOOST_FIXTURE_TEST_SUITE(newer_limiter_suite, newer_fixture)

BOOST_AUTO_TEST_CASE(a_raised_limit_of_a_window_or_log_helps_from_the_last_reservation_on) {
  const std::pair<policy, policy> plans[] = {
      {fixed_window{.limit = 1, .window = 1h}, fixed_window{.limit = 10, .window = 1h}},
      {sliding_log{.limit = 1, .window = 1h}, sliding_log{.limit = 10, .window = 1h}},
      {sliding_window{.limit = 1, .window = 1h}, sliding_window{.limit = 10, .window = 1h}}};
  for (const auto& [before, after] : plans) {
    beside_a_waiter(before, after, [&](const limiter& newer, bool is_waiting) {
      const decision d = record(newer);
      BOOST_TEST(d.allowed == !is_waiting);
      if (!is_waiting) return;
      BOOST_TEST(d.remaining == 0);
      // A caller that waits comes with the last reservation.
      const decision turn = look_for_turn(newer);
      BOOST_TEST(!turn.allowed);
      BOOST_TEST((turn.decided_at + turn.retry_after == d.decided_at + d.retry_after));
      BOOST_TEST((turn.retry_after > 0s && turn.retry_after <= 2h));
    });
  }
}

BOOST_AUTO_TEST_CASE(a_larger_bucket_lets_new_calls_pass_before_the_reservations) {
  const std::pair<policy, policy> plans[] = {
      {token_bucket{.capacity = 1, .refill = hourly},
       token_bucket{.capacity = 10, .refill = hourly}},
      {gcra{.rate = hourly, .burst = 1}, gcra{.rate = hourly, .burst = 10}}};
  for (const auto& [before, after] : plans) {
    beside_a_waiter(before, after, [&](const limiter& newer, bool is_waiting) {
      const decision d = record(newer);
      BOOST_TEST(d.allowed);
      if (is_waiting) BOOST_TEST(d.used == 3);
      const decision turn = look_for_turn(newer);
      BOOST_TEST(turn.allowed);
      BOOST_TEST((turn.delay == 0s));
    });
  }
}

BOOST_AUTO_TEST_CASE(a_smaller_bucket_places_new_calls_behind_what_was_taken) {
  beside_a_waiter(
      token_bucket{.capacity = 2, .refill = hourly}, token_bucket{.capacity = 1, .refill = hourly},
      [&](const limiter& newer, bool is_waiting) {
        const decision d = record(newer);
        BOOST_TEST(!d.allowed);
        const auto least = is_waiting ? 2h : 1h;
        BOOST_TEST((d.retry_after > least && d.retry_after <= least + 1h));
        const decision turn = look_for_turn(newer);
        BOOST_TEST((turn.decided_at + turn.retry_after == d.decided_at + d.retry_after));
      });
}

BOOST_AUTO_TEST_CASE(a_faster_bucket_does_not_bring_the_reservations_nearer) {
  beside_a_waiter(token_bucket{.capacity = 1, .refill = hourly},
                  token_bucket{.capacity = 1, .refill = per_second(1)},
                  [&](const limiter& newer, bool is_waiting) {
                    const decision d = record(newer);
                    if (is_waiting) BOOST_TEST((!d.allowed && d.retry_after > 1h));
                  });
}

BOOST_AUTO_TEST_CASE(a_leaky_bucket_places_new_calls_behind_the_reservations) {
  beside_a_waiter(leaky_bucket{.capacity = 1, .leak = hourly},
                  leaky_bucket{.capacity = 10, .leak = hourly},
                  [&](const limiter& newer, bool is_waiting) {
                    const decision turn = look_for_turn(newer);
                    BOOST_TEST(!turn.allowed);
                    const auto least = is_waiting ? 1h : 0h;
                    BOOST_TEST((turn.retry_after > least && turn.retry_after <= least + 1h));
                    if (!is_waiting) return;
                    // In the meter form, what passes leaves after its delay.
                    const decision d = record(newer);
                    BOOST_TEST(d.allowed);
                    BOOST_TEST((d.delay > 1h && d.delay <= 2h));
                    BOOST_TEST(answer([&](auto h) { newer.refund("a", d, h); }).allowed);
                  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace newer_limiter_test

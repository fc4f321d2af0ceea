// The store in this process: its bound, its forgetting and its clock.
#include "weir/memory_store.hpp"

#include "memory_store_fixture.hpp"
#include "support/text.hpp"

namespace memory_store_test {

using namespace weir;
using namespace weir::test;

const fixed_window three_per_10s{.limit = 3, .window = 10s};

/// Two plans of one key: the windows of the second are far longer.
const std::pair<policy, policy> plans[] = {
    {fixed_window{100, 1s}, fixed_window{3, 1h}},
    {fixed_window{100, 1s, anchor::epoch}, fixed_window{3, 1h, anchor::epoch}},
    {sliding_window{100, 1s}, sliding_window{3, 1h}},
    {sliding_log{100, 1s}, sliding_log{3, 1h}},
    {sliding_log{100, 1s, 50ms}, sliding_log{3, 1h, 50ms}},
};

BOOST_FIXTURE_TEST_SUITE(memory_store_suite, memory_store_fixture)

BOOST_AUTO_TEST_CASE(a_full_store_refuses_new_subjects_and_serves_the_known_ones) {
  const limiter l(store(2), "r", three_per_10s);
  BOOST_TEST(record(l, "a").d.allowed);
  BOOST_TEST(record(l, "b").d.allowed);
  const auto third = record(l, "c");
  WEIR_TEST_ERROR(third.ec, error::store_full);
  BOOST_CHECK(third.ec == condition::not_counted);
  BOOST_TEST(!third.d.allowed);
  // What still counts was not forgotten to make room.
  BOOST_TEST(record(l, "a").d.remaining == 1);
  BOOST_TEST(record(l, "b").d.remaining == 1);
  // Looking takes no room.
  BOOST_TEST(fetch(l, "c").d.remaining == 3);
}

BOOST_AUTO_TEST_CASE(there_is_room_again_once_subjects_expire) {
  const limiter l(store(2), "r", three_per_10s);
  record(l, "a");
  now += 5s;
  record(l, "b");
  WEIR_TEST_ERROR(record(l, "c").ec, error::store_full);
  now += 5s - 1us;
  WEIR_TEST_ERROR(record(l, "c").ec, error::store_full);
  now += 2s + 1ms;  // a's window and the grace are over; b's are not
  BOOST_TEST(record(l, "c").d.remaining == 2);
  BOOST_TEST(record(l, "b").d.remaining == 1);
  WEIR_TEST_ERROR(record(l, "d").ec, error::store_full);
}

// Making room for the second tier dropped the first one, which was then used.
BOOST_AUTO_TEST_CASE(tiers_find_room_for_all_or_take_none) {
  const weir::tiers two{three_per_10s, token_bucket{.capacity = 2, .refill = per_day(1)}};
  const limiter tiered(store(1, 1), "r", two);
  WEIR_TEST_ERROR(record(tiered, "a").ec, error::store_full);

  const auto s = store(3, 1);
  const limiter single(s, "one", three_per_10s);
  const limiter both(s, "both", two);
  record(single, "x");
  now += 5s;
  record(single, "y");
  WEIR_TEST_ERROR(record(both, "a").ec, error::store_full);
  BOOST_TEST(record(single, "z").d.allowed);  // the attempt has taken no room
  now += 7s;                                  // x is over
  WEIR_TEST_ERROR(record(both, "a").ec, error::store_full);
  now += 5s;  // y and z too
  BOOST_TEST(record(both, "a").d.remaining == 1);
  BOOST_TEST(record(both, "a").d.remaining == 0);
  WEIR_TEST_ERROR(record(both, "b").ec, error::store_full);
  // Its own first tier no longer matters when the second needs room.
  now += 12s;
  const auto d = record(both, "a").d;
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.tier == 1);
}

BOOST_AUTO_TEST_CASE(a_reset_makes_room_and_forgets) {
  const limiter l(store(1), "r", three_per_10s);
  for (int i = 0; i < 4; ++i) record(l, "a");
  BOOST_TEST(!record(l, "a").d.allowed);
  BOOST_TEST(!reset(l, "a").failed());
  BOOST_TEST(!reset(l, "never seen").failed());
  BOOST_TEST(record(l, "b").d.remaining == 2);
}

// A refund raised the count though its entry had left long ago: 15 passed in 30 s at 10 a minute.
BOOST_AUTO_TEST_CASE(a_refund_gives_nothing_back_once_its_window_is_over) {
  const auto s = store();
  const policy policies[] = {three_per_10s,
                             fixed_window{.limit = 3, .window = 10s, .anchor = anchor::epoch},
                             sliding_log{.limit = 3, .window = 10s},
                             sliding_log{.limit = 3, .window = 10s, .resolution = 1s},
                             sliding_window{.limit = 3, .window = 10s},
                             token_bucket{.capacity = 3, .refill = {3, 10s}},
                             gcra{.rate = {3, 10s}, .burst = 3}};
  for (std::size_t i = 0; i < std::size(policies); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      const limiter l(s, "r" + std::to_string(i), policies[i]);
      const auto old = record(l, "a", 3).d;
      BOOST_TEST(old.allowed);
      now += 21s;  // of a sliding_window, the one after is over, too
      BOOST_TEST(record(l, "a", 2).d.used == 2);
      BOOST_TEST(refund(l, "a", old).d.allowed);
      BOOST_TEST(fetch(l, "a").d.used == 2);
      BOOST_TEST(record(l, "a").d.allowed);
      BOOST_TEST(!record(l, "a").d.allowed);
    }
  }
}

// Each settled decision took the room of a subject, in the subject's own shard: number 62,498
// failed, and so did new subjects of other limiters there.
BOOST_AUTO_TEST_CASE(settled_decisions_take_no_subjects_room) {
  const auto s = store(3, 1);
  const limiter l(s, "r", fixed_window{.limit = 100, .window = 10s});
  const limiter other(s, "other", three_per_10s);
  for (int i = 0; i < 50; ++i) {
    const auto o = refund(l, "a", record(l, "a").d);
    BOOST_TEST(!o.ec.failed(), o.ec.message());
    BOOST_TEST(o.d.allowed);
  }
  BOOST_TEST(record(other, "b").d.allowed);
  BOOST_TEST(record(other, "c").d.allowed);
  BOOST_TEST(fetch(l, "a").d.used == 0);
}

BOOST_AUTO_TEST_CASE(one_subject_may_settle_as_often_as_the_store_remembers) {
  const auto s = store();
  const limiter l(s, "r", fixed_window{.limit = 100, .window = 10s});
  crowd c;
  for (int i = 0; i < 70'000; ++i) {
    l.record("a", [&](error_code, decision d) { l.refund("a", d, c.caller()); });
    io.restart();
    io.poll();
  }
  BOOST_TEST(c.allowed() == 70'000u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_remembered_is_not_settled) {
  const auto s = make_memory_store(io.get_executor(),
                                   {.max_settled = 3, .clock = [this] { return time_point(now); }});
  const limiter l(s, "r", fixed_window{.limit = 100, .window = 1h});
  const limiter other(s, "other", fixed_window{.limit = 100, .window = 10s});
  const auto kept = record(l, "a").d;
  const auto first = record(other, "a").d;
  BOOST_TEST(refund(other, "a", first).d.allowed);
  BOOST_TEST(refund(l, "a", record(l, "a").d).d.allowed);
  BOOST_TEST(refund(l, "b", record(l, "b").d).d.allowed);
  const auto full = refund(l, "a", kept);
  WEIR_TEST_ERROR(full.ec, error::settlements_full);
  BOOST_CHECK(full.ec == condition::not_counted);
  WEIR_TEST_ERROR(charge(l, "a", kept, 5).ec, error::settlements_full);
  BOOST_TEST(fetch(l, "a").d.used == 1);
  // A settlement that is remembered is still reported as done.
  const auto again = refund(other, "a", first);
  BOOST_TEST(!again.ec.failed());
  BOOST_TEST(!again.d.allowed);
  // None is forgotten early, and after a minute there is room for one.
  now += 60s - 1us;
  WEIR_TEST_ERROR(refund(l, "a", kept).ec, error::settlements_full);
  now += 1us;
  BOOST_TEST(refund(l, "a", kept).d.allowed);
  BOOST_TEST(fetch(l, "a").d.used == 0);
  WEIR_TEST_ERROR(refund(l, "c", record(l, "c").d).ec, error::settlements_full);
}

// Every subject is used once, then idle: if they stayed, the store would be full long before the
// end.
BOOST_AUTO_TEST_CASE(idle_subjects_are_dropped_under_way) {
  const limiter l(store(1000), "r", three_per_10s);
  crowd c;
  for (int i = 0; i < 100'000; ++i) {
    now += 14ms;
    l.record("subject-" + std::to_string(i), c.caller());
  }
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == c.size());
}

BOOST_AUTO_TEST_CASE(a_clock_that_steps_back_mints_nothing_and_frees_nothing) {
  const auto s = store();
  const policy policies[] = {three_per_10s,
                             fixed_window{.limit = 3, .window = 10s, .anchor = anchor::epoch},
                             sliding_log{.limit = 3, .window = 10s},
                             sliding_log{.limit = 3, .window = 10s, .resolution = 1s},
                             sliding_window{.limit = 3, .window = 10s},
                             token_bucket{.capacity = 3, .refill = per_hour(1)},
                             gcra{.rate = per_hour(1), .burst = 3},
                             leaky_bucket{.capacity = 3, .leak = per_hour(1)}};
  const auto start = now;
  for (std::size_t i = 0; i < std::size(policies); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      now = start;
      const limiter l(s, "r" + std::to_string(i), policies[i]);
      for (int n = 0; n < 3; ++n) BOOST_TEST(record(l, "a").d.allowed);
      for (const auto back : {1us, std::chrono::microseconds(5s), start}) {
        now = start - back;
        const auto o = record(l, "a");
        BOOST_TEST(!o.ec.failed());
        BOOST_TEST(!o.d.allowed);
        BOOST_TEST(o.d.retry_after.count() > 0);
      }
    }
  }
}

// It gave ten in an hour of five.
BOOST_AUTO_TEST_CASE(a_state_that_has_ended_is_there_when_the_clock_steps_back_a_second) {
  const weir::store s = store(10'000, 1);
  const limiter l(s, "r", fixed_window{.limit = 5, .window = 1h});
  const limiter others(s, "others", three_per_10s);
  BOOST_TEST(record(l, "a", 5).d.allowed);
  now += 1h;
  for (int i = 0; i < 2000; ++i) record(others, std::to_string(i));
  now -= 1s;
  BOOST_TEST(!record(l, "a").d.allowed);
  now += 1s;
  BOOST_TEST(record(l, "a").d.allowed);
}

// A check of a shorter plan ended the state with its own window: it was dropped, and the longer
// plan let all of its limit pass again.
BOOST_AUTO_TEST_CASE(a_shorter_plan_does_not_end_the_state_that_a_longer_plan_needs) {
  for (const auto& [shorter, longer] : plans) {
    for (const bool has_tiers : {false, true}) {
      for (const bool refunds : {false, true}) {
        BOOST_TEST_CONTEXT(text_of(longer)
                           << (has_tiers ? ", tiers" : "") << (refunds ? ", refund" : "")) {
          now = 278 * 3600s;  // so that the windows of both plans begin together
          const weir::store s = store(10'000, 1);
          const weir::tiers tiers = has_tiers ? weir::tiers(shorter, three_per_10s)
                                              : weir::tiers(shorter);
          const limiter brief(s, "r", tiers), lasting(s, "r", longer);
          const limiter others(s, "others", three_per_10s);
          BOOST_TEST(record(lasting, "a", 3).d.allowed);
          now += 1ms;
          const auto d = record(brief, "a").d;
          BOOST_TEST(d.allowed);
          now += 5s;
          if (refunds) refund(brief, "a", d);  // of a window that is over, for that plan
          now += 5s;
          for (int i = 0; i < 2000; ++i) record(others, std::to_string(i));
          BOOST_TEST(!record(lasting, "a").d.allowed);
        }
      }
    }
  }
}

// The window that was found before the reservation was over for the shorter plan by then: the state
// was dropped with it.
BOOST_AUTO_TEST_CASE(a_reservation_that_a_shorter_plan_cancels_leaves_a_longer_plans_count) {
  for (const auto& [shorter, longer] : plans) {
    BOOST_TEST_CONTEXT(text_of(longer)) {
      now = 278 * 3600s;  // so that the windows of both plans begin together
      const weir::store s = store();
      const limiter lasting(s, "r", longer);
      const limiter brief(s, "r", weir::tiers(shorter, gcra{{1, 60s}, 3}));
      BOOST_TEST(record(brief, "a", 3).d.allowed);
      BOOST_TEST(reset(lasting, "a") == error_code());
      BOOST_TEST(record(lasting, "a", 3).d.allowed);
      cancellable_crowd crowd;
      brief.acquire("a", {.max_wait = 1h}, crowd.caller());
      run_ready();
      BOOST_TEST(crowd.c[0].times == 0);  // its turn comes in a minute
      now += 5s;
      crowd.cancel(0);
      run_ready();
      BOOST_TEST(crowd.c[0].times == 1);
      BOOST_TEST(fetch(lasting, "a").d.used == 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_state_that_a_refund_has_emptied_leaves_the_store_before_its_window_ends) {
  for (const policy& p :
       {policy(fixed_window{3, 1h}), policy(sliding_window{3, 1h}), policy(sliding_log{3, 1h})}) {
    now = 278 * 3600s;
    const limiter l(store(1), "r", p);
    BOOST_TEST(refund(l, "a", record(l, "a").d).d.allowed);
    now += 3s;
    BOOST_TEST(!record(l, "b").ec.failed());
  }
}

BOOST_AUTO_TEST_CASE(a_clock_before_1970_is_read_as_1970) {
  const limiter l(store(), "r", three_per_10s);
  now = -5s;
  const auto o = record(l, "a");
  BOOST_TEST(o.d.allowed);
  BOOST_TEST((o.d.decided_at == time_point{1us}));
}

// A state that was written at zero did not know that a reservation was ahead: the clock was read as
// the time of the reservation, and one more passed than the limit.
BOOST_AUTO_TEST_CASE(a_reservation_counts_if_the_clock_begins_at_zero) {
  const policy all[] = {
      fixed_window{.limit = 2, .window = 10s}, sliding_log{.limit = 2, .window = 10s},
      sliding_window{.limit = 2, .window = 10s}, token_bucket{.capacity = 2, .refill = {2, 10s}}};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      now = 0s;
      const limiter l(store(), "r", all[i]);
      BOOST_TEST(record(l, "a", 2).d.allowed);
      cancellable_crowd crowd;
      l.acquire("a", {.max_wait = 1h}, crowd.caller());
      run_ready();
      const auto o = record(l, "a");
      BOOST_TEST(!o.d.allowed);
      BOOST_TEST((o.d.decided_at < time_point{1s}));
      crowd.cancel(0);
      run_ready();
    }
  }
}

// Times overflowed.
BOOST_AUTO_TEST_CASE(a_clock_after_2255_is_read_as_2255) {
  now = std::chrono::microseconds::max();
  const limiter l(store(), "r", token_bucket{.capacity = 2, .refill = {2, 10s}});
  const auto o = record(l, "a", 2);
  BOOST_TEST(o.d.allowed);
  BOOST_TEST(o.d.decided_at.time_since_epoch().count() == (std::int64_t{1} << 53) - 1);
  BOOST_TEST(!record(l, "a").d.allowed);
}

BOOST_AUTO_TEST_CASE(two_stores_share_nothing) {
  const limiter one(store(), "r", three_per_10s);
  const limiter two(store(), "r", three_per_10s);
  for (int i = 0; i < 3; ++i) record(one, "a");
  BOOST_TEST(record(two, "a").d.remaining == 2);
}

BOOST_AUTO_TEST_CASE(a_closed_store_refuses_what_comes_later) {
  auto s = store();
  const limiter l(s, "r", three_per_10s);
  s.close();
  s.close();
  WEIR_TEST_ERROR(record(l, "a").ec, error::store_closed);
  WEIR_TEST_ERROR(reset(l, "a"), error::store_closed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memory_store_test

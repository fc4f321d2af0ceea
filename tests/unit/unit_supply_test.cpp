// The units that a process takes from the store beforehand: how many pass, and how many it takes.
#include "limiter/unit_supply.hpp"

#include "support/run.hpp"

namespace unit_supply_test {

using namespace weir;
using namespace weir::test;
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
  d.decided_at = time_point(100s);
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
  s.note_reply(granted(1'000'000));
  unit_supply::time now = start;
  for (int i = 0; i < 10; ++i) {
    take(s, 1'000'000, now += 1ms);
    spend_all(s, now);
  }
  BOOST_TEST(take(s, 1'000'000, now) == 64);
  for (int i = 0; i < 32; ++i) s.spend(1, now);
  return now;
}

BOOST_AUTO_TEST_SUITE(unit_supply_suite)

BOOST_AUTO_TEST_CASE(nothing_is_taken_before_the_store_has_said_that_units_are_left) {
  unit_supply s(in_windows);
  BOOST_TEST(!s.spend(1, start).has_value());
  BOOST_TEST(s.begin_take(start) == 0);
  s.note_reply(granted(0));
  BOOST_TEST(s.begin_take(start) == 0);
  s.note_reply(granted(100));
  BOOST_TEST(s.begin_take(start) == 1);
  BOOST_TEST(s.is_taking());
  BOOST_TEST(s.begin_take(start) == 0);  // one at a time
}

BOOST_AUTO_TEST_CASE(a_local_decision_counts_from_the_present_moment) {
  unit_supply s(in_windows);
  s.note_reply(granted(100));
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
  BOOST_TEST((d->decided_at == time_point(104s)));
  BOOST_TEST(d->receipt.id == 0u);
  BOOST_TEST(!s.spend(2, start + 4s).has_value());
  BOOST_TEST(s.spend(1, start + 4s).has_value());
}

BOOST_AUTO_TEST_CASE(units_of_a_window_end_with_it) {
  unit_supply s(in_windows);
  s.note_reply(granted(100));
  s.begin_take(start);
  s.taken(3, granted(97, 10s), start, start + 2s);
  BOOST_TEST(s.spend(1, start + 9999ms).has_value());
  BOOST_TEST(!s.spend(1, start + 10s).has_value());
  BOOST_TEST(s.give_up(start + 10s).units == 0);
}

BOOST_AUTO_TEST_CASE(units_of_a_bucket_end_with_its_drain_time) {
  unit_supply s(in_bucket);
  s.note_reply(granted(100));
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
  s.note_reply(granted(1'000'000));
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
  s.note_reply(granted(1'000'000));
  for (int i = 0; i < 100; ++i) {
    const auto now = start + i * 2s;
    BOOST_TEST(take(s, 1'000'000, now) <= 1);
    s.spend(1, now);
  }
}

BOOST_AUTO_TEST_CASE(units_that_ended_unspent_halve_the_supply) {
  unit_supply s(in_windows);
  s.note_reply(granted(1'000'000));
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
  s.note_reply(granted(1'000'000));
  for (int i = 0; i < 5; ++i) {
    take(s, 1'000'000, start);
    spend_all(s, start);
  }
  s.note_reply(granted(7));
  BOOST_TEST(take(s, 3, start) == 4);
  BOOST_TEST(spend_all(s, start) == 4);
  BOOST_TEST(take(s, 1, start) == 2);
  BOOST_TEST(spend_all(s, start) == 2);
  // One unit of sixteen is not worth a call.
  BOOST_TEST(s.begin_take(start) == 0);
}

BOOST_AUTO_TEST_CASE(after_a_failed_take_the_store_is_not_asked_until_it_has_answered_a_check) {
  unit_supply s(in_windows);
  s.note_reply(granted(100));
  s.begin_take(start);
  s.failed();
  BOOST_TEST(!s.is_taking());
  BOOST_TEST(s.begin_take(start) == 0);
  s.note_reply(granted(99));
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
  s.note_reply(granted(1'000));
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
  s.note_reply(granted(1'000'000));
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
  s.note_reply(granted(1'000'000));
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
  s.note_reply(granted(100));
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

BOOST_AUTO_TEST_CASE(rules_follow_from_the_policy) {
  const auto rules = [](const policy& p, std::int64_t most) {
    return supply_rules::of(tiers{p}, most);
  };
  const supply_rules window = rules(fixed_window{.limit = 10, .window = 100ms}, 10);
  BOOST_TEST((window.life == 0us));
  BOOST_TEST((window.pace == 25ms));
  const supply_rules bucket = rules(token_bucket{1000, {7, 10ms}}, 100);
  BOOST_TEST((bucket.life == 142'857us));
  BOOST_TEST((bucket.pace == 35'714us));
  BOOST_TEST((rules(gcra{per_second(1), 60}, 60).life == 60s));
  BOOST_TEST((rules(gcra{per_second(1), 60}, 60).pace == 500ms));
  // Rounded down to 0, it would be the rule of a window.
  BOOST_TEST((rules(gcra{{2'000'000, 1s}, 1}, 1).life == 1us));

  const auto refuses = [&](const tiers& policies, std::int64_t most) {
    return error_of([&] { supply_rules::of(policies, most); }) == error::invalid_policy;
  };
  const fixed_window plain{.limit = 10, .window = 1s};
  BOOST_TEST(refuses(tiers{plain}, 11));
  BOOST_TEST(refuses(tiers{plain}, -1));
  BOOST_TEST(refuses(tiers{plain, plain}, 1));
  BOOST_TEST(refuses(tiers{fixed_window{.limit = 10, .window = 1s, .count_refused = true}}, 1));
  BOOST_TEST(refuses(tiers{sliding_window{.limit = 10, .window = 1s}}, 1));
  BOOST_TEST(refuses(tiers{sliding_log{.limit = 10, .window = 1s}}, 1));
  BOOST_TEST(refuses(tiers{leaky_bucket{10, per_second(1)}}, 1));
  BOOST_TEST(!refuses(tiers{fixed_window{.limit = unlimited, .window = 1s}}, max_units));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace unit_supply_test

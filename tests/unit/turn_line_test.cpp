// The line of a limiter that books: who gets which turn, who is dropped, and what becomes of the turns of those who leave.
#include "line_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::error;
using weir::on_overflow;
using weir::test::line_stage;
using scope = weir::detail::cancel_scope;

const auto aborted = boost::asio::error::operation_aborted;

/// Everybody has a turn, a second apart, the first in a second.
void give_turns(line_stage& s) {
  const std::size_t n = s.asks.size();
  for (std::size_t i = 0; i < n; ++i) s.turn_in(i, 1s * (i + 1));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(turn_line_suite)

BOOST_AUTO_TEST_CASE(each_is_asked_for_at_once_and_told_when_its_turn_comes) {
  line_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive(0, 20s, 7);
  WEIR_TEST_NUMBERS(s.asked(), {0, 1, 2});
  for (const auto& a : s.asks) {
    BOOST_TEST((a->kind == weir::detail::check_kind::acquire && a->cost == 7 && a->max_wait == 20s));
    BOOST_TEST(a->from_line);
  }
  give_turns(s);
  WEIR_TEST_NUMBERS(s.told(), {});
  const auto begin = s.clock();
  s.wait(1s - 1us);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.wait(1us);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1, 2});
  BOOST_TEST(s.line->is_idle());
  for (std::size_t i = 0; i < 3; ++i) {
    const decision& d = s.answer_of(i);
    BOOST_TEST((d.allowed && d.at == begin && d.delay == 1s * (i + 1)));
    BOOST_TEST((d.reset_after == d.delay + 1s));
  }
}

BOOST_AUTO_TEST_CASE(what_the_store_says_at_once_is_told_at_once) {
  line_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive();
  s.turn_in(0, 0s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.refuse(1, 5s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((!s.answer_of(1).allowed && s.answer_of(1).retry_after == 5s));
  s.fail(2, error::no_reply);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_ERROR(s.error_of(2), error::no_reply);
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(the_larger_priority_has_the_turn_that_comes) {
  line_stage s({});
  for (const int priority : {0, 0, 5, -3, 2}) s.arrive(priority);
  give_turns(s);
  const auto begin = s.clock();
  s.wait(10s);
  WEIR_TEST_NUMBERS(s.told(), {2, 4, 0, 1, 3});
  // What each is told is true of the turn that it got.
  for (const auto& [who, turn] : {std::pair{2u, 1s}, {4u, 2s}, {0u, 3s}, {1u, 4s}, {3u, 5s}}) {
    const decision& d = s.answer_of(who);
    BOOST_TEST((d.at == begin && d.delay == turn && d.reset_after == turn + 1s));
  }
}

BOOST_AUTO_TEST_CASE(who_is_told_a_delay_has_waited_that_long) {
  line_stage s({});
  s.arrive(0);
  s.turn_in(0, 5s);
  s.wait(3s);
  s.arrive(9);
  s.turn_in(1, 3s);  // at 6 s
  const auto later = s.clock();
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).at == later && s.answer_of(1).delay == 2s));
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  BOOST_TEST((s.answer_of(0).at == later - 3s && s.answer_of(0).delay == 6s));
}

BOOST_AUTO_TEST_CASE(nobody_is_made_to_wait_beyond_its_patience) {
  line_stage s({});
  s.arrive(0, 1500ms);
  s.arrive(0, 10s);
  s.arrive(7, 10s);
  give_turns(s);
  // The first would have to wait until 3 s.
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

BOOST_AUTO_TEST_CASE(patience_counts_from_the_stores_answer) {
  line_stage s({});
  s.arrive(0, 2s);
  s.arrive(7, 2s);
  s.wait(1s);
  s.turn_in(0, 1s);
  s.turn_in(1, 2s);
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1, 0});
}

BOOST_AUTO_TEST_CASE(turns_of_different_costs_are_not_exchanged) {
  line_stage s({});
  s.arrive(0, 10s, 1);
  s.arrive(9, 10s, 2);
  s.arrive(5, 10s, 1);
  give_turns(s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {2, 1, 0});
}

BOOST_AUTO_TEST_CASE(who_has_no_turn_yet_takes_nobodys) {
  line_stage s({});
  s.arrive();
  s.turn_in(0, 1s);
  s.arrive(9);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_CASE(a_turn_that_comes_at_once_is_for_who_waits_longest) {
  line_stage s({});
  s.arrive();
  s.turn_in(0, 5s);
  s.arrive();
  s.turn_in(1, 0s);  // as after a reset
  WEIR_TEST_NUMBERS(s.told(), {0});
  BOOST_TEST((s.answer_of(0).delay == 0s));
  // An impatient one keeps its own.
  s.arrive(0, 1s);
  s.turn_in(2, 0s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  s.wait(5s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 5s));
}

BOOST_AUTO_TEST_CASE(priorities_rise_with_waiting) {
  const auto order_of = [](std::chrono::microseconds ageing, std::chrono::microseconds later) {
    line_stage s({.ageing = ageing});
    s.arrive(0, 100s);
    s.turn_in(0, 50s);
    s.wait(later);
    s.arrive(3, 100s);
    s.turn_in(1, 51s - later);
    s.wait(60s);
    return s.told();
  };
  WEIR_TEST_NUMBERS(order_of(1s, 2999ms), {1, 0});
  WEIR_TEST_NUMBERS(order_of(1s, 3s), {0, 1});
  WEIR_TEST_NUMBERS(order_of(10s, 29s), {1, 0});
  WEIR_TEST_NUMBERS(order_of(10s, 30s), {0, 1});
  WEIR_TEST_NUMBERS(order_of(0s, 49s), {1, 0});
  WEIR_TEST_NUMBERS(order_of(std::chrono::microseconds::max(), 49s), {1, 0});
}

BOOST_AUTO_TEST_CASE(extreme_priorities_are_in_order) {
  line_stage s({.ageing = std::chrono::microseconds::max()});
  for (const auto p : {0, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    s.arrive(p);
  }
  give_turns(s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {1, 0, 2});
}

// ---- a full line

BOOST_AUTO_TEST_CASE(a_full_line_refuses_who_comes) {
  line_stage s({.max_waiting = 2});
  s.arrive();
  s.arrive();
  s.asked();
  s.arrive(100);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_ERROR(s.error_of(2), error::overloaded);
  WEIR_TEST_NUMBERS(s.asked(), {});
  give_turns(s);
  s.wait(1s);
  s.told();
  s.arrive();
  WEIR_TEST_NUMBERS(s.asked(), {3});
}

BOOST_AUTO_TEST_CASE(dropping_the_oldest_gives_its_turn_to_who_comes) {
  line_stage s({.max_waiting = 2, .overflow = on_overflow::drop_oldest});
  s.arrive(9);
  s.arrive();
  give_turns(s);
  s.asked();
  s.wait(500ms);
  const auto later = s.clock();
  s.arrive();
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  WEIR_TEST_NUMBERS(s.asked(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
  // In turn: the one before it is first in rank.
  s.wait(10s);
  WEIR_TEST_NUMBERS(s.told(), {1, 2});
  BOOST_TEST((s.answer_of(2).at == later && s.answer_of(2).delay == 1500ms));
}

BOOST_AUTO_TEST_CASE(a_turn_that_does_not_suit_who_comes_goes_back) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.turn_in(0, 5s);
  s.arrive(0, 5s - 1us);  // too late for it
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.returned(), {0});
  WEIR_TEST_NUMBERS(s.asked(), {0, 1});
  s.turn_in(1, 4s);
  s.arrive(0, 10s, 2);  // another cost
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_NUMBERS(s.returned(), {1});
  WEIR_TEST_NUMBERS(s.asked(), {2});
  s.arrive(0, 10s, 3);  // in place of one that has no turn yet
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_NUMBERS(s.cancelled(), {2});
  BOOST_TEST((s.last_scope == scope::any));
  s.fail(2, aborted);
  s.arrive(0, 9s, 3);  // which it would have to be by another time
  WEIR_TEST_NUMBERS(s.told(), {3});
  WEIR_TEST_NUMBERS(s.cancelled(), {3});
}

BOOST_AUTO_TEST_CASE(what_is_being_asked_for_one_that_is_dropped_serves_another) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.arrive();
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.asked(), {0});
  s.turn_in(0, 1s);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 1s));
}

BOOST_AUTO_TEST_CASE(an_inherited_question_that_fails_is_asked_again) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.wait(1s);
  s.arrive();
  s.told(), s.asked();
  s.fail(0, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.asked(), {1});
  s.fail(1, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::timed_out);
}

// The newcomer was told that it had been cancelled.
BOOST_AUTO_TEST_CASE(a_question_that_may_be_cancelled_serves_nobody_else) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.leave(0, scope::only_unsent);
  s.arrive();
  WEIR_TEST_NUMBERS(s.asked(), {0, 1});
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.turn_in(1, 0s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// The store is asked with what is left of its patience; the same call would wait for all of it again.
BOOST_AUTO_TEST_CASE(who_came_in_from_outside_is_told_when_the_same_call_would_be_booked) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::block});
  s.arrive();
  s.arrive(0, 64s);
  s.wait(32s);
  s.leave(0);
  s.asked(), s.told();
  BOOST_TEST((s.asks[1]->max_wait == 32s));
  s.refuse(1, 40s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).retry_after == 8s));
}

BOOST_AUTO_TEST_CASE(the_lowest_priority_is_dropped_who_comes_included) {
  line_stage s({.max_waiting = 3, .overflow = on_overflow::drop_lowest_priority});
  for (const int priority : {5, 1, 3}) s.arrive(priority);
  give_turns(s);
  s.arrive(1);  // of equal ones, who came last
  WEIR_TEST_NUMBERS(s.told(), {3});
  WEIR_TEST_ERROR(s.error_of(3), error::overloaded);
  s.arrive(2);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::overloaded);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {0, 2, 4});
}

BOOST_AUTO_TEST_CASE(waiting_raises_the_priority_that_is_compared) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority, .ageing = 1s});
  s.arrive(0, 100s);
  s.turn_in(0, 50s);
  s.wait(2s);
  s.arrive(2);
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.arrive(3, 100s);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_CASE(outside_they_wait_for_room_by_priority) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::block});
  s.arrive();
  for (const int priority : {0, 2, 1}) s.arrive(priority);
  WEIR_TEST_NUMBERS(s.asked(), {0});
  s.turn_in(0, 1s);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.asked(), {2});
  s.refuse(1, 1s);
  WEIR_TEST_NUMBERS(s.asked(), {3});
  s.fail(2, error::timed_out);
  WEIR_TEST_NUMBERS(s.asked(), {1});
  s.leave(1);
  s.told();
  BOOST_TEST(!s.line->is_idle());
  s.fail(3, aborted);
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(the_time_outside_counts) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::block});
  s.arrive(0, 20s);
  s.turn_in(0, 6s);
  s.arrive(0, 10s);
  s.arrive(0, 5s);
  s.wait(5s - 1us);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.wait(1us);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_ERROR(s.error_of(2), error::overloaded);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  // 4 s are left, in 64ths of 10 s.
  BOOST_TEST((s.asks[1]->max_wait == 25 * (10s / 64.0)));
  s.turn_in(1, 3s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

BOOST_AUTO_TEST_CASE(who_come_in_together_ask_alike) {
  line_stage s({.max_waiting = 10, .overflow = on_overflow::block});
  for (int i = 0; i < 10; ++i) s.arrive();
  for (int i = 0; i < 10; ++i) {
    s.arrive();
    s.wait(10ms);
  }
  for (std::size_t i = 0; i < 10; ++i) s.turn_in(i, 1s);
  s.asked();
  s.wait(1s);
  BOOST_TEST(s.asked().size() == 10u);
  std::size_t kinds = 1;
  for (std::size_t i = 11; i < 20; ++i) kinds += s.asks[i]->max_wait != s.asks[i - 1]->max_wait;
  BOOST_TEST(kinds <= 2u);
}

// ---- leaving

BOOST_AUTO_TEST_CASE(who_leaves_gives_the_last_turn_back) {
  line_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  give_turns(s);
  s.leave(1);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), aborted);
  WEIR_TEST_NUMBERS(s.returned(), {3});
  // The others move up.
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {0, 2});
  BOOST_TEST((s.answer_of(2).delay == 2s));
  s.leave(3);
  WEIR_TEST_NUMBERS(s.returned(), {2});
  BOOST_TEST(s.line->is_idle());
  BOOST_TEST((s.line->wakeup() == weir::detail::subject_line::time::max()));
}

BOOST_AUTO_TEST_CASE(of_another_cost_no_turn_is_given_back) {
  line_stage s({});
  s.arrive(0, 10s, 1);
  s.arrive(0, 10s, 2);
  give_turns(s);
  s.leave(0);
  WEIR_TEST_NUMBERS(s.returned(), {0});
}

BOOST_AUTO_TEST_CASE(a_turn_of_the_fallback_is_not_given_back) {
  line_stage s({});
  s.arrive();
  decision d;
  d.allowed = true;
  d.delay = 1s;
  d.source = weir::source::fallback;
  s.answer(0, d);
  s.leave(0);
  WEIR_TEST_NUMBERS(s.returned(), {});
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_CASE(leaving_while_the_store_is_asked) {
  line_stage s({});
  s.arrive();
  s.arrive();
  s.leave(0);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.cancelled(), {0});
  BOOST_TEST((s.last_scope == scope::any));
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.returned(), {});
  // The answer may have been on its way already.
  s.leave(1);
  s.turn_in(1, 3s);
  WEIR_TEST_NUMBERS(s.returned(), {1});
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(leaving_without_a_trace_only) {
  line_stage s({.max_waiting = 2, .overflow = on_overflow::block});
  for (int i = 0; i < 3; ++i) s.arrive();
  s.leave(2, scope::only_unsent);  // outside
  WEIR_TEST_NUMBERS(s.told(), {2});
  // Being asked for: the store knows whether it was sent.
  s.leave(0, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.cancelled(), {0});
  BOOST_TEST((s.last_scope == scope::only_unsent));
  WEIR_TEST_NUMBERS(s.told(), {});
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), aborted);
  // With a turn it stays.
  s.turn_in(1, 1s);
  s.leave(1, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.cancelled(), {});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

BOOST_AUTO_TEST_SUITE_END()

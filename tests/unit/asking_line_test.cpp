// The line of a sliding_window: who is asked for when, and who is told what.
#include "line_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::error;
using weir::on_overflow;
using weir::sliding_window;
using weir::test::line_stage;
using scope = weir::detail::cancel_scope;

const auto aborted = boost::asio::error::operation_aborted;
constexpr sliding_window three_a_minute{.limit = 3, .window = 60s};

}  // namespace

BOOST_AUTO_TEST_SUITE(asking_line_suite)

BOOST_AUTO_TEST_CASE(as_many_are_asked_for_as_might_pass_and_one_more) {
  line_stage s({}, {.limit = 100, .window = 60s});
  s.arrive(0, 10s, 30);
  WEIR_TEST_NUMBERS(s.asked(), {0});
  BOOST_TEST((s.asks[0]->kind == weir::detail::check_kind::record && s.asks[0]->cost == 30));
  BOOST_TEST(s.asks[0]->from_line);
  for (int i = 0; i < 6; ++i) s.arrive(0, 10s, 30);
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.pass(0, 70);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.asked(), {1, 2, 3});  // 70 are left
  s.pass(1, 40);
  s.pass(2, 10);
  s.refuse(3, 3s, 10);
  WEIR_TEST_NUMBERS(s.told(), {1, 2});
  WEIR_TEST_NUMBERS(s.asked(), {});
  BOOST_TEST((s.answer_of(1).allowed && s.answer_of(1).delay == 0s));
  s.wait(3s - 1us);
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.wait(1us);
  // 10, and no more than 5 and one that came since.
  WEIR_TEST_NUMBERS(s.asked(), {3});
}

BOOST_AUTO_TEST_CASE(a_fresh_line_asks_for_all_that_might_pass) {
  line_stage s({.max_waiting = 1000}, {.limit = 100, .window = 60s});
  s.arrive();
  for (int i = 0; i < 200; ++i) s.arrive();
  s.asked();
  s.fail(0, error::no_reply);
  BOOST_TEST(s.asked().size() == 101u);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_CASE(without_a_limit_all_are_asked_for) {
  line_stage s({}, {.limit = weir::unlimited, .window = 60s});
  for (int i = 0; i < 100; ++i) s.arrive();
  s.asked();
  s.pass(0, weir::unlimited);
  BOOST_TEST(s.asked().size() == 99u);
}

// It asked for one more than could pass now; by the time it was asked for that one could.
BOOST_AUTO_TEST_CASE(a_question_reckons_with_what_becomes_free_while_it_travels) {
  line_stage s({}, {.limit = 100, .window = 10s});  // one in 100 ms
  for (int i = 0; i < 9; ++i) s.arrive();
  WEIR_TEST_NUMBERS(s.asked(), {0});
  s.wait(150ms);
  s.refuse(0, 100ms);
  s.wait(100ms);
  WEIR_TEST_NUMBERS(s.asked(), {0, 1, 2, 3, 4});  // in 100 ms + 2 * 150 ms, and one more
}

BOOST_AUTO_TEST_CASE(whoever_is_first_goes_when_one_may) {
  line_stage s({}, three_a_minute);
  s.arrive(0);
  s.refuse(0, 1s);
  for (const int priority : {0, 5, -1}) s.arrive(priority);
  s.asked();
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.asked(), {2, 0});
  s.arrive(9);
  s.pass(1);
  WEIR_TEST_NUMBERS(s.told(), {4});  // it came in time for the answer
  s.refuse(2, 1s);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.asked(), {2, 0});
  s.pass(3, 1);
  s.pass(4, 0);
  WEIR_TEST_NUMBERS(s.told(), {2, 0});
}

BOOST_AUTO_TEST_CASE(priorities_rise_with_waiting) {
  line_stage s({.ageing = 1s}, three_a_minute);
  s.arrive(0);
  s.refuse(0, 5s);
  s.wait(2s);
  s.arrive(2);
  s.arrive(3);
  s.asked();
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.asked(), {2, 0});
}

BOOST_AUTO_TEST_CASE(behind_a_large_cost_nobody_is_asked_for) {
  line_stage s({}, three_a_minute);
  s.arrive(0, 10s, 3);
  s.arrive(0, 10s, 1);
  s.asked();
  s.refuse(0, 2s, 2);
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.arrive(0, 10s, 1);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.asked(), {0});
  s.pass(1, 0);
  WEIR_TEST_NUMBERS(s.asked(), {1});
  // Who leaves sets those behind free.
  s.refuse(2, 1s);
  s.wait(500ms);
  s.leave(1);
  s.leave(2);
  s.told();
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(a_smaller_cost_that_comes_first_is_asked_for_at_once) {
  line_stage s({}, three_a_minute);
  s.arrive(0, 10s, 2);
  s.refuse(0, 5s, 1);
  s.asked();
  s.arrive(9, 10s, 2);
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.arrive(10, 10s, 1);
  WEIR_TEST_NUMBERS(s.asked(), {2});
}

BOOST_AUTO_TEST_CASE(a_pause_holds_back_whatever_it_costs) {
  line_stage s({}, three_a_minute);
  s.arrive(0, 10s, 2);
  decision d;
  d.at = s.clock();
  d.held = true;
  d.retry_after = 5s;
  s.answer(0, d);
  s.asked();
  s.arrive(10, 10s, 1);
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.arrive(0, 4s, 1);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST((s.answer_of(2).held && s.answer_of(2).retry_after == 5s));
  s.wait(5s);
  WEIR_TEST_NUMBERS(s.asked(), {1});
}

// ---- patience

BOOST_AUTO_TEST_CASE(who_cannot_pass_in_time_is_refused_at_once) {
  line_stage s({}, three_a_minute);
  s.arrive(0, 2s);
  s.arrive(0, 5s);
  s.refuse(0, 3s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  BOOST_TEST((!s.answer_of(0).allowed && s.answer_of(0).retry_after == 3s));
  WEIR_TEST_NUMBERS(s.asked(), {0});  // for the other that is known, too
  s.wait(1s);
  // Known already, and as of now.
  s.arrive(0, 0s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST((s.answer_of(2).retry_after == 2s && s.answer_of(2).reset_after == 3s));
  BOOST_TEST((s.answer_of(2).at == s.clock()));
  s.arrive(0, 2s);
  s.asked();
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.asked(), {1, 3});
}

BOOST_AUTO_TEST_CASE(behind_a_large_cost_patience_may_end_in_the_line) {
  line_stage s({}, three_a_minute);
  s.arrive(0, 10s, 3);
  s.refuse(0, 5s);
  s.arrive(0, 2s, 1);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((!s.answer_of(1).allowed && s.answer_of(1).retry_after == 3s));
}

BOOST_AUTO_TEST_CASE(without_patience_one_passes_now_or_never) {
  line_stage s({}, three_a_minute);
  s.arrive(0, 0s);
  s.arrive(0, 0s);
  s.wait(1s);  // for the store's answer patience is not needed
  s.pass(0, 2);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.refuse(1, 1us);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

BOOST_AUTO_TEST_CASE(when_the_store_fails_those_asked_for_hear_it) {
  line_stage s({}, {.limit = 1, .window = 60s});
  for (int i = 0; i < 4; ++i) s.arrive(0, i == 3 ? 1s : 10s);
  s.asked();
  s.pass(0, 0);
  WEIR_TEST_NUMBERS(s.asked(), {1});
  s.wait(2s);
  s.told();
  s.fail(1, error::no_reply);
  // And those whose time is over know that the store could not say.
  WEIR_TEST_NUMBERS(s.told(), {1, 3});
  WEIR_TEST_ERROR(s.error_of(1), error::no_reply);
  WEIR_TEST_ERROR(s.error_of(3), error::timed_out);
  WEIR_TEST_NUMBERS(s.asked(), {2});
}

// ---- a full line

BOOST_AUTO_TEST_CASE(a_full_line_refuses_who_comes) {
  line_stage s({.max_waiting = 2}, three_a_minute);
  for (int i = 0; i < 3; ++i) s.arrive(i);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_ERROR(s.error_of(2), error::overloaded);
  s.pass(0);
  s.told();
  s.arrive();
  WEIR_TEST_NUMBERS(s.told(), {});
}

BOOST_AUTO_TEST_CASE(dropping_the_oldest) {
  line_stage s({.max_waiting = 2, .overflow = on_overflow::drop_oldest}, three_a_minute);
  s.arrive(9);
  s.arrive(0);
  s.arrive(0);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  WEIR_TEST_NUMBERS(s.cancelled(), {});
  s.pass(0, 2);  // asked for on behalf of who was dropped
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_NUMBERS(s.asked(), {0, 2});
}

BOOST_AUTO_TEST_CASE(what_was_asked_for_one_that_was_dropped_and_fails_is_asked_again) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest}, three_a_minute);
  s.arrive();
  s.arrive();
  s.told(), s.asked();
  s.fail(0, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.asked(), {1});
  s.fail(1, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// The newcomer was told that it had been cancelled.
BOOST_AUTO_TEST_CASE(a_question_that_may_be_cancelled_serves_nobody_else) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest}, {.limit = 1, .window = 1s});
  s.arrive();
  s.leave(0, scope::only_unsent);
  s.arrive();
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.asked(), {0, 1});
  s.pass(1);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// Nobody was refused, and so nobody was ever turned away.
BOOST_AUTO_TEST_CASE(patience_ends_behind_others_that_pass_one_by_one) {
  line_stage s({}, {.limit = 100, .window = 60s});
  s.arrive(0, 10s, 1);
  s.arrive(0, 10s, 2);
  s.arrive(0, 1s, 1);
  s.wait(2s);
  s.pass(0, 99);
  WEIR_TEST_NUMBERS(s.told(), {0});  // it came after that question
  WEIR_TEST_NUMBERS(s.asked(), {0, 1});
  s.pass(1, 97);
  WEIR_TEST_NUMBERS(s.told(), {1, 2});
  WEIR_TEST_ERROR(s.error_of(2), error::timed_out);
}

BOOST_AUTO_TEST_CASE(dropping_the_lowest_priority) {
  line_stage s({.max_waiting = 2, .overflow = on_overflow::drop_lowest_priority}, three_a_minute);
  s.arrive(5);
  s.arrive(1, 10s, 2);
  s.arrive(1);
  WEIR_TEST_NUMBERS(s.told(), {2});
  s.arrive(2);
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.pass(0, 2);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.asked(), {0, 3});
}

BOOST_AUTO_TEST_CASE(outside_they_wait_for_room_by_priority) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::block}, three_a_minute);
  for (const int priority : {0, 0, 2}) s.arrive(priority, 20s);
  s.arrive(9, 3s);
  s.arrive(9, 6s);
  s.asked();
  s.refuse(0, 4s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {3});
  WEIR_TEST_ERROR(s.error_of(3), error::overloaded);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.asked(), {0});
  s.pass(1);
  // One that comes in asks; what is known already, it is told.
  WEIR_TEST_NUMBERS(s.asked(), {4});
  s.refuse(2, 3s);
  WEIR_TEST_NUMBERS(s.told(), {0, 4});
  BOOST_TEST((s.answer_of(4).retry_after == 3s));
  WEIR_TEST_NUMBERS(s.asked(), {});
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.asked(), {2});
}

// ---- leaving

BOOST_AUTO_TEST_CASE(leaving_the_line) {
  line_stage s({}, three_a_minute);
  for (int i = 0; i < 3; ++i) s.arrive();
  s.asked();
  // Asked for: only what was not sent is worth cancelling.
  s.leave(0);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), aborted);
  WEIR_TEST_NUMBERS(s.cancelled(), {0});
  BOOST_TEST((s.last_scope == scope::only_unsent));
  s.pass(0, 2);  // it was sent: another has it
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_NUMBERS(s.asked(), {2});
  s.refuse(1, 5s);
  s.leave(2);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_NUMBERS(s.cancelled(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
  BOOST_TEST(s.line->is_idle());
}

// It counted as used.
BOOST_AUTO_TEST_CASE(what_nobody_wants_any_more_goes_back) {
  line_stage s({}, three_a_minute);
  s.arrive();
  s.leave(0);
  s.arrive(0, 10s, 2);  // of another cost
  s.pass(0, 2);
  WEIR_TEST_NUMBERS(s.returned(), {0});
  WEIR_TEST_NUMBERS(s.asked(), {0, 1});
  s.leave(1);
  decision d;
  d.allowed = true;
  d.source = weir::source::fallback;  // that goes on alone
  s.answer(1, d);
  WEIR_TEST_NUMBERS(s.returned(), {});
  BOOST_TEST(s.line->is_idle());
}

// Whoever stood behind was refused for as long as if that had been used.
BOOST_AUTO_TEST_CASE(a_refusal_from_before_a_grant_went_back_holds_no_more) {
  line_stage s({}, three_a_minute);
  for (int i = 0; i < 3; ++i) s.arrive();
  s.arrive(0, 10s, 2);
  s.pass(0, 2);
  WEIR_TEST_NUMBERS(s.asked(), {0, 1, 2});
  s.leave(1);
  s.leave(2);
  s.told();
  s.pass(1, 0);
  s.refuse(2, 50s);
  WEIR_TEST_NUMBERS(s.returned(), {1});
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.asked(), {3});
  s.refuse(3, 50s);
  WEIR_TEST_NUMBERS(s.told(), {3});
}

BOOST_AUTO_TEST_CASE(leaving_without_a_trace_only) {
  line_stage s({}, three_a_minute);
  s.arrive();
  s.arrive();
  s.leave(0, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.cancelled(), {0});
  s.leave(1, scope::only_unsent);  // not asked for
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), aborted);
  // Refused once, it has left no trace.
  s.arrive();
  s.refuse(1, 5s);
  s.leave(2, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_SUITE_END()

// The queue of a subject: which waiter gets which reservation, and which request is repeated.
#include "line_fixture.hpp"

namespace waiter_line_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::error;
using weir::test::line_stage;
using scope = weir::detail::cancel_scope;

}  // namespace

BOOST_AUTO_TEST_SUITE(waiter_line_suite)

BOOST_AUTO_TEST_CASE(each_waiter_makes_a_request_at_once_and_is_told_when_its_reservation_is_due) {
  line_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive(0, 20s, 7);
  WEIR_TEST_NUMBERS(s.requested(), {0, 1, 2});
  for (const auto& a : s.requests) BOOST_TEST((a.max_wait == 20s));
  s.reserve_all();
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
    BOOST_TEST((d.allowed && d.decided_at == begin && d.delay == 1s * (i + 1)));
    BOOST_TEST((d.reset_after == d.delay + 1s));
  }
}

BOOST_AUTO_TEST_CASE(what_the_store_says_at_once_is_told_at_once) {
  line_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive();
  s.book_in(0, 0s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.refuse(1, 5s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((!s.answer_of(1).allowed && s.answer_of(1).retry_after == 5s));
  s.fail(2, error::no_reply);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_ERROR(s.error_of(2), error::no_reply);
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(the_larger_priority_has_the_reservation_that_is_due) {
  line_stage s({});
  for (const int priority : {0, 0, 5, -3, 2}) s.arrive(priority);
  s.reserve_all();
  const auto begin = s.clock();
  s.wait(10s);
  WEIR_TEST_NUMBERS(s.told(), {2, 4, 0, 1, 3});
  // What each is told is true of the reservation that it got.
  for (const auto& [who, turn] : {std::pair{2u, 1s}, {4u, 2s}, {0u, 3s}, {1u, 4s}, {3u, 5s}}) {
    const decision& d = s.answer_of(who);
    BOOST_TEST((d.decided_at == begin && d.delay == turn && d.reset_after == turn + 1s));
  }
}

BOOST_AUTO_TEST_CASE(a_waiter_that_is_told_a_delay_has_waited_that_long) {
  line_stage s({});
  s.arrive(0);
  s.book_in(0, 5s);
  s.wait(3s);
  s.arrive(9);
  s.book_in(1, 3s);  // at 6 s
  const auto later = s.clock();
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).decided_at == later && s.answer_of(1).delay == 2s));
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  BOOST_TEST((s.answer_of(0).decided_at == later - 3s && s.answer_of(0).delay == 6s));
}

// The first caller was told the later reservation, and the second the earlier one.
BOOST_AUTO_TEST_CASE(a_late_answer_does_not_let_a_later_reservation_come_first) {
  line_stage s({});
  s.arrive();
  s.arrive();
  decision d;
  d.allowed = true;
  d.decided_at = s.clock();
  d.delay = 1s;
  s.wait(10ms);
  s.answer(0, d);
  const auto first = d.decided_at + d.delay;
  d.decided_at = s.clock();
  d.delay = 995ms;
  s.answer(1, d);
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {0, 1});
  BOOST_TEST((s.answer_of(0).decided_at + s.answer_of(0).delay == first));
  BOOST_TEST((s.answer_of(1).decided_at + s.answer_of(1).delay == first + 5ms));
}

BOOST_AUTO_TEST_CASE(no_waiter_is_made_to_wait_beyond_its_patience) {
  line_stage s({});
  s.arrive(0, 1500ms);
  s.arrive(0, 10s);
  s.arrive(7, 10s);
  s.reserve_all();
  // The first would have to wait until 3 s.
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// The one that came second went first: none of them could exchange with the first in rank.
BOOST_AUTO_TEST_CASE(equals_go_as_they_came_if_the_first_in_rank_cannot_exchange) {
  line_stage s({});
  for (int i = 0; i < 2; ++i) s.arrive(0, 5s);
  s.arrive(9, 15s);
  for (int i = 0; i < 2; ++i) s.arrive(0, 15s);
  s.arrive(9, 15s);
  s.reserve_all();
  for (const std::size_t next : {2, 0, 1, 5, 3, 4}) {
    s.wait(1s);
    WEIR_TEST_NUMBERS(s.told(), {next});
  }
}

BOOST_AUTO_TEST_CASE(patience_counts_from_the_stores_answer) {
  line_stage s({});
  s.arrive(0, 2s);
  s.arrive(7, 2s);
  s.wait(1s);
  s.book_in(0, 1s);
  s.book_in(1, 2s);
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1, 0});
}

BOOST_AUTO_TEST_CASE(reservations_of_different_costs_are_not_exchanged) {
  line_stage s({});
  s.arrive(0, 10s, 1);
  s.arrive(9, 10s, 2);
  s.arrive(5, 10s, 1);
  s.reserve_all();
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {2, 1, 0});
}

BOOST_AUTO_TEST_CASE(a_waiter_without_a_reservation_takes_none_of_another) {
  line_stage s({});
  s.arrive();
  s.book_in(0, 1s);
  s.arrive(9);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_CASE(a_reservation_due_at_once_is_for_the_waiter_that_waits_longest) {
  line_stage s({});
  s.arrive();
  s.book_in(0, 5s);
  s.arrive();
  s.book_in(1, 0s);  // as after a reset
  WEIR_TEST_NUMBERS(s.told(), {0});
  BOOST_TEST((s.answer_of(0).delay == 0s));
  // An impatient one keeps its own.
  s.arrive(0, 1s);
  s.book_in(2, 0s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  s.wait(5s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 5s));
}

BOOST_AUTO_TEST_CASE(priorities_rise_with_waiting) {
  const auto order_of = [](std::chrono::microseconds priority_aging,
                           std::chrono::microseconds later) {
    line_stage s({.priority_aging = priority_aging});
    s.arrive(0, 100s);
    s.book_in(0, 50s);
    s.wait(later);
    s.arrive(3, 100s);
    s.book_in(1, 51s - later);
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
  line_stage s({.priority_aging = std::chrono::microseconds::max()});
  for (const auto p : {0, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    s.arrive(p);
  }
  s.reserve_all();
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {1, 0, 2});
}

// ---- while the store is away

BOOST_AUTO_TEST_CASE(a_question_that_failed_is_asked_again_while_there_is_patience) {
  line_stage s({.retry_interval = 100ms});
  s.arrive(0, 640ms);
  s.wait(20ms);
  s.fail(0, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.requested();
  s.wait(100ms);
  WEIR_TEST_NUMBERS(s.requested(), {0});
  BOOST_TEST((s.requests[1].max_wait == 520ms));
  s.fail(1, error::circuit_open);
  s.wait(100ms);
  s.book_in(2, 300ms);
  s.wait(300ms);
  WEIR_TEST_NUMBERS(s.told(), {0});
  BOOST_TEST(s.answer_of(0).allowed);
}

BOOST_AUTO_TEST_CASE(patience_ends_with_the_last_error) {
  line_stage s({.retry_interval = 100ms});
  s.arrive(0, 150ms);
  s.fail(0, error::timed_out);
  s.wait(100ms);
  s.fail(1, error::server_loading);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::server_loading);
  BOOST_TEST(s.line->is_idle());
}

// One to a server_is_not_cluster was repeated until the end of max_wait, unlike its sibling.
BOOST_AUTO_TEST_CASE(a_request_that_may_have_booked_or_will_not_pass_is_not_repeated) {
  for (const error e : {error::no_reply, error::outcome_unknown, error::protocol_error,
                        error::authentication_failed, error::out_of_memory, error::store_closed,
                        error::server_is_not_cluster, error::server_is_cluster}) {
    line_stage s({});
    s.arrive();
    s.fail(0, e);
    WEIR_TEST_NUMBERS(s.told(), {0});
    WEIR_TEST_ERROR(s.error_of(0), e);
  }
}

// As docs/waiting.md lists them.
BOOST_AUTO_TEST_CASE(errors_that_may_pass_are_repeated) {
  for (const error e : {error::connection_refused, error::circuit_open, error::server_loading,
                        error::cluster_down, error::slot_migrating, error::too_many_redirects,
                        error::clock_skew, error::store_contention}) {
    line_stage s({.retry_interval = 100ms});
    s.arrive();
    s.fail(0, e);
    WEIR_TEST_NUMBERS(s.told(), {});
    s.requested();
    s.wait(100ms);
    WEIR_TEST_NUMBERS(s.requested(), {0});
  }
}

BOOST_AUTO_TEST_CASE(a_waiter_that_is_to_be_asked_for_again_may_leave) {
  line_stage s({});
  s.arrive();
  s.arrive();
  for (const std::size_t i : {0u, 1u}) s.fail(i, error::timed_out);
  s.leave(0);
  s.leave(1, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.told(), {0, 1});
  WEIR_TEST_NUMBERS(s.cancelled(), {});
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace waiter_line_test

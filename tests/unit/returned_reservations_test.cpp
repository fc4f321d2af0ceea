// Waiters that leave the queue of a subject: which reservation goes back, and when.
#include "line_fixture.hpp"

namespace returned_reservations_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::error;
using weir::on_overflow;
using weir::test::line_stage;
using scope = weir::detail::cancel_scope;

const auto aborted = boost::asio::error::operation_aborted;

/// A caller has left its reservation, and the answer to another one is due.
struct one_to_go_back : line_stage {
  one_to_go_back() : line_stage({}) {
    arrive();
    reserve_all();
    arrive();
    leave(0);
    requested();
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(returned_reservations_suite)

BOOST_AUTO_TEST_CASE(a_cancelled_waiter_gives_the_last_reservation_back) {
  line_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  s.reserve_all();
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
  BOOST_TEST((s.line->wakeup() == weir::waiting::waiter_line::time::max()));
}

BOOST_AUTO_TEST_CASE(a_newcomer_that_cannot_use_what_would_go_back_makes_a_request) {
  line_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive();
  s.reserve_all();
  s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {0, 1, 2, 3});  // the last one's answer is due
  s.leave(1);
  WEIR_TEST_NUMBERS(s.returned(), {});
  s.arrive(0, 1s);  // 4 would not wait so long for it
  WEIR_TEST_NUMBERS(s.requested(), {4});
  WEIR_TEST_NUMBERS(s.returned(), {2});
}

// While callers left and others came, each reservation went back behind a request that was under
// way. A bucket of 20 units lost two thirds of its rate so.
BOOST_AUTO_TEST_CASE(a_newcomer_takes_what_would_go_back) {
  line_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive();
  s.reserve_all();
  s.arrive();
  s.leave(0);
  s.leave(1);
  s.requested();
  const std::size_t newcomer = s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
  s.told();
  s.book_in(3, 4s);
  // The request of caller 3 was answered last, so its waiter has the reservation that 0 left.
  WEIR_TEST_NUMBERS(s.returned(), {3});
  s.wait(4s);
  WEIR_TEST_NUMBERS(s.told(), {2, 3, newcomer});
  BOOST_TEST((s.answer_of(2).delay == 1s));
  BOOST_TEST((s.answer_of(newcomer).delay == 3s));
  BOOST_TEST(s.line->is_idle());
}

// Newcomers that took such reservations all went at once.
BOOST_AUTO_TEST_CASE(a_newcomer_takes_no_reservation_whose_time_has_passed) {
  line_stage s({});
  for (int i = 0; i < 2; ++i) s.arrive();
  s.reserve_all();
  s.arrive();
  s.leave(0);
  s.leave(1);
  s.wait(3s);
  s.requested();
  const std::size_t newcomer = s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {newcomer});
}

BOOST_AUTO_TEST_CASE(a_newcomer_takes_the_earliest_of_what_would_go_back) {
  line_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  for (std::size_t i = 0; i < 3; ++i) {
    s.leave(i);
    s.book_in(i, 1s * (i + 1));
  }
  s.told();
  const std::size_t newcomer = s.arrive();
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {newcomer});
}

// The store has forgotten it: the newcomer would wait for nothing.
BOOST_AUTO_TEST_CASE(a_newcomer_takes_no_reservation_from_before_a_reset) {
  one_to_go_back s;
  s.line->forget_cool_down();
  const std::size_t newcomer = s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {newcomer});
}

// When another answer named that cool-down, too, the reservation was given back, and a new one was
// made behind all others.
BOOST_AUTO_TEST_CASE(a_newcomer_keeps_what_was_reserved_behind_a_cool_down) {
  line_stage s({});
  s.arrive();
  s.arrive();
  s.leave(0);
  s.requests[0].cool_down_left = 5s;
  s.book_in(0, 5s);
  s.requested();
  s.arrive();
  s.cool_down(5s + 1ms);
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
}

BOOST_AUTO_TEST_CASE(a_newcomer_takes_nothing_after_the_close) {
  one_to_go_back s;
  s.close();
  const std::size_t newcomer = s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {newcomer});
}

BOOST_AUTO_TEST_CASE(no_reservation_of_another_cost_is_given_back) {
  line_stage s({});
  s.arrive(0, 10s, 1);
  s.arrive(0, 10s, 2);
  s.reserve_all();
  s.leave(0);
  WEIR_TEST_NUMBERS(s.returned(), {0});
}

BOOST_AUTO_TEST_CASE(a_reservation_of_the_fallback_is_not_given_back) {
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
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.returned(), {});
  // It was sent already.
  s.leave(1);
  s.book_in(1, 3s);
  WEIR_TEST_NUMBERS(s.returned(), {1});
  BOOST_TEST(s.line->is_idle());
}

// The store takes back units on which another reservation stands only in part, or not at all.
BOOST_AUTO_TEST_CASE(
    a_waiter_that_leaves_while_the_store_is_asked_gives_the_last_reservation_back) {
  line_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  s.arrive(0, 10s, 2);
  s.book_in(0, 1s);
  s.leave(0);  // answers are due
  s.leave(1);
  for (std::size_t i = 1; i < 5; ++i) s.book_in(i, 1s * (i + 1));
  WEIR_TEST_NUMBERS(s.returned(), {3, 2});
  WEIR_TEST_NUMBERS(s.told(), {0, 1});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {3});
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {4});  // of another cost
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(what_a_cancelled_waiter_got_at_once_is_for_the_next) {
  line_stage s({});
  s.arrive();
  s.arrive();
  s.leave(0);
  s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {0, 1, 2});
  s.book_in(0, 0s);
  s.book_in(1, 1s);
  s.book_in(2, 2s);
  WEIR_TEST_NUMBERS(s.told(), {0, 1});
  WEIR_TEST_NUMBERS(s.returned(), {2});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {2});
}

BOOST_AUTO_TEST_CASE(nobody_takes_what_a_cancelled_waiter_got_in_a_cool_down) {
  line_stage s({});
  s.arrive();
  s.arrive();
  s.leave(0);
  s.book_in(0, 1s);
  s.cool_down(1500ms);
  s.book_in(1, 2s);
  WEIR_TEST_NUMBERS(s.returned(), {0});
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {0, 1});
  BOOST_TEST((s.answer_of(1).delay == 2s));
}

// When the first two went back while the third was not there yet, they stayed counted.
BOOST_AUTO_TEST_CASE(what_cancelled_waiters_hold_goes_back_when_no_answer_is_due) {
  line_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  s.book_in(0, 1s);
  s.book_in(1, 2s);
  for (std::size_t i = 0; i < 4; ++i) s.leave(i);
  WEIR_TEST_NUMBERS(s.told(), {0, 1, 2, 3});
  s.book_in(2, 3s);
  WEIR_TEST_NUMBERS(s.returned(), {});
  s.book_in(3, 4s);
  WEIR_TEST_NUMBERS(s.returned(), {1, 0, 2, 3});
  BOOST_TEST(s.line->is_idle());
}

// When the first waited for an answer, the request left before it, and was placed behind it.
BOOST_AUTO_TEST_CASE(what_cancelled_waiters_hold_goes_back_before_an_unstarted_request) {
  line_stage s({});
  s.arrive();
  s.book_in(0, 1s);
  s.store_is_busy = true;
  s.arrive();
  s.leave(0);
  WEIR_TEST_NUMBERS(s.returned(), {0});
}

BOOST_AUTO_TEST_CASE(what_cancelled_waiters_hold_goes_back_before_a_new_request) {
  line_stage s({});
  s.arrive();
  s.arrive();
  s.book_in(0, 1s);
  s.leave(0);
  WEIR_TEST_NUMBERS(s.returned(), {});
  s.arrive(0, 10s, 2);
  WEIR_TEST_NUMBERS(s.returned(), {0});
}

// The cancellation may still be reading its check, so that is not started again.
BOOST_AUTO_TEST_CASE(a_waiter_that_was_cancelled_in_vain_asks_for_nothing_more) {
  line_stage s({});
  for (int i = 0; i < 2; ++i) {
    s.arrive();
    s.leave(static_cast<std::size_t>(i), scope::only_unsent);
  }
  s.book_in(0, 1s);
  s.fail(1, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::timed_out);
  s.requested();
  s.cool_down(5s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), aborted);
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {0});
}

BOOST_AUTO_TEST_CASE(leaving_without_a_trace_only) {
  line_stage s({});
  s.arrive();
  s.arrive();
  // Being asked for: the store knows whether it was sent.
  s.leave(0, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.cancelled(), {0});
  WEIR_TEST_NUMBERS(s.told(), {});
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), aborted);
  // With a reservation it stays.
  s.book_in(1, 1s);
  s.leave(1, scope::only_unsent);
  WEIR_TEST_NUMBERS(s.cancelled(), {});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace returned_reservations_test

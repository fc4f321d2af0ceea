// A full reservation queue: which waiter is refused, which is dropped for another, which waits
// outside.
#include "queue_fixture.hpp"

namespace full_queue_test {
namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::on_overflow;
using weir::test::queue_stage;
using scope = weir::detail::cancel_scope;

const auto aborted = boost::asio::error::operation_aborted;

}  // namespace

BOOST_AUTO_TEST_SUITE(full_queue_suite)

BOOST_AUTO_TEST_CASE(a_full_queue_refuses_a_new_waiter) {
  queue_stage s({.max_waiting = 2});
  s.arrive();
  s.arrive();
  s.requested();
  s.arrive(100);
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_ERROR(s.error_of(2), error::overloaded);
  WEIR_TEST_NUMBERS(s.requested(), {});
  s.reserve_all();
  s.wait(1s);
  s.told();
  s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {3});
}

BOOST_AUTO_TEST_CASE(dropping_the_oldest_gives_its_reservation_to_the_new_waiter) {
  queue_stage s({.max_waiting = 2, .overflow = on_overflow::drop_oldest});
  s.arrive(9);
  s.arrive();
  s.reserve_all();
  s.requested();
  s.wait(500ms);
  const auto later = s.clock();
  s.arrive();
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
  // In turn: the one before it is first in rank.
  s.wait(10s);
  WEIR_TEST_NUMBERS(s.told(), {1, 2});
  BOOST_TEST((s.answer_of(2).decided_at == later && s.answer_of(2).delay == 1500ms));
}

BOOST_AUTO_TEST_CASE(a_reservation_that_does_not_suit_the_new_waiter_goes_back) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.book_in(0, 5s);
  s.arrive(0, 5s - 1us);  // too late for it
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.returned(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {0, 1});
  s.book_in(1, 4s);
  s.arrive(0, 10s, 2);  // another cost
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_NUMBERS(s.returned(), {1});
  WEIR_TEST_NUMBERS(s.requested(), {2});
  s.arrive(0, 10s, 3);  // in place of one that has no reservation yet
  WEIR_TEST_NUMBERS(s.told(), {2});
  WEIR_TEST_NUMBERS(s.cancelled(), {2});
  s.fail(2, aborted);
  s.arrive(0, 9s, 3);  // which it would have to be by another time
  WEIR_TEST_NUMBERS(s.told(), {3});
  WEIR_TEST_NUMBERS(s.cancelled(), {3});
}

BOOST_AUTO_TEST_CASE(what_is_being_asked_for_one_that_is_dropped_serves_another) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.arrive();
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {0});
  s.book_in(0, 1s);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 1s));
}

BOOST_AUTO_TEST_CASE(an_inherited_question_that_fails_is_asked_again) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.wait(1s);
  s.arrive();
  s.told(), s.requested();
  s.fail(0, error::no_reply);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.requested(), {1});
  s.fail(1, error::no_reply);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::no_reply);
}

// The newcomer was told that it had been cancelled.
BOOST_AUTO_TEST_CASE(a_question_that_may_be_cancelled_serves_nobody_else) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::drop_oldest});
  s.arrive();
  s.leave(0, scope::only_unsent);
  s.arrive();
  WEIR_TEST_NUMBERS(s.requested(), {0, 1});
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.book_in(1, 0s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// The store is asked with what is left of its max_wait; the same call would wait for all of it
// again.
BOOST_AUTO_TEST_CASE(a_waiter_from_outside_is_told_when_the_same_call_would_get_a_reservation) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::block});
  s.arrive();
  s.arrive(0, 64s);
  s.wait(32s);
  s.leave(0);
  s.requested(), s.told();
  BOOST_TEST((s.requests[1]->asked.max_wait == 32s));
  s.refuse(1, 40s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).retry_after == 8s));
}

BOOST_AUTO_TEST_CASE(the_lowest_priority_is_dropped_who_comes_included) {
  queue_stage s({.max_waiting = 3, .overflow = on_overflow::drop_lowest_priority});
  for (const int priority : {5, 1, 3}) s.arrive(priority);
  s.reserve_all();
  s.arrive(1);  // of equal ones, the last to come
  WEIR_TEST_NUMBERS(s.told(), {3});
  WEIR_TEST_ERROR(s.error_of(3), error::overloaded);
  s.arrive(2);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::overloaded);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {0, 2, 4});
}

BOOST_AUTO_TEST_CASE(waiting_raises_the_priority_that_is_compared) {
  queue_stage s(
      {.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority, .priority_aging = 1s});
  s.arrive(0, 100s);
  s.book_in(0, 50s);
  s.wait(2s);
  s.arrive(2);
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.arrive(3, 100s);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_CASE(outside_they_wait_for_room_by_priority) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::block});
  s.arrive();
  for (const int priority : {0, 2, 1}) s.arrive(priority);
  WEIR_TEST_NUMBERS(s.requested(), {0});
  s.book_in(0, 1s);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {2});
  s.refuse(1, 1s);
  WEIR_TEST_NUMBERS(s.requested(), {3});
  s.fail(2, error::no_reply);
  WEIR_TEST_NUMBERS(s.requested(), {1});
  s.leave(1);
  s.told();
  BOOST_TEST(!s.queue->is_idle());
  s.fail(3, aborted);
  BOOST_TEST(s.queue->is_idle());
}

BOOST_AUTO_TEST_CASE(the_time_outside_counts) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::block});
  s.arrive(0, 20s);
  s.book_in(0, 6s);
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
  BOOST_TEST((s.requests[1]->asked.max_wait == 25 * (10s / 64.0)));
  s.book_in(1, 3s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

BOOST_AUTO_TEST_CASE(waiters_that_come_in_together_ask_alike) {
  queue_stage s({.max_waiting = 10, .overflow = on_overflow::block});
  for (int i = 0; i < 10; ++i) s.arrive();
  for (int i = 0; i < 10; ++i) {
    s.arrive();
    s.wait(10ms);
  }
  for (std::size_t i = 0; i < 10; ++i) s.book_in(i, 1s);
  s.requested();
  s.wait(1s);
  BOOST_TEST(s.requested().size() == 10u);
  std::size_t kinds = 1;
  for (std::size_t i = 11; i < 20; ++i)
    kinds += s.requests[i]->asked.max_wait != s.requests[i - 1]->asked.max_wait;
  BOOST_TEST(kinds <= 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace full_queue_test

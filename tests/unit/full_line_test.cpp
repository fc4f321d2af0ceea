// A full reservation queue: which waiter is refused, and which is dropped for another.
#include "line_fixture.hpp"

namespace full_line_test {
namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::on_overflow;
using weir::test::line_stage;

}  // namespace

BOOST_AUTO_TEST_SUITE(full_line_suite)

BOOST_AUTO_TEST_CASE(a_full_line_refuses_a_new_waiter) {
  line_stage s({.max_waiting = 2});
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

BOOST_AUTO_TEST_CASE(a_new_waiter_takes_the_reservation_of_the_one_that_it_replaces) {
  line_stage s({.max_waiting = 2, .overflow = on_overflow::drop_lowest_priority});
  s.arrive(9);
  s.arrive();
  s.reserve_all();
  s.requested();
  s.wait(500ms);
  const auto later = s.clock();
  s.arrive(5);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::overloaded);
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
  s.wait(10s);
  WEIR_TEST_NUMBERS(s.told(), {0, 2});
  BOOST_TEST((s.answer_of(2).decided_at == later && s.answer_of(2).delay == 1500ms));
}

BOOST_AUTO_TEST_CASE(a_reservation_that_does_not_suit_the_new_waiter_goes_back) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority});
  s.arrive();
  s.book_in(0, 5s);
  s.arrive(1, 5s - 1us);  // too late for it
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.returned(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {0, 1});
  s.book_in(1, 4s);
  s.arrive(2, 10s, 2);  // another cost
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_NUMBERS(s.returned(), {1});
  WEIR_TEST_NUMBERS(s.requested(), {2});
}

// Whether it has to wait is not known before.
BOOST_AUTO_TEST_CASE(a_caller_whose_check_is_at_the_store_is_dropped_when_the_answer_has_come) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority});
  for (const int priority : {1, 0, 2}) s.arrive(priority);
  WEIR_TEST_NUMBERS(s.requested(), {0, 1, 2});
  s.book_in(0, 1s);
  s.book_in(1, 2s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::overloaded);
  s.book_in(2, 3s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  WEIR_TEST_NUMBERS(s.returned(), {1, 2});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST(s.line->is_idle());
}

BOOST_AUTO_TEST_CASE(a_caller_that_is_to_ask_again_may_be_dropped) {
  line_stage s({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority});
  for (const int priority : {1, 0}) s.arrive(priority);
  s.book_in(0, 1s);
  s.fail(1, error::timed_out);
  WEIR_TEST_NUMBERS(s.told(), {1});
  WEIR_TEST_ERROR(s.error_of(1), error::overloaded);
}

BOOST_AUTO_TEST_CASE(the_lowest_priority_is_dropped_who_comes_included) {
  line_stage s({.max_waiting = 3, .overflow = on_overflow::drop_lowest_priority});
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
  line_stage s(
      {.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority, .priority_aging = 1s});
  s.arrive(0, 100s);
  s.book_in(0, 50s);
  s.wait(2s);
  s.arrive(2);
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.arrive(3, 100s);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace full_line_test

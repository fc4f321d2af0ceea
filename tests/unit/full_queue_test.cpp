// A full reservation queue: which waiter is refused, and which is dropped for another.
#include "queue_fixture.hpp"

namespace full_queue_test {
namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::on_overflow;
using weir::test::queue_stage;

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

BOOST_AUTO_TEST_CASE(a_new_waiter_takes_the_reservation_of_the_one_that_it_replaces) {
  queue_stage s({.max_waiting = 2, .overflow = on_overflow::drop_lowest_priority});
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
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority});
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

// The request of the dropped waiter is cancelled. If it was sent, its reservation goes back.
BOOST_AUTO_TEST_CASE(a_new_waiter_asks_for_itself_if_the_dropped_one_has_no_reservation) {
  queue_stage s({.max_waiting = 1, .overflow = on_overflow::drop_lowest_priority});
  s.arrive();
  s.arrive(1);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_ERROR(s.error_of(0), error::overloaded);
  WEIR_TEST_NUMBERS(s.cancelled(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {0, 1});
  s.fail(0, aborted);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.book_in(1, 1s);
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 1s));
  BOOST_TEST(s.queue->is_idle());
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace full_queue_test

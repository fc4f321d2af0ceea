// Reservations of one queue that were made by different clocks: by the store, by the fallback in
// this process, and by a server that took over.
#include "line_fixture.hpp"

namespace reservation_clocks_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::test::line_stage;

decision reserved_at(weir::time_point clock, std::chrono::microseconds delay) {
  decision d;
  d.allowed = true;
  d.decided_at = clock;
  d.delay = delay;
  return d;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reservation_clocks_suite)

// This host's clock is an hour ahead of the server's: the fallback's answer seemed to be the later
// reservation, and waited for the store's.
BOOST_AUTO_TEST_CASE(a_fallback_with_a_fast_clock_does_not_wait_for_a_reservation_of_the_store) {
  line_stage s({});
  s.arrive(0, 30s);
  s.book_in(0, 20s);
  s.arrive(0, 1s);
  decision d = reserved_at(s.clock() + 1h, 0s);
  d.source = weir::source::fallback;
  s.answer(1, d);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 0s));
  // The store's order is kept behind it.
  s.arrive(0, 30s);
  s.answer(2, reserved_at(s.clock() + 1us, 20s - 1us));
  s.wait(20s);
  WEIR_TEST_NUMBERS(s.told(), {0, 2});
}

BOOST_AUTO_TEST_CASE(a_new_server_with_a_fast_clock_makes_no_waiter_exceed_its_max_wait) {
  line_stage s({});
  s.arrive(0, 30s);
  s.book_in(0, 20s);
  s.arrive(0, 2s);
  s.wait(500ms);
  s.answer(1, reserved_at(s.clock() + 1h, 0s));
  s.wait(1500ms);
  WEIR_TEST_NUMBERS(s.told(), {1});
  BOOST_TEST((s.answer_of(1).delay == 1500ms));
}

// The second waiter's max_wait allows less than the first one's late answer. The third comes after
// both of them all the same.
BOOST_AUTO_TEST_CASE(a_bounded_due_time_does_not_let_a_later_reservation_come_first) {
  line_stage s({});
  s.arrive(0, 30s, 1);
  s.arrive(0, 1s, 2);
  s.arrive(0, 30s, 3);
  const auto begin = s.clock();
  s.wait(500ms);
  s.answer(0, reserved_at(begin, 1s));  // due at 1.5 s
  s.answer(1, reserved_at(begin + 500ms, 500ms));
  s.answer(2, reserved_at(begin + 500ms, 500ms));
  s.wait(500ms);
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.wait(500ms);
  WEIR_TEST_NUMBERS(s.told(), {0, 2});
}

// The order was kept behind the last reservation, also behind one that had gone back: what came
// then, and was reserved before that one, overtook all others.
BOOST_AUTO_TEST_CASE(the_order_is_kept_behind_what_is_still_reserved) {
  line_stage s({});
  s.arrive(0, 30s);
  const auto begin = s.clock();
  s.wait(100ms);
  s.answer(0, reserved_at(begin, 100ms));  // due at 200 ms
  s.arrive(0, 30s);
  s.answer(1, reserved_at(s.clock(), 10s));
  s.leave(1);
  s.arrive(0, 30s);
  s.answer(2, reserved_at(s.clock(), 10ms));  // reported for 110 ms
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.wait(99ms);
  BOOST_TEST(s.told().empty());
  s.wait(1ms);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.wait(10ms);
  WEIR_TEST_NUMBERS(s.told(), {2});
}

// All whose reservations came before that of the late answer went with it, in one microsecond.
BOOST_AUTO_TEST_CASE(after_a_late_answer_the_others_catch_up_a_third_faster) {
  line_stage s({});
  for (int i = 0; i < 41; ++i) s.arrive(0, 30s);
  const auto begin = s.clock();
  s.wait(100ms);
  for (std::size_t i = 0; i < 41; ++i) {
    // The first answer took 100 ms, the others took no time.
    s.answer(i, i == 0 ? reserved_at(begin, 1s) : reserved_at(begin + 100ms, 900ms + 10ms * i));
  }
  s.wait(1s - 1us);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.wait(1us);
  WEIR_TEST_NUMBERS(s.told(), {0});
  for (std::size_t i = 1; i < 40; ++i) {
    s.wait(7500us - 1us);
    WEIR_TEST_NUMBERS(s.told(), {});
    s.wait(1us);
    WEIR_TEST_NUMBERS(s.told(), {i});
  }
  s.wait(8ms);  // caught up: due at 1.4 s
  WEIR_TEST_NUMBERS(s.told(), {40});
}

// The first answer was late. So the second reservation seemed to be the earlier one, and the first
// one went back, on which the second one stood.
BOOST_AUTO_TEST_CASE(what_goes_back_is_the_last_one_by_the_clock_of_the_store) {
  line_stage s({});
  s.arrive();
  s.arrive();
  const auto begin = s.clock();
  s.leave(1);
  s.wait(500ms);
  s.answer(0, reserved_at(begin, 1s));
  s.answer(1, reserved_at(begin + 500ms, 600ms));
  WEIR_TEST_NUMBERS(s.returned(), {1});
}

// The difference of the clocks is no lateness.
BOOST_AUTO_TEST_CASE(a_new_server_with_a_fast_clock_delays_nobody) {
  line_stage s({});
  s.arrive(0, 30s);
  s.book_in(0, 1s);
  s.arrive(0, 30s);
  s.answer(1, reserved_at(s.clock() + 1h, 2s));
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {0, 1});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reservation_clocks_test

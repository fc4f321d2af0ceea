// A cool-down and the queue of a subject: what becomes of the reservations that it covers.
#include <set>

#include "check/pending.hpp"
#include "queue_fixture.hpp"

namespace cool_downs_of_queues_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::test::queue_stage;

}  // namespace

BOOST_AUTO_TEST_SUITE(cool_downs_of_queues_suite)

// If all of them went at the end of the cool-down, more would pass than the policy allows.
BOOST_AUTO_TEST_CASE(a_reservation_that_a_new_cool_down_covers_is_requested_anew) {
  queue_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  s.reserve_all();
  s.requested();
  s.cool_down(2500ms);
  // The first two take the reservations of the last two, which have to wait longer.
  WEIR_TEST_NUMBERS(s.returned(), {0, 1});
  WEIR_TEST_NUMBERS(s.requested(), {3, 2});
  BOOST_TEST((s.requests[4]->asked.max_wait == 10s));
  BOOST_TEST(weir::detail::is_beyond_bound(*s.requests[4]));
  BOOST_TEST(!weir::detail::is_beyond_bound(*s.requests[3]));
  s.book_in(4, 5s);
  s.book_in(5, 6s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {1});
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST((s.answer_of(2).delay == 5s));
  s.wait(1s);
  WEIR_TEST_NUMBERS(s.told(), {3});
  WEIR_TEST_NUMBERS(s.requested(), {});
}

BOOST_AUTO_TEST_CASE(a_reservation_made_with_the_cool_down_known_waits_for_its_end) {
  queue_stage s({});
  for (int i = 0; i < 3; ++i) s.arrive();
  s.cool_down(2500ms);
  s.arrive();
  s.requested();
  // The store did not know it: another process has ended it.
  s.book_in(3, 1s);
  s.wait(2500ms - 1us);
  WEIR_TEST_NUMBERS(s.told(), {});
  s.wait(1us);
  WEIR_TEST_NUMBERS(s.told(), {3});
  BOOST_TEST((s.answer_of(3).delay == 1s));
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
}

// The store had answered before the reset, and the answer came to the queue behind it. Later calls
// were refused until the cool-down would have ended.
BOOST_AUTO_TEST_CASE(an_answer_to_a_request_made_before_a_reset_begins_no_cool_down) {
  queue_stage s({});
  s.arrive(0, 2h);
  s.arrive(0, 2h);
  s.book_in(0, 1h);
  s.queue->forget_cool_down();
  s.requests[1]->asked.cool_down_left = 1h;
  s.book_in(1, 1h);
  s.arrive();
  s.book_in(2, 0us);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST(s.answer_of(2).allowed);
}

// The answers of one cool-down differ a little, and no waiter asks again for that.
BOOST_AUTO_TEST_CASE(a_cool_down_that_is_named_again_a_little_later_moves_reservations_a_little) {
  queue_stage s({});
  s.arrive();
  s.cool_down(1s);
  s.arrive();
  s.book_in(1, 1s);
  s.requested();
  s.cool_down(1s + 80ms);
  s.wait(1s + 80ms - 1us);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.requested(), {});
  s.wait(1us);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// While the store's clock is behind, less is told of a cool-down than is left.
BOOST_AUTO_TEST_CASE(a_reservation_behind_a_cool_down_stays_however_little_was_told_of_it) {
  queue_stage s({});
  s.arrive(0, 1h);
  s.requests[0]->asked.cool_down_left = 1s;
  s.book_in(0, 51s);
  s.requested();
  s.cool_down(51s + 80ms);
  s.wait(51s + 80ms - 1us);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.requested(), {});
  WEIR_TEST_NUMBERS(s.returned(), {});
  s.wait(1us);
  WEIR_TEST_NUMBERS(s.told(), {0});
}

// The second caller had the reservation of the first, in exchange for its own.
BOOST_AUTO_TEST_CASE(
    a_waiter_that_comes_in_a_cool_down_is_not_let_go_inside_it_when_another_leaves) {
  for (const std::int32_t priority : {0, 9}) {
    queue_stage s({});
    s.arrive();
    s.book_in(0, 1s);
    s.arrive(priority);
    decision d;
    d.allowed = true;
    d.decided_at = s.clock();
    d.delay = 5s;
    s.requests[1]->asked.cool_down_left = 5s;
    s.answer(1, d);
    if (priority == 0) s.leave(0);
    s.told();
    s.book_in(2, 5s);  // for the one whose reservation the cool-down covers
    s.wait(5s - 1us);
    WEIR_TEST_NUMBERS(s.told(), {});
    s.wait(1us);
    BOOST_TEST(!s.waits(1));
    BOOST_TEST(s.queue->is_idle());
  }
}

BOOST_AUTO_TEST_CASE(a_cool_down_beyond_ones_patience_is_a_refusal) {
  queue_stage s({});
  s.arrive(0, 2s);
  s.arrive(0, 20s);
  s.reserve_all();
  s.wait(500ms);
  s.cool_down(3s);
  WEIR_TEST_NUMBERS(s.told(), {0});
  const decision& d = s.answer_of(0);
  BOOST_TEST((!d.allowed && d.cooling_down && d.decided_at == s.clock()));
  BOOST_TEST((d.retry_after >= 1s && d.retry_after <= 1100ms));  // with jitter
  WEIR_TEST_NUMBERS(s.returned(), {0, 1});
  s.book_in(2, 3s);
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// The other took its reservation in exchange for one behind the cool-down, and was refused, too.
BOOST_AUTO_TEST_CASE(a_waiter_that_a_cool_down_refuses_leaves_the_others_their_reservations) {
  queue_stage s({});
  s.arrive(0, 1200ms);
  s.arrive(0, 6s);
  s.reserve_all();
  s.requested();
  s.cool_down(1500ms);
  WEIR_TEST_NUMBERS(s.told(), {0});
  WEIR_TEST_NUMBERS(s.returned(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {});
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// All of them came back in the same microsecond.
BOOST_AUTO_TEST_CASE(those_whom_a_cool_down_refuses_come_again_at_different_times) {
  queue_stage s({});
  for (int i = 0; i < 20; ++i) s.arrive(0, 20s);
  s.reserve_all();
  s.cool_down(1min);
  std::set<std::chrono::microseconds> times;
  for (std::size_t i = 0; i < 20; ++i) {
    BOOST_TEST(s.answer_of(i).cooling_down);
    times.insert(s.answer_of(i).retry_after);
  }
  BOOST_TEST(times.size() > 10u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cool_downs_of_queues_test

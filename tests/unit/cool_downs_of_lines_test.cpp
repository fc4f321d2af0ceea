// A cool-down and the queue of a subject: what becomes of the reservations that it covers.
#include "line_fixture.hpp"
#include "link/admission.hpp"

namespace cool_downs_of_lines_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::test::line_stage;

}  // namespace

BOOST_AUTO_TEST_SUITE(cool_downs_of_lines_suite)

// If all of them went at the end of the cool-down, more would pass than the policy allows.
BOOST_AUTO_TEST_CASE(a_reservation_that_a_new_cool_down_covers_is_requested_anew) {
  line_stage s({});
  for (int i = 0; i < 4; ++i) s.arrive();
  s.reserve_all();
  s.requested();
  s.cool_down(2500ms);
  // The first two take the reservations of the last two, which have to wait longer.
  WEIR_TEST_NUMBERS(s.returned(), {0, 1});
  WEIR_TEST_NUMBERS(s.requested(), {3, 2});
  BOOST_TEST((s.requests[4].max_wait == 10s));
  BOOST_TEST(weir::detail::is_beyond_bound(*s.requests[4].asked));
  BOOST_TEST(!weir::detail::is_beyond_bound(*s.requests[0].asked));
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
  line_stage s({});
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
  line_stage s({});
  s.arrive(0, 2h);
  s.arrive(0, 2h);
  s.book_in(0, 1h);
  s.line->forget_cool_down();
  s.requests[1].cool_down_left = 1h;
  s.book_in(1, 1h);
  s.arrive();
  s.book_in(2, 0us);
  WEIR_TEST_NUMBERS(s.told(), {2});
  BOOST_TEST(s.answer_of(2).allowed);
}

// The answers of one cool-down differ a little, and no waiter asks again for that.
BOOST_AUTO_TEST_CASE(a_cool_down_that_is_named_again_a_little_later_moves_reservations_a_little) {
  line_stage s({});
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
  line_stage s({});
  s.arrive(0, 1h);
  s.requests[0].cool_down_left = 1s;
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
    line_stage s({});
    s.arrive();
    s.book_in(0, 1s);
    s.arrive(priority);
    decision d;
    d.allowed = true;
    d.decided_at = s.clock();
    d.delay = 5s;
    s.requests[1].cool_down_left = 5s;
    s.answer(1, d);
    if (priority == 0) s.leave(0);
    s.told();
    s.book_in(2, 5s);  // for the one whose reservation the cool-down covers
    s.wait(5s - 1us);
    WEIR_TEST_NUMBERS(s.told(), {});
    s.wait(1us);
    BOOST_TEST(!s.waits(1));
    BOOST_TEST(s.line->is_idle());
  }
}

// It was refused without the store, which knows better how much is used and until when.
BOOST_AUTO_TEST_CASE(a_waiter_whose_max_wait_ends_before_a_cool_down_is_refused_by_the_store) {
  line_stage s({});
  s.arrive(0, 2s);
  s.arrive(0, 20s);
  s.reserve_all();
  s.wait(500ms);
  s.requested();
  s.cool_down(3s);
  WEIR_TEST_NUMBERS(s.told(), {});
  WEIR_TEST_NUMBERS(s.returned(), {0, 1});
  WEIR_TEST_NUMBERS(s.requested(), {1, 0});
  s.book_in(2, 3s);
  BOOST_TEST((s.requests[3].max_wait == 1500ms));
  s.refuse(3, 1500ms);
  WEIR_TEST_NUMBERS(s.told(), {0});
  const decision& d = s.answer_of(0);
  BOOST_TEST((!d.allowed && d.decided_at == s.clock()));
  BOOST_TEST((d.retry_after == 1s && d.reset_after == 2500ms));
  s.wait(3s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// The other took its reservation in exchange for one behind the cool-down, and was refused, too.
BOOST_AUTO_TEST_CASE(a_waiter_that_a_cool_down_refuses_leaves_the_others_their_reservations) {
  line_stage s({});
  s.arrive(0, 1200ms);
  s.arrive(0, 6s);
  s.reserve_all();
  s.requested();
  s.cool_down(1500ms);
  WEIR_TEST_NUMBERS(s.returned(), {0});
  WEIR_TEST_NUMBERS(s.requested(), {0});
  s.refuse(2, 300ms);
  WEIR_TEST_NUMBERS(s.told(), {0});
  s.wait(2s);
  WEIR_TEST_NUMBERS(s.told(), {1});
}

// Another process has ended the cool-down, or the reservation is the fallback's, which knows none.
// reset_after was 0.
BOOST_AUTO_TEST_CASE(a_reservation_that_stays_in_a_known_cool_down_is_refused_here) {
  for (const auto by : {weir::source::store, weir::source::fallback}) {
    line_stage s({});
    if (by == weir::source::store) s.cool_down(3s);
    s.arrive(0, 2s);
    decision d;
    d.allowed = true;
    d.source = by;
    d.decided_at = s.clock();
    d.delay = 1s;
    d.reset_after = 5s;
    s.answer(0, d);
    if (by == weir::source::fallback) s.cool_down(3s);
    WEIR_TEST_NUMBERS(s.told(), {0});
    WEIR_TEST_NUMBERS(s.requested(), {0});
    const decision& told = s.answer_of(0);
    BOOST_TEST((!told.allowed && told.cooling_down && told.decided_at == s.clock()));
    BOOST_TEST((told.retry_after >= 1s && told.retry_after <= 1100ms));  // with jitter
    BOOST_TEST((told.reset_after == 5s));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cool_downs_of_lines_test

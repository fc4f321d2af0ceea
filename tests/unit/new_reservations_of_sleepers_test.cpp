// A reservation of acquire_all that a new cool-down covers goes back, and another is requested.
#include <boost/asio/error.hpp>

#include "link/pending.hpp"
#include "sleepers_fixture.hpp"

namespace new_reservations_of_sleepers_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using std::chrono::microseconds;
using weir::error;
using weir::detail::acquire_request;
using weir::detail::as;
using weir::detail::cancel_scope;
using weir::detail::check;
using weir::detail::delivery;
using weir::test::fake_check;

struct fixture : weir::test::sleepers_stage {
  void run_ready() {
    io.restart();
    io.poll();
  }
  void cool_down(microseconds pause) {
    weir::detail::impl_of(*core).queue->cool_down(core, "a", pause);
    sleeping->cool_down_began(*core, "a");
    run_ready();
  }
  /// Answers a request with a reservation.
  void book(std::size_t request, microseconds delay) {
    check& c = *store->requests[request].asked;
    reserve(c, delay);
    c.finish(delivery::post);
    run_ready();
  }
  /// Refuses the first request, which carried that max_wait.
  void refuse(microseconds max_wait, microseconds retry_after, weir::source by) {
    check& c = *store->requests[0].asked;
    as<acquire_request>(c).max_wait = max_wait;
    c.answer.source = by;
    c.answer.retry_after = retry_after;
    c.finish(delivery::post);
    weir::test::run_out(io);
  }
  void answer(std::size_t request, weir::error_code ec) {
    check& c = *store->requests[request].asked;
    c.ec = ec;
    c.finish(delivery::post);
    run_ready();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(new_reservations_of_sleepers_suite, fixture)

// All of them went at the end of the cool-down, which was more than the policy allows.
BOOST_AUTO_TEST_CASE(the_old_reservations_go_back_before_new_ones_are_requested) {
  fake_check& first = with_reservation_in(10min, 3h);
  fake_check& behind = with_reservation_in(2h, 5h);
  cool_down(1h);
  // That of `behind` as well, though it lies behind the cool-down: `first` would lose its place.
  BOOST_TEST_REQUIRE(store->requests.size() == 2u);
  BOOST_TEST(store->requests[0].returned_before == 2);
  const microseconds left = as<acquire_request>(*store->requests[0].asked).max_wait;
  BOOST_TEST((left > 170min && left <= 3h));
  BOOST_TEST((as<acquire_request>(*store->requests[1].asked).max_wait > 4h));

  book(0, 90min);
  book(1, 3h);
  BOOST_TEST((first.answer.delay == 90min));
  BOOST_TEST((behind.answer.delay == 3h));
  for (fake_check& c : checks) sleeping->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 4);
}

// The store's answers about one cool-down differ a little, and another process may have ended it.
// The reservation of the one behind was replaced, and its time stayed empty.
BOOST_AUTO_TEST_CASE(one_that_the_cool_down_outlasts_leaves_those_behind_it_their_reservations) {
  fake_check& first = with_reservation_in(10min, 20min);
  fake_check& behind = with_reservation_in(2h, 5h);
  cool_down(1h);
  BOOST_TEST_REQUIRE(store->requests.size() == 1u);
  BOOST_TEST(store->returned == 1);
  store->requests[0].asked->finish(delivery::post);  // the store refuses it
  run_ready();
  BOOST_TEST((first.finished == 1 && !first.answer.allowed));
  BOOST_TEST(behind.finished == 0);
  sleeping->cancel(behind, cancel_scope::any);
  weir::test::run_out(io);
}

BOOST_AUTO_TEST_CASE(nobody_asks_again_for_a_cool_down_that_the_request_knew) {
  fake_check& c = with_reservation_in(1us, 3h);
  cool_down(1h);
  BOOST_TEST_REQUIRE(store->requests.size() == 1u);
  book(0, 1us);
  cool_down(1h + 50ms);
  BOOST_TEST(store->requests.size() == 1u);
  BOOST_TEST(c.finished == 0);
  sleeping->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
}

BOOST_AUTO_TEST_CASE(a_reservation_whose_answer_named_the_cool_down_waits_for_its_end) {
  fake_check& c = with_reservation_in(1us, 3h, 1h);
  cool_down(1h + 50ms);
  BOOST_TEST(store->requests.empty());
  BOOST_TEST(c.finished == 0);
  sleeping->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
}

BOOST_AUTO_TEST_CASE(a_longer_cool_down_replaces_the_new_reservation_too) {
  with_reservation_in(1h, 9h);
  cool_down(2h);
  book(0, 2h);
  cool_down(3h);
  BOOST_TEST_REQUIRE(store->requests.size() == 2u);
  BOOST_TEST(store->requests[1].returned_before == 2);
  answer(1, error::no_reply);
  weir::test::run_out(io);
  BOOST_TEST(checks[0].finished == 1);
}

BOOST_AUTO_TEST_CASE(who_is_cancelled_meanwhile_is_told_at_once_and_the_new_reservation_goes_back) {
  fake_check& c = with_reservation_in(1h, 9h);
  cool_down(2h);
  sleeping->cancel(c, cancel_scope::only_unsent);
  run_ready();
  BOOST_TEST(c.finished == 0);
  sleeping->cancel(c, cancel_scope::any);
  run_ready();
  BOOST_TEST(c.finished == 1);
  WEIR_TEST_ERROR(c.ec, asio::error::operation_aborted);
  BOOST_TEST(store->returned == 1);
  book(0, 2h);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 2);
}

BOOST_AUTO_TEST_CASE(who_is_cancelled_before_the_request_has_left_asks_for_nothing) {
  fake_check& c = with_reservation_in(1h, 9h);
  weir::detail::impl_of(*core).queue->cool_down(core, "a", 2h);
  sleeping->cool_down_began(*core, "a");
  sleeping->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
  BOOST_TEST(c.finished == 1);
  BOOST_TEST(store->returned == 1);
  BOOST_TEST(store->requests.empty());
}

BOOST_AUTO_TEST_CASE(a_failed_request_ends_the_call_with_its_error) {
  fake_check& c = with_reservation_in(1h, 9h);
  cool_down(2h);
  answer(0, error::no_reply);
  weir::test::run_out(io);
  BOOST_TEST(c.finished == 1);
  WEIR_TEST_ERROR(c.ec, error::no_reply);
  BOOST_TEST(store->returned == 1);
}

// The request carried what was left of max_wait, and the next call carries all of it.
BOOST_AUTO_TEST_CASE(a_refusal_takes_the_spent_part_of_max_wait_off_retry_after) {
  fake_check& c = with_reservation_in(1h, 9h);
  cool_down(2h);
  refuse(7h, 150min, weir::source::store);
  BOOST_TEST(c.finished == 1);
  BOOST_TEST((!c.answer.allowed && c.answer.retry_after == 30min));
}

// It was a microsecond: the caller came back at once to a store that was down.
BOOST_AUTO_TEST_CASE(a_refusal_by_a_failure_policy_keeps_its_retry_after) {
  fake_check& c = with_reservation_in(1h, 9h);
  cool_down(2h);
  refuse(7h, 1s, weir::source::fallback);
  BOOST_TEST(c.finished == 1);
  BOOST_TEST((!c.answer.allowed && c.answer.retry_after == 1s));
}

// Each request took a 64th off max_wait, until the caller was refused.
BOOST_AUTO_TEST_CASE(max_wait_does_not_shrink_with_each_new_reservation) {
  fake_check& c = with_reservation_in(1h, 64h);
  for (std::size_t i = 0; i < 70; ++i) {
    cool_down(2h + i * 1s);
    BOOST_TEST_REQUIRE(store->requests.size() == i + 1);
    BOOST_TEST((as<acquire_request>(*store->requests[i].asked).max_wait >= 62h));
    book(i, 2h);
  }
  sleeping->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
}

// Callers that wait for the end of one cool-down have one due time, which says nothing of order.
BOOST_AUTO_TEST_CASE(a_second_cool_down_keeps_the_order_of_those_who_wait_for_the_first_to_end) {
  sleeping = std::make_shared<weir::waiting::sleepers>(io.get_executor(), 100);
  for (int i = 0; i < 40; ++i) {
    with_reservation_in(1h + i * 1ms, 9h + i * 1h, 1h);
  }
  cool_down(1h + 80ms);
  BOOST_TEST(store->requests.empty());
  cool_down(2h);
  BOOST_TEST_REQUIRE(store->requests.size() == 40u);
  for (std::size_t i = 1; i < 40; ++i) {
    BOOST_TEST((as<acquire_request>(*store->requests[i].asked).max_wait >
                as<acquire_request>(*store->requests[i - 1].asked).max_wait));
  }
  for (std::size_t i = 0; i < 40; ++i) answer(i, error::no_reply);
  weir::test::run_out(io);
}

// As many as the store may have pending, and more, sleep; all of them failed with `overloaded`.
BOOST_AUTO_TEST_CASE(the_bound_of_pending_calls_does_not_concern_them) {
  with_reservation_in(1h, 9h);
  cool_down(2h);
  BOOST_TEST(weir::detail::is_beyond_bound(*store->requests[0].asked));
  BOOST_TEST(!weir::detail::is_beyond_bound(checks[0]));
  answer(0, error::no_reply);
  weir::test::run_out(io);
}

// It could be settled, though all of it had gone back.
BOOST_AUTO_TEST_CASE(who_is_cancelled_meanwhile_has_nothing_to_settle) {
  fake_check& c = with_reservation_in(1h, 9h);
  cool_down(2h);
  sleeping->cancel(c, cancel_scope::any);
  run_ready();
  BOOST_TEST(c.answer.receipt.id == 0u);
  answer(0, error::no_reply);
}

BOOST_AUTO_TEST_CASE(a_closing_store_is_kept_until_the_new_reservations_are_given_back) {
  for (const bool has_left : {false, true}) {
    const int before = store->returned;
    fake_check& c = with_reservation_in(1h, 9h);
    cool_down(2h + (has_left ? 2h : 0h));
    const auto request = store->requests.size() - 1;
    if (has_left) sleeping->cancel(c, cancel_scope::any);
    int returned_at_stop = -1;
    sleeping->close({nullptr, [&](void*) { returned_at_stop = store->returned; }});
    run_ready();
    BOOST_TEST(returned_at_stop == -1);
    BOOST_TEST(c.finished == (has_left ? 1 : 0));
    book(request, 2h);
    BOOST_TEST(returned_at_stop == before + 2);
    BOOST_TEST(c.finished == 1);
    if (!has_left) WEIR_TEST_ERROR(c.ec, error::store_closed);
    sleeping = std::make_shared<weir::waiting::sleepers>(io.get_executor(), 2);
  }
}

// It stopped while another thread was sending what goes back, and so lost the last reservation.
BOOST_AUTO_TEST_CASE(a_closing_store_is_kept_until_another_thread_has_given_all_back) {
  for (int i = 0; i < 2; ++i) with_reservation_in(1h, 9h);
  for (fake_check& c : checks) sleeping->cancel(c, cancel_scope::any);
  int returned_at_stop = -1;
  store->meanwhile = [&] {
    sleeping->close({nullptr, [&](void*) { returned_at_stop = store->returned; }});
  };
  run_ready();
  BOOST_TEST(returned_at_stop == 2);
}

// The store drops its checks before it tells the sleepers. They wrote into the freed request.
BOOST_AUTO_TEST_CASE(the_store_may_drop_a_request_before_the_caller_is_dropped) {
  fake_check& c = with_reservation_in(1h, 9h);
  cool_down(2h);
  store->requests[0].asked->finish(delivery::discard);
  sleeping->context_shut_down();
  BOOST_TEST(c.finished == 1);
}

BOOST_AUTO_TEST_CASE(a_caller_that_waits_for_a_new_reservation_is_dropped_when_the_context_ends) {
  for (const bool was_sent : {false, true}) {
    fake_check& c = with_reservation_in(1h, 9h);
    weir::detail::impl_of(*core).queue->cool_down(core, "a", was_sent ? 4h : 2h);
    sleeping->cool_down_began(*core, "a");
    if (was_sent) run_ready();
    sleeping->context_shut_down();
    BOOST_TEST(c.finished == 1);
    for (const auto& r : store->requests) r.asked->finish(delivery::discard);
    store->requests.clear();
    BOOST_TEST(c.finished == 1);
    run_ready();
    for (const auto& r : store->requests) r.asked->finish(delivery::discard);
    sleeping = std::make_shared<weir::waiting::sleepers>(io.get_executor(), 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace new_reservations_of_sleepers_test

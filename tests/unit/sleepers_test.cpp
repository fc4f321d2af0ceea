// Checks of acquire_all sleep until their reservations are due.
#include "sleepers_fixture.hpp"

#include <boost/asio/error.hpp>

namespace sleepers_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::error;
using weir::detail::cancel_scope;
using weir::test::fake_check;

struct fixture : weir::test::sleepers_stage {
  void cancel_all() {
    for (fake_check& c : checks) sleeping->cancel(c, cancel_scope::any);
    weir::test::run_out(io);
  }
  /// Answers a request with a reservation.
  void answer(std::size_t request, std::chrono::microseconds delay) {
    weir::detail::check& c = *store->requests[request].asked;
    reserve(c, delay);
    c.finish(weir::detail::delivery::post);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sleepers_suite, fixture)

BOOST_AUTO_TEST_CASE(each_sleeper_ends_once_when_its_reservation_is_due) {
  fake_check& later = with_reservation_in(20ms);
  fake_check& sooner = with_reservation_in(1us);
  weir::test::run_until(io, [&] { return sooner.finished == 1; });
  BOOST_TEST(later.finished == 0);
  weir::test::run_out(io);
  BOOST_TEST(later.finished == 1);
  BOOST_TEST(sooner.finished == 1);
  BOOST_TEST((!later.ec && !sooner.ec));
  BOOST_TEST(store->returned == 0);
}

// The timer went on, and run() did not return until the reservation was due.
BOOST_AUTO_TEST_CASE(nothing_is_left_to_do_when_the_last_sleeper_is_cancelled) {
  fake_check& first = with_reservation_in(24h);
  fake_check& second = with_reservation_in(25h);
  sleeping->cancel(first, cancel_scope::only_unsent);  // it has its reservation
  sleeping->cancel(first, cancel_scope::any);
  sleeping->cancel(second, cancel_scope::any);
  weir::test::run_out(io);
  for (const fake_check& c : checks) {
    WEIR_TEST_ERROR(c.ec, asio::error::operation_aborted);
    BOOST_TEST(c.finished == 1);
  }
  BOOST_TEST(store->returned == 2);

  fake_check& third = with_reservation_in(1us);
  weir::test::run_out(io);
  BOOST_TEST((third.finished == 1 && !third.ec));
}

BOOST_AUTO_TEST_CASE(a_check_cancelled_before_the_answer_gives_its_reservation_back) {
  fake_check& c = arrive(24h);
  sleeping->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
  BOOST_TEST(c.finished == 1);
  WEIR_TEST_ERROR(c.ec, asio::error::operation_aborted);
  answer(0, 1h);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 1);
}

// When the first went back while the second was not there yet, it stayed counted.
BOOST_AUTO_TEST_CASE(what_cancelled_checks_hold_goes_back_when_no_answer_is_due) {
  fake_check& first = with_reservation_in(1h);
  fake_check& second = arrive(24h);
  cancel_all();
  BOOST_TEST((first.finished == 1 && second.finished == 1));
  BOOST_TEST(store->returned == 0);
  answer(0, 2h);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 2);
}

BOOST_AUTO_TEST_CASE(what_cancelled_checks_hold_goes_back_before_a_new_request) {
  fake_check& first = with_reservation_in(1h);
  arrive(24h);
  sleeping->cancel(first, cancel_scope::any);
  arrive(24h);
  BOOST_TEST(store->requests.size() == 1u);
  weir::test::run_out(io);
  BOOST_TEST_REQUIRE(store->requests.size() == 2u);
  BOOST_TEST(store->requests[1].returned_before == 1);
  for (const std::size_t i : {0u, 1u}) answer(i, 0s);
}

// In a cluster, the other answer may come from a node that is silent. It held all of them back.
BOOST_AUTO_TEST_CASE(an_answer_that_is_due_elsewhere_holds_nothing_back) {
  with_reservation_in(1h);
  arrive(24h, "b");
  cancel_all();
  BOOST_TEST(store->returned == 1);
  answer(0, 0s);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 2);
}

BOOST_AUTO_TEST_CASE(a_closing_store_gets_back_at_once_what_no_answer_concerns) {
  fake_check& here = with_reservation_in(1h);
  fake_check& elsewhere = arrive(24h, "b");
  bool is_kept = true;
  sleeping->close({nullptr, [&](void*) { is_kept = false; }});
  weir::test::run_out(io);
  BOOST_TEST((store->returned == 1 && is_kept));
  BOOST_TEST((here.finished == 1 && elsewhere.finished == 0));
  answer(0, 1h);
  weir::test::run_out(io);
  BOOST_TEST((store->returned == 2 && !is_kept));
  BOOST_TEST(elsewhere.finished == 1);
}

BOOST_AUTO_TEST_CASE(no_more_than_the_allowed_number_wait) {
  with_reservation_in(24h);
  fake_check& second = with_reservation_in(24h);
  fake_check& third = arrive();
  weir::test::run_until(io, [&] { return third.finished == 1; });
  WEIR_TEST_ERROR(third.ec, error::overloaded);
  BOOST_TEST(store->requests.empty());
  sleeping->cancel(second, cancel_scope::any);
  fake_check& fourth = with_reservation_in(1us);
  weir::test::run_until(io, [&] { return fourth.finished == 1; });
  BOOST_TEST(!fourth.ec);
  with_reservation_in(24h);
  BOOST_TEST(store->returned == 1);
  for (fake_check& c : checks) {
    if (c.finished == 0) sleeping->cancel(c, cancel_scope::any);
  }
}

// The caller started requests as long as other threads brought some.
BOOST_AUTO_TEST_CASE(no_caller_is_kept_starting_what_others_keep_bringing) {
  sleeping = std::make_shared<weir::waiting::sleepers>(io.get_executor());
  store->on_request = [&] {
    if (checks.size() < 1000) arrive();
  };
  arrive();
  BOOST_TEST(store->requests.size() < 100);
  weir::test::run_out(io);
  BOOST_TEST(store->requests.size() == 1000);
  for (std::size_t i = 0; i < store->requests.size(); ++i) answer(i, 0us);
  weir::test::run_out(io);
  for (const fake_check& c : checks) BOOST_TEST((c.finished == 1 && !c.ec));
}

BOOST_AUTO_TEST_CASE(a_sleeper_is_dropped_when_the_context_ends) {
  fake_check& c = with_reservation_in(24h);
  BOOST_TEST(c.finished == 0);
  sleeping->context_shut_down();  // as its store does
  BOOST_TEST(c.finished == 1);
  fake_check& late = arrive();
  BOOST_TEST(late.finished == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sleepers_test

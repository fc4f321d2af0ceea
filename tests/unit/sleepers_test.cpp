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
using weir::waiting::sleepers;

using fixture = weir::test::sleepers_stage;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sleepers_suite, fixture)

BOOST_AUTO_TEST_CASE(each_sleeper_ends_once_when_its_reservation_is_due) {
  fake_check& later = with_reservation_in(20ms);
  fake_check& sooner = with_reservation_in(1us);
  BOOST_TEST(sleeping->add(later));
  BOOST_TEST(sleeping->add(sooner));
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
  sleeping->add(first);
  sleeping->add(second);
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
  sleeping->add(third);
  weir::test::run_out(io);
  BOOST_TEST((third.finished == 1 && !third.ec));
}

BOOST_AUTO_TEST_CASE(a_check_cancelled_before_it_is_added_gives_its_reservation_back) {
  fake_check& c = with_reservation_in(24h);
  sleeping->cancel(c, cancel_scope::any);
  BOOST_TEST(!sleeping->add(c));
  WEIR_TEST_ERROR(c.ec, asio::error::operation_aborted);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 1);
}

BOOST_AUTO_TEST_CASE(no_more_than_the_allowed_number_sleep) {
  sleeping->add(with_reservation_in(24h));
  fake_check& second = with_reservation_in(24h);
  sleeping->add(second);
  fake_check& third = with_reservation_in(24h);
  BOOST_TEST(!sleeping->add(third));
  WEIR_TEST_ERROR(third.ec, error::overloaded);
  sleeping->cancel(second, cancel_scope::any);
  fake_check& fourth = with_reservation_in(1us);
  BOOST_TEST(sleeping->add(fourth));
  weir::test::run_until(io, [&] { return fourth.finished == 1; });
  BOOST_TEST(sleeping->add(with_reservation_in(24h)));
  BOOST_TEST(store->returned == 2);
  for (fake_check& c : checks) {
    if (c.finished == 0) sleeping->cancel(c, cancel_scope::any);
  }
}

// retry_after was the rest of the cool-down, though the same call would be accepted max_wait before
// its end.
BOOST_AUTO_TEST_CASE(a_refusal_in_a_cool_down_takes_max_wait_off_retry_after) {
  fake_check& c = with_reservation_in(1us, 30min);
  BOOST_TEST(sleeping->add(c));
  weir::detail::impl_of(*core).queue->cool_down(core, "a", 1h);
  weir::test::run_until(io, [&] { return c.finished == 1; });
  BOOST_TEST((!c.answer.allowed && c.answer.cooling_down));
  BOOST_TEST((c.answer.retry_after > 0us && c.answer.retry_after <= 30min + 1s));
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 1);
}

BOOST_AUTO_TEST_CASE(a_sleeper_is_dropped_when_the_context_ends) {
  fake_check& c = with_reservation_in(24h);
  {
    asio::io_context other;
    const auto there = std::make_shared<sleepers>(other.get_executor());
    BOOST_TEST(there->add(c));
    BOOST_TEST(c.finished == 0);
    there->context_shut_down();  // as its store does
    BOOST_TEST(c.finished == 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sleepers_test

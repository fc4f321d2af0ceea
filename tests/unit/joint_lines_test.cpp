// The lines of acquire_all: what a waiting_room does for lists of claims. What a line does by
// itself is tested for acquire: unit.waiter_line and the like.
#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "check/give_back.hpp"
#include "limiter/limiter_impl.hpp"
#include "link/admission.hpp"
#include "support/fake_check.hpp"
#include "support/run.hpp"
#include "waiting/waiting_room.hpp"

namespace joint_lines_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using std::chrono::microseconds;
using weir::error;
using weir::detail::acquire_request;
using weir::detail::as;
using weir::detail::cancel_scope;
using weir::detail::check;
using weir::detail::check_kind;
using weir::detail::delivery;
using weir::test::fake_check;

/// Counts the reservations that come back, and keeps requests for reservations, which the test
/// answers.
class counting_store final : public weir::detail::store_backend {
 public:
  struct request {
    check* asked;
    int returned_before;  // how many reservations had come back
  };

  explicit counting_store(asio::io_context& io) : store_backend(io.get_executor()) {}
  void start(check& c) override {
    if (c.kind == check_kind::acquire) return requests.push_back({&c, returned});
    returned += c.traits.gives_back;
    if (const auto act = std::exchange(meanwhile, nullptr)) act();
    c.finish(delivery::discard);
  }
  /// All checks have been sent.
  void cancel(check& c, cancel_scope scope) override {
    if (scope == cancel_scope::only_unsent) return;
    const auto its = std::ranges::find(requests, &c, &request::asked);
    its->asked = &weir::detail::stand_in_for(c);
    c.flight.left_stand_in = true;
    c.ec = asio::error::operation_aborted;
    on_end(c);
  }
  void close() override {}
  std::string_view key_prefix() const noexcept override { return "weir"; }

  int returned = 0;
  std::vector<request> requests;
  std::function<void(check&)> on_end;
  std::function<void()> meanwhile;  // what another thread does while the next reservation goes back
};

struct fixture {
  asio::io_context io;
  std::shared_ptr<counting_store> store = std::make_shared<counting_store>(io);
  weir::test::core_ptr a = limiter("a"), b = limiter("b");
  weir::waiting::line_rules rules{
      .max_waiting = 2, .overflow = weir::on_overflow::refuse_new, .priority_aging = 1s};
  std::unique_ptr<weir::waiting::waiting_room>
      room = std::make_unique<weir::waiting::waiting_room>();
  std::deque<fake_check> checks;

  fixture() {
    store->on_end = [this](check& c) {
      c.flight.stage = weir::detail::check_stage::done;
      if (!room->takes(c, rules)) c.finish(delivery::post);
    };
  }
  ~fixture() {
    room->context_shut_down();
    for (const auto& r : store->requests) {
      if (r.asked != nullptr) r.asked->finish(delivery::discard);
    }
    io.restart();
    io.poll();
  }
  weir::test::core_ptr limiter(const char* name) {
    return std::make_shared<weir::detail::limiter_impl>(
        store, name, weir::tiers(weir::token_bucket{9, weir::per_second(1)}),
        weir::limiter_options{.group = "g", .cool_downs = true});
  }
  void run_ready() {
    io.restart();
    io.poll();
  }
  /// A caller of acquire_all(a.on(subject), b.on(subject, cost)).
  fake_check& arrive(const char* subject = "s", std::int64_t cost = 1) {
    std::vector<weir::detail::term> further;
    further.push_back({b, weir::detail::short_text(subject), cost});
    fake_check& c = checks.emplace_back(a, subject, 1, check_kind::acquire, microseconds{0},
                                        std::move(further));
    as<acquire_request>(c.check()).max_wait = 24h;
    room->arrive(c, rules);
    return c;
  }
  /// Answers a request with a reservation.
  void answer(std::size_t request, microseconds delay) {
    check& c = *std::exchange(store->requests[request].asked, nullptr);
    c.answer.allowed = true;
    c.answer.decided_at = weir::time_point(1'000'000s);
    c.answer.delay = delay;
    store->on_end(c);
    run_ready();
  }
  fake_check& with_reservation_in(microseconds delay, const char* subject = "s") {
    const std::size_t before = store->requests.size();
    fake_check& c = arrive(subject);
    // The request may wait until reservations have gone back.
    if (store->requests.size() == before) run_ready();
    BOOST_TEST_REQUIRE(store->requests.size() == before + 1);
    answer(before, delay);
    store->requests.pop_back();
    return c;
  }
  void cancel_all() {
    for (fake_check& c : checks) room->cancel(c, cancel_scope::any);
    run_ready();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(joint_lines_suite, fixture)

BOOST_AUTO_TEST_CASE(each_caller_ends_once_when_its_reservation_is_due) {
  fake_check& later = with_reservation_in(20ms);
  fake_check& sooner = with_reservation_in(1us, "other");
  weir::test::run_until(io, [&] { return sooner.finished == 1; });
  BOOST_TEST(later.finished == 0);
  weir::test::run_out(io);
  BOOST_TEST(later.finished == 1);
  BOOST_TEST(sooner.finished == 1);
  BOOST_TEST((!later.ec && !sooner.ec));
  BOOST_TEST(store->returned == 0);
  BOOST_TEST(room->lines() == 0u);
}

// Their units are not the same: reservations of other costs cannot be exchanged.
BOOST_AUTO_TEST_CASE(claims_of_other_costs_wait_in_a_line_of_their_own) {
  for (const std::int64_t cost : {1, 2, 2}) arrive("s", cost);
  BOOST_TEST(room->lines() == 2u);
  for (std::size_t i = 0; i < 3; ++i) answer(i, 1h);
  cancel_all();
  BOOST_TEST(store->returned == 3);
}

// The timer went on, and run() did not return until the reservation was due.
BOOST_AUTO_TEST_CASE(nothing_is_left_to_do_when_the_last_caller_is_cancelled) {
  fake_check& first = with_reservation_in(10h);
  fake_check& second = with_reservation_in(11h);
  room->cancel(first, cancel_scope::only_unsent);  // it has its reservation
  room->cancel(first, cancel_scope::any);
  room->cancel(second, cancel_scope::any);
  weir::test::run_out(io);
  for (const fake_check& c : checks) {
    WEIR_TEST_ERROR(c.ec, asio::error::operation_aborted);
    BOOST_TEST(c.finished == 1);
  }
  BOOST_TEST(store->returned == 2);
}

BOOST_AUTO_TEST_CASE(a_check_cancelled_before_the_answer_gives_its_reservation_back) {
  fake_check& c = arrive();
  room->cancel(c, cancel_scope::any);
  weir::test::run_out(io);
  BOOST_TEST(c.finished == 1);
  answer(0, 1h);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 1);
}

// When the first went back while the second was not there yet, it stayed counted.
BOOST_AUTO_TEST_CASE(what_cancelled_checks_hold_goes_back_when_no_answer_is_due) {
  with_reservation_in(1h);
  arrive();
  cancel_all();
  BOOST_TEST(store->returned == 0);
  answer(0, 2h);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 2);
}

// In a cluster, the other answer may come from a node that is silent. It held all of them back.
BOOST_AUTO_TEST_CASE(an_answer_that_is_due_elsewhere_holds_nothing_back) {
  with_reservation_in(1h);
  arrive("other");
  cancel_all();
  BOOST_TEST(store->returned == 1);
  answer(0, 0s);
  weir::test::run_out(io);
  BOOST_TEST(store->returned == 2);
}

BOOST_AUTO_TEST_CASE(a_closing_store_gets_back_at_once_what_no_answer_concerns) {
  fake_check& here = with_reservation_in(1h);
  fake_check& elsewhere = arrive("other");
  bool is_kept = true;
  room->close({nullptr, [&](void*) { is_kept = false; }});
  run_ready();
  BOOST_TEST((store->returned == 1 && is_kept));
  BOOST_TEST((here.finished == 1 && elsewhere.finished == 0));
  answer(0, 1h);
  run_ready();
  BOOST_TEST((store->returned == 2 && !is_kept));
  BOOST_TEST(elsewhere.finished == 1);
  for (const fake_check& c : checks) WEIR_TEST_ERROR(c.ec, error::store_closed);
}

// It stopped while another thread was sending what goes back, and so lost the last reservation.
BOOST_AUTO_TEST_CASE(a_closing_store_is_kept_until_another_thread_has_given_all_back) {
  for (int i = 0; i < 2; ++i) with_reservation_in(1h);
  for (fake_check& c : checks) room->cancel(c, cancel_scope::any);
  int returned_at_stop = -1;
  store->meanwhile = [&] {
    room->close({nullptr, [&](void*) { returned_at_stop = store->returned; }});
  };
  run_ready();
  BOOST_TEST(returned_at_stop == 2);
}

BOOST_AUTO_TEST_CASE(no_more_than_the_first_limiter_allows_wait_in_a_line) {
  with_reservation_in(23h);
  fake_check& second = with_reservation_in(23h);
  fake_check& third = arrive();
  run_ready();
  BOOST_TEST(third.finished == 1);
  WEIR_TEST_ERROR(third.ec, error::overloaded);
  fake_check& elsewhere = arrive("other");
  BOOST_TEST(elsewhere.finished == 0);
  room->cancel(second, cancel_scope::any);
  fake_check& fourth = arrive();  // takes the reservation that goes back, or gets another
  run_ready();
  BOOST_TEST(fourth.finished == 0);
  cancel_all();
}

BOOST_AUTO_TEST_CASE(a_cool_down_of_any_limiter_replaces_the_reservations_in_it) {
  for (const auto& cooled : {a, b}) {
    BOOST_TEST_REQUIRE(std::ranges::all_of(store->requests, [](auto& r) { return !r.asked; }));
    store->requests.clear();
    const int before = store->returned;
    fake_check& c = with_reservation_in(1h);
    fake_check& elsewhere = with_reservation_in(1h, "other");
    room->cool_down(cooled, "s", 2h);
    run_ready();
    BOOST_TEST_REQUIRE(store->requests.size() == 1u);
    BOOST_TEST(store->requests[0].returned_before == before + 1);
    // As many as the store may have pending, and more, wait; all of them failed with `overloaded`.
    BOOST_TEST(weir::detail::is_beyond_bound(*store->requests[0].asked));
    answer(0, 2h);
    BOOST_TEST((c.finished == 0 && elsewhere.finished == 0));
    cancel_all();
    BOOST_TEST(store->returned == before + 3);
  }
}

BOOST_AUTO_TEST_CASE(a_cool_down_that_a_reset_has_ended_concerns_no_later_call) {
  fake_check& old = with_reservation_in(1h);
  room->cool_down(a, "s", 10h);
  run_ready();
  room->forget_cool_down(a, "s");
  answer(0, 10h);
  store->requests.clear();
  fake_check& later = with_reservation_in(2h);
  BOOST_TEST(store->requests.empty());
  BOOST_TEST((old.finished == 0 && later.finished == 0));
  room->context_shut_down();
}

BOOST_AUTO_TEST_CASE(a_caller_is_dropped_when_the_context_ends) {
  fake_check& c = with_reservation_in(23h);
  fake_check& pending = arrive("other");
  BOOST_TEST(c.finished == 0);
  room->context_shut_down();                               // as its store does
  BOOST_TEST((c.finished == 1 && pending.finished == 0));  // the store drops what it has
  fake_check& late = arrive();
  BOOST_TEST(late.finished == 1);
  BOOST_TEST(room->lines() == 0u);
}

// The store drops its checks before it tells the room. The room wrote into the freed one.
BOOST_AUTO_TEST_CASE(the_store_may_drop_a_check_that_asks_again_before_the_room_ends) {
  fake_check& c = with_reservation_in(1h);
  room->cool_down(a, "s", 2h);
  run_ready();
  BOOST_TEST_REQUIRE(store->requests.size() == 1u);
  std::exchange(store->requests[0].asked, nullptr)->finish(delivery::discard);
  room->context_shut_down();
  BOOST_TEST(c.finished == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace joint_lines_test

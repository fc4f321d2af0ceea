// A cool-down that begins while acquire_all() waits.
#include <boost/test/unit_test.hpp>
#include <set>

#include "support/limiter_fixture.hpp"
#include "weir/weir.hpp"

namespace joint_cool_downs_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using weir::decision;
using weir::limiter;
using weir::test::crowd;

struct fixture : weir::test::limiter_fixture {
  microseconds now = 1'000'000s;
  weir::store store = weir::make_memory_store(io.get_executor(),
                                              {.clock = [this] { return weir::time_point(now); }});
  const weir::limiter_options options{.group = "g", .cool_downs = true, .max_cool_down = 24h * 31};
  const weir::token_bucket one_a_day{.capacity = 1, .refill = {1, 24h}};
  const limiter a{store, "a", one_a_day, options};
  const limiter b{store, "b", one_a_day, options};

  decision record(const limiter& l) {
    return answer([&](auto handler) { l.record("s", handler); });
  }
  /// A reservation in a day, by a caller that waits so long.
  void acquire_both(microseconds max_wait, crowd& c) {
    weir::acquire_all(a.on("s"), b.on("s"), {.max_wait = max_wait}, c.caller());
    run_ready();
    BOOST_TEST(c.answered() == 0u);
  }
  void cool_down(const limiter& l, microseconds pause) {
    answer([&](auto handler) { l.cool_down("s", pause, handler); });
    run_ready();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(joint_cool_downs_suite, fixture)

// It was told only when its reservation was due, which then could not be given back.
BOOST_AUTO_TEST_CASE(acquire_all_is_refused_at_once_when_a_longer_cool_down_begins) {
  for (const limiter* cooled : {&a, &b}) {
    record(a);
    record(b);
    crowd patient, impatient;
    acquire_both(24h, impatient);
    // Its reservation is the second one, in two days.
    acquire_both(24h * 20, patient);
    cool_down(*cooled, 72h);
    BOOST_TEST_REQUIRE(impatient.answered() == 1u);
    const decision& d = impatient[0].d;
    BOOST_TEST((!d.allowed && d.cooling_down));
    BOOST_TEST((d.retry_after > 0s && d.retry_after <= 48h + 1s));
    BOOST_TEST(
        (d.decided_at >= weir::time_point(now) && d.decided_at < weir::time_point(now + 24h)));
    BOOST_TEST(patient.answered() == 0u);
    for (const limiter* l : {&a, &b}) answer([&](auto handler) { l->reset("s", handler); });
  }
}

BOOST_AUTO_TEST_CASE(acquire_all_is_told_of_a_longer_cool_down_and_of_no_shorter_one) {
  record(a);
  record(b);
  crowd c;
  acquire_both(60h, c);
  cool_down(a, 12h);  // before the reservation
  cool_down(a, 48h);  // postpones it
  BOOST_TEST(c.answered() == 0u);
  cool_down(a, 72h);
  BOOST_TEST(c.refused() == 1u);
}

// Each step alone was too small to be news. The waiter went inside the cool-down.
BOOST_AUTO_TEST_CASE(acquire_all_is_told_of_a_cool_down_that_grows_in_small_steps) {
  record(a);
  record(b);
  crowd c;
  acquire_both(24h, c);
  for (int i = 0; i < 20; ++i) cool_down(b, 24h - 900ms + i * 90ms);
  BOOST_TEST_REQUIRE(c.answered() == 1u);
  BOOST_TEST(c.refused() == 1u);
}

// The line had learnt of it from its own answer, and the limiter had no waiters to be told by.
BOOST_AUTO_TEST_CASE(a_reset_ends_a_cool_down_that_another_limiter_began) {
  const limiter other{store, "a", one_a_day, options};
  cool_down(other, 48h);
  crowd old, later;
  acquire_both(72h, old);
  for (const limiter* l : {&a, &b}) {
    answer([&](auto handler) {
      l->reset("s", [handler](weir::error_code ec) mutable { handler(ec, decision{}); });
    });
  }
  weir::acquire_all(a.on("s"), b.on("s"), {.max_wait = 1s}, later.caller());
  run_ready();
  BOOST_TEST(old.answered() == 0u);
  BOOST_TEST_REQUIRE(later.answered() == 1u);
  BOOST_TEST(later.allowed() == 1u);
}

// All of them came back in the same microsecond.
BOOST_AUTO_TEST_CASE(those_whom_a_cool_down_refuses_come_again_at_different_times) {
  record(a);
  record(b);
  crowd c;
  for (int i = 0; i < 10; ++i) acquire_both(24h * 20, c);
  cool_down(a, 24h * 30);
  BOOST_TEST_REQUIRE(c.refused() == 10u);
  std::set<microseconds> times;
  for (const auto& one : c) times.insert(one.d.retry_after);
  BOOST_TEST(times.size() > 5u);
}

BOOST_AUTO_TEST_CASE(a_reservation_that_a_cool_down_refuses_is_given_back) {
  record(a);
  record(b);
  crowd c;
  acquire_both(24h, c);
  cool_down(a, 72h);
  BOOST_TEST_REQUIRE(c.refused() == 1u);
  now += 24h;
  BOOST_TEST(record(b).allowed);  // the reserved unit
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace joint_cool_downs_test

// A reset ends a cool-down also for the calls that wait in this process: acquire() and
// acquire_all().
#include <boost/test/unit_test.hpp>

#include "support/limiter_fixture.hpp"
#include "weir/weir.hpp"

namespace ended_cool_downs_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using weir::limiter;
using weir::test::crowd;

const weir::limiter_options options{.group = "g", .cool_downs = true, .max_cool_down = 24h * 31};

struct fixture : weir::test::limiter_fixture {
  microseconds now = 1'000'000s;
  weir::store store = weir::make_memory_store(io.get_executor(),
                                              {.clock = [this] { return weir::time_point(now); }});

  void cool_down(const limiter& l, microseconds pause) {
    answer([&](auto handler) { l.cool_down("a", pause, handler); });
  }
  void reset(const limiter& l) {
    answer([&](auto handler) {
      l.reset("a", [handler](weir::error_code ec) mutable { handler(ec); });
    });
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(ended_cool_downs_suite, fixture)

// The reservation was refused when it was due, because of the cool-down that the reset had ended.
BOOST_AUTO_TEST_CASE(acquire_all_after_a_reset_is_not_refused_because_of_the_old_cool_down) {
  const weir::token_bucket one{.capacity = 1, .refill = {1, 1ms}};
  const limiter a(store, "a", one, options), b(store, "b", one, options);
  const limiter copy(store, "a", one, options);  // another limiter with the same state
  for (const limiter* resets : {&a, &copy}) {
    cool_down(a, 1h);
    reset(*resets);
    BOOST_TEST(answer([&](auto handler) { a.record("a", handler); }).allowed);
    const weir::decision d = answer(
        [&](auto handler) { weir::acquire_all(a.on("a"), b.on("a"), {.max_wait = 5s}, handler); });
    BOOST_TEST(d.allowed);
    BOOST_TEST((d.delay > 0s));
  }
}

// The old waiter kept the subject's queue, which kept the end of the cool-down.
BOOST_AUTO_TEST_CASE(acquire_after_a_reset_is_not_refused_while_an_old_waiter_is_postponed) {
  const limiter l(store, "a", weir::token_bucket{.capacity = 1, .refill = {1, 24h}}, options);
  BOOST_TEST(answer([&](auto handler) { l.record("a", handler); }).allowed);
  crowd old, later;
  l.acquire("a", {.max_wait = 24h * 7}, old.caller());
  run_ready();
  cool_down(l, 48h);
  reset(l);
  l.acquire("a", {.max_wait = 1s}, later.caller());
  run_ready();
  BOOST_TEST(old.answered() == 0u);  // it waits for the end of the cool-down
  BOOST_TEST_REQUIRE(later.answered() == 1u);
  BOOST_TEST(later.allowed() == 1u);
}

BOOST_AUTO_TEST_CASE(a_cool_down_after_a_reset_is_obeyed) {
  const limiter l(store, "a", weir::token_bucket{.capacity = 1, .refill = {1, 24h}}, options);
  cool_down(l, 48h);
  reset(l);
  BOOST_TEST(answer([&](auto handler) { l.record("a", handler); }).allowed);
  crowd c;
  l.acquire("a", {.max_wait = 25h}, c.caller());
  run_ready();
  cool_down(l, 48h);
  run_ready();
  BOOST_TEST_REQUIRE(c.answered() == 1u);
  BOOST_TEST((c.refused() == 1u && c[0].d.cooling_down));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace ended_cool_downs_test

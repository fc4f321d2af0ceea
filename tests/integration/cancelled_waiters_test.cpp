// Waiters that are cancelled while requests of their queue are on the way: what becomes of what
// these reserve.
#include <boost/test/unit_test.hpp>

#include "integration/acquire_queue_fixture.hpp"

namespace cancelled_waiters_test {
namespace {

using namespace weir::test::waiting;
using weir::decision;
using weir::limiter;
using weir::test::crowd;
using weir::test::outcome;
using weir::test::run_until_complete;

constexpr weir::gcra one_an_hour{.rate = weir::per_hour(1), .burst = 1};

struct cancelled_waiters : fixture {
  /// A call has the present hour, so that others wait for the next ones.
  void use_up(const limiter& l, const std::string& subject = "a") {
    BOOST_TEST(answer([&](auto h) { l.record(subject, h); }).allowed);
  }
  void check_hours_taken(const limiter& l, int hours, const std::string& subject = "a") {
    const decision left = answer([&](auto h) { l.fetch(subject, h); });
    BOOST_TEST((left.reset_after <= hours * 1h), weir::to_string(left));
  }
  void acquire(const limiter& l, cancellable_crowd& c, int callers,
               const std::string& subject = "a") {
    for (int i = 0; i < callers; ++i) l.acquire(subject, patiently, c.caller());
  }
  void cancel_all(cancellable_crowd& c) {
    c.cancel_all();
    run_until_complete(io, c.c);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cancelled_waiters_suite, cancelled_waiters)

// When those with reservations gave them back at once, while the requests of others were on the
// way, up to 200 hours stayed counted.
BOOST_AUTO_TEST_CASE(waiters_that_are_all_cancelled_leave_nothing_counted) {
  const weir::store store = open(false);
  const weir::limiter_options in_one_slot{.group = "all"};
  const limiter a(store, "a", one_an_hour, in_one_slot), b(store, "b", one_an_hour, in_one_slot);
  for (const bool together : {false, true}) {
    for (int moment = 0; moment < 30; ++moment) {
      const std::string subject = std::to_string(moment) + (together ? " of both" : "");
      for (const limiter* l : {&a, &b}) use_up(*l, subject);
      cancellable_crowd waiting;
      for (int i = 0; i < 200; ++i) {
        if (together) {
          weir::acquire_all(a.on(subject), b.on(subject), {.max_wait = patiently.max_wait},
                            waiting.caller());
        } else {
          a.acquire(subject, patiently, waiting.caller());
        }
      }
      io.restart();
      for (int i = 0; i < moment; ++i) io.poll_one();
      cancel_all(waiting);
      decision left;
      for (int i = 0; i < 5; ++i) left = answer([&](auto h) { a.fetch(subject, h); });
      BOOST_TEST((left.reset_after <= 1h),
                 "cancelled after " << moment << " handlers: " << weir::to_string(left));
    }
  }
}

// A request that waits until a reservation has gone back is not on the way: when the others waited
// for its answer, it was placed behind them.
BOOST_AUTO_TEST_CASE(waiters_that_are_cancelled_beside_a_new_one_leave_nothing_counted) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "beside", one_an_hour);
    use_up(l);
    cancellable_crowd waiting, newcomer;
    acquire(l, waiting, 50);
    settle(l);
    waiting.cancel(0);
    acquire(l, newcomer, 1);
    cancel_all(waiting);
    settle(l);
    check_hours_taken(l, 2);
    cancel_all(newcomer);
  });
}

// It was started all the same, and the memory store placed the next waiter behind it.
BOOST_AUTO_TEST_CASE(a_waiter_cancelled_before_its_request_starts_reserves_nothing) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "unstarted", one_an_hour);
    for (const auto how : {cancellation_type::terminal, cancellation_type::total}) {
      const std::string subject = how == cancellation_type::total ? "total" : "terminal";
      use_up(l, subject);
      cancellable_crowd waiting, newcomer;
      acquire(l, waiting, 1, subject);
      settle(l);
      waiting.cancel(0);
      // This request waits until the reservation has gone back.
      acquire(l, waiting, 1, subject);
      waiting.cancel(1, how);
      acquire(l, newcomer, 1, subject);
      run_until_complete(io, waiting.c);
      for (const outcome& o : waiting.c) WEIR_TEST_ERROR(o.ec, aborted);
      settle(l);
      check_hours_taken(l, 2, subject);
      cancel_all(newcomer);
    }
  });
}

// They were sent again, for nobody, and the new waiter was placed behind what they reserved.
BOOST_AUTO_TEST_CASE(requests_of_cancelled_waiters_are_not_sent_again) {
  const limiter l(open(false), "again", one_an_hour);
  BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
  client.must("SCRIPT", "FLUSH");
  server.pause();
  cancellable_crowd waiting, newcomer;
  acquire(l, waiting, 50);
  run_ready();
  waiting.cancel_all();
  acquire(l, newcomer, 1);
  run_until_complete(io, waiting.c);
  server.resume();
  settle(l);
  check_hours_taken(l, 2);
  cancel_all(newcomer);
}

// The requests of those that had left took the units of the fallback.
BOOST_AUTO_TEST_CASE(cancelled_waiters_take_nothing_from_the_fallback) {
  weir::redis_options options = weir::test::patient_options(server);
  options.timeout = 100ms;
  const limiter l(weir::make_redis_store(io.get_executor(), options), "fallback", one_an_hour,
                  {.on_failure = weir::on_failure::fallback, .process_count = 1});
  BOOST_TEST(answer([&](auto h) { l.fetch("a", h); }).allowed);
  server.pause();
  cancellable_crowd waiting;
  acquire(l, waiting, 20);
  run_ready();
  cancel_all(waiting);
  const decision d = answer([&](auto h) { l.acquire("a", h); });
  BOOST_TEST((d.allowed && d.source == weir::source::fallback), weir::to_string(d));
  check_hours_taken(l, 1);
  server.resume();
}

// The queue, a reservation that it was to give back, and their limiter kept each other alive.
BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_context_that_ends_before_a_reservation_has_gone_back) {
  for (const bool together : {false, true}) {
    std::weak_ptr<void> backend;
    {
      asio::io_context ends;
      const weir::store store = weir::make_redis_store(ends.get_executor(),
                                                       weir::test::patient_options(server));
      backend = store.backend();
      const weir::limiter_options in_one_slot{.group = "ends"};
      const limiter a(store, "a", one_a_day, in_one_slot), b(store, "b", one_a_day, in_one_slot);
      const auto acquire = [&](auto handler) {
        if (!together) return a.acquire("a", patiently, handler);
        weir::acquire_all(a.on("a"), b.on("a"), {.max_wait = patiently.max_wait}, handler);
      };
      crowd c;
      acquire(c.caller());
      run_until_complete(ends, c);
      cancellable_crowd waiting;
      acquire(waiting.caller());
      a.fetch("a", c.caller());
      run_until_complete(ends, c);
      server.pause();
      acquire(waiting.caller());
      ends.restart();
      ends.poll();
      waiting.cancel_all();
      run_until_complete(ends, waiting.c);
    }
    server.resume();
    BOOST_TEST(backend.expired());
    client.must("FLUSHALL");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cancelled_waiters_test

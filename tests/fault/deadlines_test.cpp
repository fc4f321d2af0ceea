// Deadlines while nothing comes back and others keep the thread busy: each call ends at its own, in
// their order, with the error that says how far it got.
#include "fault/proxied.hpp"

namespace deadlines_test {

using namespace weir;
using namespace weir::test;
using steady = std::chrono::steady_clock;

const policy plenty = fixed_window{.limit = max_units, .window = 24h};

/// A call, and the bounds within which its deadline lies: it was started between two looks at the
/// clock.
struct timed_call {
  steady::time_point earliest;
  steady::time_point latest;
};

struct fixture : proxied {
  random_source random{run_seed()};
  std::vector<timed_call> calls;
  std::vector<std::size_t> order;
  std::vector<std::chrono::duration<double, std::milli>> lateness;  // at the most
  bool accepts_calls = true;
  bool stop = false;
  std::size_t running = 0;

  /// Others, on a connection of their own, keep the thread and the server busy.
  void start_others() {
    const limiter others(make_redis_store(io.get_executor(), patient_options(server)), "r", plenty);
    for (int i = 0; i < 30; ++i) {
      ++running;
      asio::co_spawn(io, keep_busy(others), [this](std::exception_ptr e) {
        BOOST_TEST(!e);
        --running;
      });
    }
  }
  asio::awaitable<void> keep_busy(limiter l) {
    while (!stop) co_await l.record("busy", asio::as_tuple(asio::deferred));
  }

  /// Calls with deadlines from far enough away to be sent, up to beyond one turn of the timing
  /// wheel.
  void call(const limiter& l, int count, error expected) {
    for (int n = 0; n < count; ++n) {
      const std::chrono::milliseconds timeout(random.between(300, 1500));
      const std::size_t i = calls.size();
      const auto earliest = steady::now() + timeout;
      l.record(
          "s" + std::to_string(i), {.timeout = timeout},
          [this, i, expected](error_code ec, decision) {
            // Where there is no connection, the last attempt may have met a peer that hung
            // up.
            if ((ec != error::closed_by_peer && ec != error::host_unreachable) || accepts_calls)
              WEIR_TEST_ERROR(ec, expected);
            order.push_back(i);
            lateness.emplace_back(steady::now() - calls[i].earliest);
          });
      calls.push_back({.earliest = earliest, .latest = steady::now() + timeout});
    }
  }

  /// No call was told after one whose deadline certainly came later: the wheel tells milliseconds
  /// apart. If this process stood still, calls were put off by as long.
  void check_order() {
    run_until(io, [&] { return order.size() == calls.size(); });
    auto reached = steady::time_point::min();
    const auto put_off = std::chrono::ceil<std::chrono::milliseconds>(
        *std::max_element(lateness.begin(), lateness.end()));
    for (const std::size_t i : order) {
      BOOST_TEST((calls[i].latest + 1ms + put_off >= reached));
      reached = std::max(reached, calls[i].earliest);
    }
    stop = true;
    run_until(io, [&] { return running == 0; });
    // A figure, not a test: another process may have had the core.
    std::sort(lateness.begin(), lateness.end());
    const auto at = [&](std::size_t percent) {
      return lateness[(lateness.size() - 1) * percent / 100].count();
    };
    BOOST_TEST_MESSAGE("late by (ms): median " << at(50) << ", 99 % " << at(99) << ", most "
                                               << at(100));
  }
};

BOOST_FIXTURE_TEST_SUITE(deadlines_suite, fixture)

BOOST_AUTO_TEST_CASE(calls_that_were_swallowed_end_in_the_order_of_their_deadlines) {
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    const store s = open();
    const limiter l(s, "r", plenty);
    connect(l);
    open_send_window(io, s);
    start_others();
    proxy.strike({.what = fault::kind::half_open});
    call(l, 200, error::no_reply);  // more would not be sent before the first is answered
    check_order();
    BOOST_TEST(proxy.counts().accepted == 1u);
  }
}

// The write before them does not end, so nothing of them was sent.
BOOST_AUTO_TEST_CASE(calls_behind_a_stuck_write_end_in_the_order_of_their_deadlines) {
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    const limiter l(open(), "r", plenty);
    connect(l);
    proxy.strike({.what = fault::kind::stall, .way = way::requests});
    crowd stuck;
    for (int i = 0; i < 300; ++i) {
      l.record(std::string(65'000, 's') + std::to_string(i), stuck.caller());
    }
    run_ready();
    start_others();
    call(l, 400, error::timed_out);
    check_order();
    BOOST_TEST(stuck.answered() == 0u);
    proxy.lift();
    run_until_complete(io, stuck);
    BOOST_TEST(stuck.allowed() == 300u);
    BOOST_TEST(fetch(l, "s0").d.used == 0);
  }
}

BOOST_AUTO_TEST_CASE(calls_without_a_connection_end_in_the_order_of_their_deadlines) {
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    proxy.refuse(true);
    accepts_calls = false;
    const limiter l(open(), "r", plenty);
    start_others();
    call(l, 400, error::timed_out);
    check_order();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace deadlines_test

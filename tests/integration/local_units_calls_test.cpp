// Local units on a real server that counts its script calls: several stores act as processes.
#include "support/limiter_fixture.hpp"

namespace local_units_calls_test {

using namespace weir;
using namespace weir::test;

struct fixture : server_fixture {
  static constexpr int processes = 4;
  static constexpr std::int64_t most = 200;

  std::int64_t checks = 0, passed = 0, local = 0;

  limiter open_limiter(const weir::policy& policy, limiter_options options = {}) {
    options.local_units = most;
    return limiter(open(), "r", policy, options);
  }
  decision record(const limiter& l, std::chrono::microseconds timeout = {}) {
    return answer([&](auto caller) { l.record("a", {.timeout = timeout}, caller); });
  }
  std::int64_t calls() { return script_calls(); }

  asio::awaitable<void> check_until(const limiter& l, std::function<bool()> is_over) {
    while (!is_over()) {
      const decision d = co_await l.record("a");
      ++checks;
      if (d.allowed) ++passed;
      if (d.source == source::local_units) ++local;
    }
  }
  /// Eight callers in each process check until `is_over`.
  void saturate(const weir::policy& policy, std::function<bool()> is_over) {
    std::vector<limiter> fleet;
    for (int i = 0; i < processes; ++i) fleet.push_back(open_limiter(policy));
    int running = 0;
    for (const limiter& l : fleet) {
      for (int i = 0; i < 8; ++i) {
        ++running;
        asio::co_spawn(io, check_until(l, is_over), [&](std::exception_ptr e) {
          BOOST_TEST(!e);
          --running;
        });
      }
    }
    run_until(io, [&] { return running == 0; });
  }
};

BOOST_FIXTURE_TEST_SUITE(local_units_calls_suite, fixture)

BOOST_AUTO_TEST_CASE(a_fleet_passes_the_burst_of_a_bucket_and_no_more_than_it_holds) {
  constexpr std::int64_t burst = 20'000;
  const token_bucket policy{.capacity = burst, .refill = per_second(1)};
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t checks_beyond = 0;
  saturate(policy, [&] { return passed >= burst && ++checks_beyond > 1000; });
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() -
                                                               begin);
  BOOST_TEST(passed >= burst);
  BOOST_TEST(passed <= burst + seconds.count() + processes * most);
  BOOST_TEST(local > burst / 2);
}

BOOST_AUTO_TEST_CASE(the_server_runs_few_scripts) {
  const limiter l = open_limiter(fixed_window{.limit = 1'000'000, .window = 24h});
  record(l);
  const auto before = calls();
  for (int i = 0; i < 5000; ++i) record(l);
  const auto asked = calls() - before;
  BOOST_TEST_MESSAGE(asked << " script calls for 5000 checks");
  BOOST_TEST(asked < 5000 / 20);
}

BOOST_AUTO_TEST_CASE(a_process_that_ends_gives_its_units_back) {
  const token_bucket policy{.capacity = 10'000, .refill = per_day(1)};
  const limiter other(open(), "r", policy);
  store own = open();
  const limiter l(own, "r", policy, {.local_units = most});
  std::int64_t allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += record(l).allowed ? 1 : 0;
  answer([&](auto caller) { l.fetch("a", caller); });  // behind a take that is on its way
  const auto used = [&] { return answer([&](auto caller) { other.fetch("a", caller); }).used; };
  const std::int64_t before = used();
  BOOST_TEST(before > allowed);
  own.close();
  poll_until([&] { return used() < before; });
  BOOST_TEST(used() >= allowed);
}

BOOST_AUTO_TEST_CASE(local_units_are_spent_while_the_server_is_away) {
  redis_options options = patient_options(server);
  options.timeout = 2s;  // of a take
  const limiter l(make_redis_store(io.get_executor(), options), "r",
                  fixed_window{.limit = 1'000'000, .window = 24h},
                  {.on_failure = on_failure::fallback, .process_count = 1, .local_units = most});
  for (int i = 0; i < 1000; ++i) record(l, 50s);
  answer([&](auto caller) { l.fetch("a", caller); });  // behind a take that is on its way
  server.kill();
  int served = 0;
  decision d = record(l);
  for (; d.source == source::local_units; d = record(l)) ++served;
  BOOST_TEST(served >= most / 2);
  BOOST_TEST(served <= most);
  BOOST_TEST((d.source == source::fallback));
  BOOST_TEST(d.used == 1);  // a take that failed is not counted in this process's share
}

// A reset that was cancelled unsent, or that the server had refused, dropped the units of a window.
BOOST_AUTO_TEST_CASE(a_reset_that_did_not_run_leaves_the_units) {
  const limiter l = open_limiter(fixed_window{.limit = 1'000'000, .window = 24h});
  for (int i = 0; i < 100; ++i) record(l);
  answer([&](auto caller) { l.fetch("a", caller); });  // behind a take that is on its way
  asio::cancellation_signal signal;
  error_code ended;
  l.reset("a", asio::bind_cancellation_slot(signal.slot(), [&](error_code ec) { ended = ec; }));
  signal.emit(asio::cancellation_type::total);  // it is unsent while the context does not run
  run_until(io, [&] { return !!ended; });
  WEIR_TEST_ERROR(ended, asio::error::operation_aborted);
  BOOST_TEST_REQUIRE((record(l).source == source::local_units));

  client.must("ACL", "SETUSER", "default", "-unlink");
  const auto reset = outcome_of([&](auto caller) { l.reset("a", caller); });
  WEIR_TEST_ERROR(reset.ec, error::permission_denied);
  BOOST_TEST((record(l).source == source::local_units));
}

BOOST_AUTO_TEST_CASE(a_check_that_waits_for_the_server_can_be_cancelled) {
  const limiter l = open_limiter(fixed_window{.limit = 1'000'000, .window = 24h});
  for (int i = 0; i < 100; ++i) record(l);
  answer([&](auto caller) { l.fetch("a", caller); });  // behind a take that is on its way
  server.pause();
  cancellable_crowd callers;
  for (std::int64_t i = 0; i < 3 * most; ++i) l.record("a", callers.caller());
  run_until(io, [&] { return callers.c.answered() > 0; });
  run_ready();
  BOOST_TEST(!callers.c.complete());
  callers.cancel_all();
  run_until_complete(io, callers.c);
  server.resume();
  BOOST_TEST(callers.c.count([](const auto& o) {
    return o.ec == asio::error::operation_aborted;
  }) >= static_cast<std::size_t>(2 * most));
  // The connection is in order, and goes on.
  BOOST_TEST(record(l).allowed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace local_units_calls_test

// The calls as Asio operations: every completion token. Each test runs on each store.
#include <thread>

#include "each_store.hpp"
#include "support/run.hpp"

namespace tokens_test {

using namespace weir;
using namespace weir::test;
using fixture = each_store_fixture;

BOOST_FIXTURE_TEST_SUITE(tokens_suite, fixture)

BOOST_DATA_TEST_CASE_F(fixture, co_await_without_a_token, each_store, store) {
  const auto l = open(store);
  run(io, [&]() -> asio::awaitable<void> {
    const decision d = co_await l.record("a");
    BOOST_TEST(d.used == 1);
    const decision e = co_await l.record("a", {.cost = 3});
    BOOST_TEST(e.used == 4);
    const decision f = co_await l.fetch("a", {.cost = 2});
    BOOST_TEST(!f.allowed);
    BOOST_TEST(f.used == 4);
    co_await l.reset("a");
    const decision g = co_await l.fetch("a");
    BOOST_TEST(g.used == 0);
    // Errors are thrown; a refusal is none.
    try {
      co_await l.record("a", {.cost = 6});
      BOOST_ERROR("nothing was thrown");
    } catch (const boost::system::system_error& e) {
      WEIR_TEST_ERROR(e.code(), error::cost_exceeds_limit);
    }
  });
}

BOOST_DATA_TEST_CASE_F(fixture, as_tuple_and_use_awaitable, each_store, store) {
  const auto l = open(store);
  run(io, [&]() -> asio::awaitable<void> {
    const auto [ec, d] = co_await l.record("a", asio::as_tuple(asio::deferred));
    BOOST_TEST(!ec.failed());
    BOOST_TEST(d.used == 1);
    const auto [bad, nothing] = co_await l.record("", asio::as_tuple(asio::use_awaitable));
    WEIR_TEST_ERROR(bad, error::invalid_subject);
    BOOST_TEST(!nothing.allowed);
    const decision f = co_await l.record("a", {.cost = 2}, asio::use_awaitable);
    BOOST_TEST(f.used == 3);
    const auto [gone] = co_await l.reset("a", asio::as_tuple(asio::deferred));
    BOOST_TEST(!gone.failed());
    const auto [again, e] = co_await l.fetch("a", {.cost = 5}, asio::as_tuple(asio::deferred));
    BOOST_TEST(e.allowed);
    BOOST_TEST(!again.failed());
  });
}

BOOST_DATA_TEST_CASE_F(fixture, use_future, each_store, store) {
  const auto l = open(store);
  auto busy = asio::make_work_guard(io);
  std::jthread runner([&] { io.run(); });
  const auto result_of = [](auto future) -> decltype(future.get()) {
    if (future.wait_for(watchdog) != std::future_status::ready) {
      throw std::runtime_error("no answer after a minute");
    }
    return future.get();
  };
  try {
    BOOST_TEST(result_of(l.record("a", asio::use_future)).used == 1);
    BOOST_TEST(result_of(l.record("a", {.cost = 2}, asio::use_future)).used == 3);
    result_of(l.reset("a", {}, asio::use_future));
    BOOST_TEST(result_of(l.fetch("a", asio::use_future)).used == 0);
    // Not as an exception: one that crosses threads inside the standard library alarms the thread
    // sanitizer.
    const auto code_of = asio::use_future([](error_code ec, decision) { return ec; });
    const auto ec = result_of(l.fetch("a", {.cost = 0}, code_of));
    WEIR_TEST_ERROR(ec, error::invalid_cost);
  } catch (const std::exception& e) {
    BOOST_ERROR(e.what());
  }
  io.stop();
}

BOOST_DATA_TEST_CASE_F(fixture, a_callback_of_any_value_category, each_store, store) {
  const auto l = open(store);
  int calls = 0;
  auto callback = [&](error_code ec, decision d) {
    BOOST_TEST(!ec.failed());
    BOOST_TEST(d.used == ++calls);
  };
  const auto constant = callback;
  l.record("a", callback);
  l.record("a", constant);
  l.record("a", std::move(callback));
  // And one that can only be moved.
  l.record("a", [&, owned = std::make_unique<int>(4)](error_code, decision d) {
    ++calls;
    BOOST_TEST(d.used == *owned);
  });
  run_until(io, [&] { return calls == 4; });
}

// An lvalue token was moved from: the second call found an empty function.
BOOST_DATA_TEST_CASE_F(fixture, a_token_that_is_passed_twice_is_copied, each_store, store) {
  const auto l = open(store);
  int calls = 0;
  std::function<void(error_code, decision)> on_decision = [&](error_code ec, decision) {
    BOOST_TEST(!ec.failed());
    ++calls;
  };
  std::function<void(error_code)> on_reset = [&](error_code) { ++calls; };
  for (int i = 0; i < 2; ++i) {
    l.record("a", on_decision);
    l.record("a", {.cost = 1}, on_decision);
    l.fetch("a", on_decision);
    l.reset("a", on_reset);
    const claim claims[] = {l.on("a")};
    record_all(l.on("a"), on_decision);
    record_all(l.on("a"), joint_options{}, on_decision);
    fetch_all(std::span<const claim>(claims), {}, on_decision);
  }
  BOOST_TEST((on_decision && on_reset));
  // One that can only be moved.
  record_all(l.on("a"),
             [&, owned = std::make_unique<int>(1)](error_code, decision) { calls += *owned; });
  run_until(io, [&] { return calls == 15; });
}

// Each of these did not compile once, though a user would write it so.
BOOST_AUTO_TEST_CASE(a_token_may_stand_where_options_may) {
  asio::io_context io;
  const weir::store store = make_memory_store(io.get_executor());
  const limiter a(store, "a", fixed_window{.limit = 9, .window = 1h}, {.group = "g"});
  const limiter b(store, "b", fixed_window{.limit = 9, .window = 1h}, {.group = "g"});
  const concurrency_limiter gate(store, "gate", {.limit = 9, .group = "g"});
  const auto two = std::array{a.on("s"), b.on("s")};
  int told = 0;
  joint_decision said;
  const auto token = [&](error_code ec, const joint_decision& d) {
    BOOST_TEST(!ec);
    said = d;
    ++told;
  };
  lease place;
  const auto lease_token = [&](error_code ec, lease given) {
    BOOST_TEST(!ec);
    place = std::move(given);
    ++told;
  };
  const auto each = [&](auto&& call) {
    const int before = told;
    call();
    io.restart();
    io.poll();
    BOOST_TEST(told == before + 1);
  };
  each([&] { record_all(two, token); });
  BOOST_TEST(said.used == 1);
  each([&] { record_all(a.on("s"), b.on("s"), {.timeout = 1s}, token); });
  BOOST_TEST(said.used == 2);
  each([&] { settle_all(said, two, token); });
  each([&] { settle_all(said, a.on("s"), b.on("s"), {.timeout = 1s}, token); });
  BOOST_TEST(!said.allowed);  // once
  each([&] { acquire_all(two, token); });
  each([&] { acquire_all(a.on("s"), b.on("s"), {.max_wait = 1s}, token); });
  each([&] { refund_all(said, two, token); });
  each([&] { fetch_all(two, token); });
  each([&] { fetch_all(a.on("s"), b.on("s"), {.timeout = 1s}, token); });
  BOOST_TEST(said.used == 3);
  each([&] { gate.fetch("s", token); });
  BOOST_TEST(said.used == 0);
  each([&] { gate.enter("s", a.on("s"), lease_token); });
  each([&] { gate.enter("s", two, lease_token); });
  each([&] { gate.enter("s", lease_token); });
  each([&] { gate.fetch("s", token); });
  BOOST_TEST(said.used == 1);  // each lease took the place of the one before
}

// Without locks, for users of one thread.
BOOST_AUTO_TEST_CASE(a_store_for_a_single_thread) {
  redis_server server;
  redis_options o = patient_options(server);
  o.single_threaded = true;
  const limiter l(make_redis_store(io.get_executor(), o), "r",
                  fixed_window{.limit = 300, .window = 24h});
  crowd c;
  for (int i = 0; i < 500; ++i) l.record("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 300u);
  server.restart();
  crowd again;
  run_until(io, [&] {
    if (again.complete()) l.record("a", again.caller());
    return again.allowed() > 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tokens_test

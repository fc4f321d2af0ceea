// The calls as Asio operations: every completion token, executors, allocators, exceptions. Each
// test runs on each store.
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace tokens_test {

namespace tokens {

struct allocations {
  int made = 0;
  int live = 0;
};

template <class T>
struct counting_allocator {
  using value_type = T;
  explicit counting_allocator(allocations& c) noexcept : counts(&c) {}
  template <class U>
  counting_allocator(const counting_allocator<U>& other) noexcept : counts(other.counts) {}
  T* allocate(std::size_t n) {
    ++counts->made;
    ++counts->live;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) {
    --counts->live;
    std::allocator<T>().deallocate(p, n);
  }
  friend bool operator==(const counting_allocator&, const counting_allocator&) = default;

  allocations* counts;
};

}  // namespace tokens

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace data = boost::unit_test::data;
using weir::error;
using weir::test::crowd;

const auto stores = data::make({"memory", "tcp", "unix"});

struct fixture {
  asio::io_context io;

  weir::limiter open(const std::string& store, std::int64_t limit = 5) {
    return weir::limiter(weir::open_store(io.get_executor(), weir::test::empty_store_url(store)),
                         "r", weir::fixed_window{.limit = limit, .window = 24h});
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tokens_suite, fixture)

BOOST_DATA_TEST_CASE_F(fixture, co_await_without_a_token, stores, store) {
  const auto l = open(store);
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    const weir::decision d = co_await l.record("a");
    BOOST_TEST(d.used == 1);
    const weir::decision e = co_await l.record("a", {.cost = 3});
    BOOST_TEST(e.used == 4);
    const weir::decision f = co_await l.fetch("a", {.cost = 2});
    BOOST_TEST(!f.allowed);
    BOOST_TEST(f.used == 4);
    co_await l.reset("a");
    const weir::decision g = co_await l.fetch("a");
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

BOOST_DATA_TEST_CASE_F(fixture, use_awaitable, stores, store) {
  const auto l = open(store);
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    const weir::decision d = co_await l.record("a", asio::use_awaitable);
    BOOST_TEST(d.used == 1);
    const weir::decision e = co_await l.record("a", {.cost = 2}, asio::use_awaitable);
    BOOST_TEST(e.used == 3);
    const weir::decision f = co_await l.fetch("a", {}, asio::use_awaitable);
    BOOST_TEST(f.used == 3);
    co_await l.reset("a", asio::use_awaitable);
    const weir::decision g = co_await l.fetch("a", asio::use_awaitable);
    BOOST_TEST(g.used == 0);
  });
}

BOOST_DATA_TEST_CASE_F(fixture, as_tuple, stores, store) {
  const auto l = open(store);
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    const auto [ec, d] = co_await l.record("a", asio::as_tuple(asio::deferred));
    BOOST_TEST(!ec.failed());
    BOOST_TEST(d.used == 1);
    const auto [bad, nothing] = co_await l.record("", asio::as_tuple(asio::use_awaitable));
    WEIR_TEST_ERROR(bad, error::invalid_subject);
    BOOST_TEST(!nothing.allowed);
    const auto [gone] = co_await l.reset("a", asio::as_tuple(asio::deferred));
    BOOST_TEST(!gone.failed());
    const auto [again, e] = co_await l.fetch("a", {.cost = 5}, asio::as_tuple(asio::deferred));
    BOOST_TEST(e.allowed);
    BOOST_TEST(!again.failed());
  });
}

BOOST_DATA_TEST_CASE_F(fixture, use_future, stores, store) {
  const auto l = open(store);
  auto busy = asio::make_work_guard(io);
  std::jthread runner([&] { io.run(); });
  const auto result_of = [](auto future) -> decltype(future.get()) {
    if (future.wait_for(weir::test::watchdog) != std::future_status::ready) {
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
    const auto code_of = asio::use_future([](weir::error_code ec, weir::decision) { return ec; });
    const auto ec = result_of(l.fetch("a", {.cost = 0}, code_of));
    WEIR_TEST_ERROR(ec, error::invalid_cost);
  } catch (const std::exception& e) {
    BOOST_ERROR(e.what());
  }
  io.stop();
}

BOOST_DATA_TEST_CASE_F(fixture, a_callback_of_any_value_category, stores, store) {
  const auto l = open(store);
  int calls = 0;
  auto callback = [&](weir::error_code ec, weir::decision d) {
    BOOST_TEST(!ec.failed());
    BOOST_TEST(d.used == ++calls);
  };
  const auto constant = callback;
  l.record("a", callback);
  l.record("a", constant);
  l.record("a", std::move(callback));
  // And one that can only be moved.
  l.record("a", [&, owned = std::make_unique<int>(4)](weir::error_code, weir::decision d) {
    ++calls;
    BOOST_TEST(d.used == *owned);
  });
  weir::test::run_until(io, [&] { return calls == 4; });
}

// An lvalue token was moved from: the second call found an empty function.
BOOST_DATA_TEST_CASE_F(fixture, a_token_that_is_passed_twice_is_copied, stores, store) {
  const auto l = open(store);
  int calls = 0;
  std::function<void(weir::error_code, weir::decision)> on_decision = [&](weir::error_code ec,
                                                                          weir::decision) {
    BOOST_TEST(!ec.failed());
    ++calls;
  };
  std::function<void(weir::error_code)> on_reset = [&](weir::error_code) { ++calls; };
  for (int i = 0; i < 2; ++i) {
    l.record("a", on_decision);
    l.record("a", {.cost = 1}, on_decision);
    l.fetch("a", on_decision);
    l.reset("a", on_reset);
    const weir::claim claims[] = {l.on("a")};
    weir::record_all(l.on("a"), on_decision);
    weir::record_all(l.on("a"), weir::joint_options{}, on_decision);
    weir::fetch_all(std::span<const weir::claim>(claims), {}, on_decision);
  }
  BOOST_TEST((on_decision && on_reset));
  // One that can only be moved.
  weir::record_all(l.on("a"), [&, owned = std::make_unique<int>(1)](
                                  weir::error_code, weir::decision) { calls += *owned; });
  weir::test::run_until(io, [&] { return calls == 15; });
}

// Without locks, for users of one thread.
// Each of these did not compile once, though a user would write it so.
BOOST_AUTO_TEST_CASE(a_token_may_stand_where_options_may) {
  asio::io_context io;
  const weir::store store = weir::make_memory_store(io.get_executor());
  const weir::limiter a(store, "a", weir::fixed_window{.limit = 9, .window = 1h}, {.group = "g"});
  const weir::limiter b(store, "b", weir::fixed_window{.limit = 9, .window = 1h}, {.group = "g"});
  const weir::concurrency_limiter gate(store, "gate", {.limit = 9, .group = "g"});
  const auto two = std::array{a.on("s"), b.on("s")};
  int told = 0;
  weir::decision said;
  const auto token = [&](weir::error_code ec, const weir::decision& d) {
    BOOST_TEST(!ec);
    said = d;
    ++told;
  };
  weir::lease place;
  const auto lease_token = [&](weir::error_code ec, weir::lease given) {
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
  each([&] { weir::record_all(two, token); });
  BOOST_TEST(said.used == 1);
  each([&] { weir::record_all(a.on("s"), b.on("s"), {.timeout = 1s}, token); });
  BOOST_TEST(said.used == 2);
  each([&] { weir::settle_all(said, two, token); });
  each([&] { weir::settle_all(said, a.on("s"), b.on("s"), {.timeout = 1s}, token); });
  BOOST_TEST(!said.allowed);  // once
  each([&] { weir::acquire_all(two, token); });
  each([&] { weir::acquire_all(a.on("s"), b.on("s"), {.max_wait = 1s}, token); });
  each([&] { weir::refund_all(said, two, token); });
  each([&] { weir::fetch_all(two, token); });
  each([&] { weir::fetch_all(a.on("s"), b.on("s"), {.timeout = 1s}, token); });
  BOOST_TEST(said.used == 3);
  each([&] { gate.fetch("s", token); });
  BOOST_TEST(said.used == 0);
  each([&] { gate.enter("s", a.on("s"), lease_token); });
  each([&] { gate.enter("s", two, lease_token); });
  each([&] { gate.enter("s", lease_token); });
  each([&] { gate.fetch("s", token); });
  BOOST_TEST(said.used == 1);  // each lease took the place of the one before
}

BOOST_AUTO_TEST_CASE(a_store_for_a_single_thread) {
  weir::test::redis_server server;
  weir::redis_options o = weir::test::patient_options(server);
  o.single_threaded = true;
  const weir::limiter l(weir::make_redis_store(io.get_executor(), o), "r",
                        weir::fixed_window{.limit = 300, .window = 24h});
  weir::test::crowd c;
  for (int i = 0; i < 500; ++i) l.record("a", c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 300u);
  server.restart();
  weir::test::crowd again;
  weir::test::run_until(io, [&] {
    if (again.complete()) l.record("a", again.caller());
    return again.allowed() > 0;
  });
}

BOOST_DATA_TEST_CASE_F(fixture, a_deferred_call_starts_later_and_needs_nothing_of_its_caller,
                       stores, store) {
  auto l = std::make_unique<weir::limiter>(open(store));
  auto subject = std::make_unique<std::string>(1000, 's');  // too long to be kept inside the object
  auto pending = l->record(*subject);
  const weir::limiter same = *l;
  std::fill(subject->begin(), subject->end(), 'x');
  subject.reset();
  l.reset();
  for (int i = 0; i < 100; ++i) io.poll();  // it is only a description of a call yet

  crowd c;
  same.fetch(std::string(1000, 's'), c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c[0].d.used == 0);

  pending(c.caller());  // an lvalue: the description can be started again
  std::move(pending)(c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c[1].d.used == 1);
  BOOST_TEST(c[2].d.used == 2);
}

BOOST_DATA_TEST_CASE_F(fixture, a_pending_call_outlives_limiter_and_store_handle, stores, store) {
  crowd c;
  {
    const auto l = open(store);
    for (int i = 0; i < 5; ++i) l.record("a", c.caller());
  }
  // The calls hold the store; when they are answered it goes, and nothing keeps the context busy.
  weir::test::run_out(io);
  BOOST_TEST(c.allowed() == 5u);
}

BOOST_DATA_TEST_CASE_F(fixture, the_handler_never_runs_inside_the_call, stores, store) {
  const auto l = open(store);
  int finished = 0;
  bool inside = false;
  const auto note = [&](weir::error_code, weir::decision = {}) {
    BOOST_TEST(!inside);
    ++finished;
  };
  const auto start = [&] {
    inside = true;
    for (const char* subject : {"a", ""}) {
      l.record(subject, note);
      l.fetch(subject, note);
      l.reset(subject, note);
      l.record(subject, {.cost = -1}, note);
    }
    inside = false;
  };
  start();
  asio::post(io, start);  // on the context's own thread, where a dispatch would run at once
  weir::test::run_until(io, [&] { return finished == 16; });
}

BOOST_DATA_TEST_CASE_F(fixture, handlers_run_on_the_stores_executor_by_default, stores, store) {
  const auto l = open(store);
  BOOST_TEST((l.get_executor() == asio::any_io_executor(io.get_executor())));
  bool done = false;
  l.record("a", [&](weir::error_code, weir::decision) {
    BOOST_TEST(io.get_executor().running_in_this_thread());
    done = true;
  });
  weir::test::run_until(io, [&] { return done; });
}

BOOST_DATA_TEST_CASE_F(fixture, a_bound_executor_is_honoured, stores, store) {
  const auto l = open(store);
  asio::io_context other;
  int done = 0;
  for (const char* subject : {"a", ""}) {  // an error found early goes the same way
    l.record(subject, asio::bind_executor(other, [&](weir::error_code, weir::decision) {
               BOOST_TEST(other.get_executor().running_in_this_thread());
               ++done;
             }));
  }
  // Answered, as far as the store's own context is concerned.
  crowd c;
  l.record("a", c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c[0].d.used == 2);
  BOOST_TEST(done == 0);
  weir::test::run_out(other);
  BOOST_TEST(done == 2);
}

// A pending call is work for the caller's context: without it, run() would return before the
// answer.
BOOST_DATA_TEST_CASE_F(fixture, a_pending_call_keeps_its_executors_context_busy, stores, store) {
  const auto l = open(store);
  asio::io_context other;
  bool done = false;
  l.record("a", asio::bind_executor(other, [&](weir::error_code, weir::decision) { done = true; }));
  const auto look = [&] {
    other.poll();
    BOOST_TEST(other.stopped() == done);  // stopped: it has run out of work
    return done;
  };
  weir::test::run_until(io, look);
}

BOOST_DATA_TEST_CASE_F(fixture, the_handlers_allocator_is_used_and_given_back_first, stores,
                       store) {
  const auto l = open(store);
  tokens::allocations counts;
  int done = 0;
  const auto handler = [&](weir::error_code, weir::decision = {}) {
    BOOST_TEST(counts.live == 0);
    ++done;
  };
  const auto with = [&] {
    return asio::bind_allocator(tokens::counting_allocator<char>(counts), handler);
  };
  const auto one = [&](auto&& call) {
    const int made = counts.made;
    const int before = done;
    call();
    BOOST_TEST(counts.made == made + 1);  // the operation, and nothing else
    weir::test::run_until(io, [&] { return done == before + 1; });
    BOOST_TEST(counts.live == 0);
  };
  one([&] { l.record("a", with()); });
  one([&] { l.fetch("a", with()); });
  one([&] { l.reset("a", with()); });
  one([&] { l.record("", with()); });
}

BOOST_DATA_TEST_CASE_F(fixture, a_handler_that_throws_takes_no_other_along, stores, store) {
  const auto l = open(store, 100);
  crowd c;
  int throws = 0;
  for (int i = 0; i < 20; ++i) {
    l.record("a", c.caller());
    l.record("a", [&](weir::error_code, weir::decision) {
      ++throws;
      throw std::runtime_error("mine");
    });
  }
  int caught = 0;  // Asio may throw several as one
  while (!c.complete() || throws < 20) {
    try {
      weir::test::run_until(io, [&] { return c.complete() && throws == 20; });
    } catch (const std::exception&) {
      ++caught;
    }
  }
  BOOST_TEST(throws == 20);
  BOOST_TEST(caught >= 1);
  for (std::size_t i = 0; i < c.size(); ++i) {
    BOOST_TEST(c[i].times == 1);
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(2 * i + 1));
  }
}

BOOST_DATA_TEST_CASE_F(fixture, a_thousand_calls_one_after_the_other, stores, store) {
  const auto l = open(store, 900);
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    for (int i = 1; i <= 1000; ++i) {
      const weir::decision d = co_await l.record("a");
      if (d.used != std::min(i, 900) || d.allowed != (i <= 900)) {
        BOOST_ERROR("call " << i << " was told " << d.used);
        co_return;
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tokens_test

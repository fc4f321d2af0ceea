// Callers that leave early, stores that close, contexts that end: no other caller notices, nothing
// leaks, nothing hangs.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/test/data/test_case.hpp>

#include "support/limiter_fixture.hpp"

namespace cancellation_test {

using namespace weir;
using namespace weir::test;
using asio::cancellation_type;

struct fixture : server_fixture {
  std::deque<asio::cancellation_signal> signals;
  crowd calls;

  /// Starts a call that can be cancelled through the signal of the same number.
  void record(const limiter& l, std::string_view subject, std::int64_t cost = 1) {
    l.record(subject, {.cost = cost},
             asio::bind_cancellation_slot(signals.emplace_back().slot(), calls.caller()));
  }
  void cancel(std::size_t i, cancellation_type how) {
    asio::post(io, [this, i, how] { signals.at(i).emit(how); });
  }
};

BOOST_FIXTURE_TEST_SUITE(cancellation_suite, fixture)

BOOST_AUTO_TEST_CASE(while_waiting_any_kind_of_cancellation_leaves_no_trace) {
  server.kill();
  const limiter l(open(), "r", plenty_a_day);
  for (int i = 0; i < 4; ++i) record(l, "a");
  cancel(0, cancellation_type::terminal);
  cancel(1, cancellation_type::partial);
  cancel(3, cancellation_type::total);
  run_until(io, [&] { return calls.answered() == 3; });
  for (const std::size_t i : {0, 1, 3}) {
    WEIR_TEST_ERROR(calls[i].ec, asio::error::operation_aborted);
  }
  server.restart();
  run_until_complete(io, calls);
  BOOST_TEST(!calls[2].ec.failed());
  BOOST_TEST(calls[2].d.used == 1);
}

BOOST_AUTO_TEST_CASE(once_sent_only_those_leave_who_accept_that_it_may_have_counted) {
  const auto l = connected(open());
  server.pause();
  for (int i = 0; i < 3; ++i) record(l, "a");
  run_ready();
  cancel(0, cancellation_type::total);
  cancel(1, cancellation_type::terminal);
  cancel(2, cancellation_type::partial);
  run_until(io, [&] { return calls.answered() == 2; });
  run_ready();
  WEIR_TEST_ERROR(calls[1].ec, asio::error::operation_aborted);
  WEIR_TEST_ERROR(calls[2].ec, asio::error::operation_aborted);
  BOOST_TEST(calls[0].times == 0);
  server.resume();
  run_until_complete(io, calls);
  BOOST_TEST(calls[0].d.used == 1);
  crowd after;
  l.fetch("a", after.caller());
  run_until_complete(io, after);
  BOOST_TEST(after[0].d.used == 3);  // they had been sent
}

BOOST_AUTO_TEST_CASE(a_signal_after_the_end_is_harmless) {
  const auto l = connected(open());
  record(l, "a");
  run_until_complete(io, calls);
  BOOST_TEST(!calls[0].ec.failed());
  cancel(0, cancellation_type::terminal);
  run_ready();
  BOOST_TEST(calls[0].times == 1);

  const limiter memory(open_store(io.get_executor(), "memory://"), "r", plenty_a_day);
  record(memory, "a");
  signals.back().emit(cancellation_type::terminal);  // answered already, though not told yet
  run_until_complete(io, calls);
  BOOST_TEST(calls[1].d.used == 1);
}

BOOST_AUTO_TEST_CASE(a_coroutine_is_cancelled_as_a_whole) {
  const auto l = connected(open());
  server.pause();
  asio::cancellation_signal signal;
  error_code seen;
  bool done = false;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        const auto [ec, d] = co_await l.record("a", asio::as_tuple(asio::deferred));
        seen = ec;
      },
      asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr) { done = true; }));
  run_ready();
  BOOST_TEST(!done);
  signal.emit(cancellation_type::terminal);
  run_until(io, [&] { return done; });
  WEIR_TEST_ERROR(seen, asio::error::operation_aborted);
  server.resume();
}

BOOST_AUTO_TEST_CASE(awaitable_operators_work) {
  using namespace asio::experimental::awaitable_operators;
  const auto l = connected(open());
  run(io, [&]() -> asio::awaitable<void> {
    asio::steady_timer timer(io, 24h);
    const auto first = co_await (l.record("a", asio::use_awaitable) ||
                                 timer.async_wait(asio::use_awaitable));
    BOOST_TEST_REQUIRE(first.index() == 0u);
    BOOST_TEST(std::get<0>(first).used == 1);

    const auto both = co_await (l.record("a", asio::use_awaitable) &&
                                l.record("b", asio::use_awaitable));
    BOOST_TEST(std::get<0>(both).used == 2);
    BOOST_TEST(std::get<1>(both).used == 1);

    server.pause();
    timer.expires_after(1ms);
    const auto second = co_await (l.record("a", asio::use_awaitable) ||
                                  timer.async_wait(asio::use_awaitable));
    BOOST_TEST(second.index() == 1u);
    server.resume();
    const decision d = co_await l.fetch("b");
    BOOST_TEST(d.used == 1);
  });
}

// ---- the end

BOOST_AUTO_TEST_CASE(close_ends_what_is_pending_and_refuses_what_comes) {
  auto s = open();
  const auto l = connected(s);
  server.pause();
  record(l, "sent");
  run_ready();
  s.close();
  s.close();
  record(l, "later");
  run_out(io);  // an open connection would keep it busy
  BOOST_TEST(calls.complete());
  WEIR_TEST_ERROR(calls[0].ec, error::outcome_unknown);
  BOOST_CHECK(calls[0].ec == condition::may_have_counted);
  WEIR_TEST_ERROR(calls[1].ec, error::store_closed);
  BOOST_CHECK(calls[1].ec == condition::not_counted);
}

BOOST_AUTO_TEST_CASE(close_from_inside_a_handler) {
  auto s = open();
  const limiter l(s, "r", plenty_a_day);
  l.record("a", [&](error_code, decision) {
    record(l, "b");
    s.close();
    record(l, "c");
  });
  run_out(io);
  BOOST_TEST(calls.complete());
  WEIR_TEST_ERROR(calls[0].ec, error::store_closed);
  WEIR_TEST_ERROR(calls[1].ec, error::store_closed);
}

BOOST_AUTO_TEST_CASE(the_context_is_free_when_the_last_handle_is_gone) {
  {
    const auto l = connected(open());
    record(l, "a");
  }
  run_out(io);
  BOOST_TEST(calls.allowed() == 1u);
}

// The server still owes a reply, but no call waits for it any more and no handle holds the store.
BOOST_AUTO_TEST_CASE(the_last_handle_goes_while_a_reply_is_due) {
  for (const bool server_wakes : {true, false}) {
    BOOST_TEST_CONTEXT("server wakes: " << server_wakes) {
      crowd c;
      {
        const auto l = connected(open());
        server.pause();
        l.record("a", {.timeout = 20ms}, c.caller());
        run_ready();
        if (server_wakes) {
          run_until_complete(io, c);
          server.resume();
        }
      }
      run_out(io);
      WEIR_TEST_ERROR(c[0].ec, error::no_reply);
      server.resume();
    }
  }
}

// ---- The context is destroyed with calls in every stage. Whatever the handlers hold is freed with
// it (the leak checker watches), and no handler runs.

BOOST_DATA_TEST_CASE_F(fixture, a_context_may_end_with_calls_pending,
                       boost::unit_test::data::make({"memory", "waiting", "sent", "unstarted"}),
                       stage) {
  const std::string where = stage;
  auto context = std::make_unique<asio::io_context>();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = held;
  if (where == "waiting") server.kill();
  {
    const auto store = where == "memory"
                           ? open_store(context->get_executor(), "memory://")
                           : make_redis_store(context->get_executor(), patient_options(server));
    const limiter l(store, "r", plenty_a_day);
    if (where == "sent") {
      crowd c;
      l.fetch("connected?", c.caller());
      run_until_complete(*context, c);
      server.pause();
    }
    for (int i = 0; i < 10; ++i) {
      // Each owns a handle of the store that it waits for.
      l.record("a", [held, l](error_code, decision) { BOOST_ERROR("it ran"); });
    }
    asio::co_spawn(
        *context,
        [held, l]() -> asio::awaitable<void> {
          co_await l.record("b");
          BOOST_ERROR("it went on");
        },
        asio::detached);
  }
  held.reset();
  if (where == "sent" || where == "waiting") {
    while (context->poll() != 0) {
    }
  }
  BOOST_TEST(!watch.expired());
  context.reset();
  BOOST_TEST(watch.expired());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cancellation_test

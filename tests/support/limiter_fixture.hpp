#pragma once

#include "support/run.hpp"
#include "support/stores.hpp"

namespace weir::test {

/// An execution context, and calls whose results the test waits for. A call is a function that
/// takes the handler: `[&](auto handler) { l.record("a", handler); }`.
struct limiter_fixture {
  asio::io_context io;

  template <class Call>
  outcome outcome_of(Call&& call) {
    crowd c;
    call(c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c[0].times == 1);
    return c[0];
  }
  /// The decision of a call that must not fail.
  template <class Call>
  joint_decision answer(Call&& call) {
    const outcome o = outcome_of(call);
    BOOST_TEST_REQUIRE(!o.ec.failed(), o.ec.message());
    return o.d;
  }
  /// Runs all handlers that are ready, without waiting.
  void run_ready() {
    io.restart();
    while (io.poll() != 0) {
    }
  }
  /// Runs the context until `holds`, which is asked every millisecond: for a state that only the
  /// server knows.
  template <class Predicate>
  void poll_until(Predicate&& holds) {
    const auto limit = std::chrono::steady_clock::now() + watchdog;
    asio::steady_timer pause(io);
    while (!holds()) {
      BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < limit, "still false after a minute");
      bool over = false;
      pause.expires_after(std::chrono::milliseconds{1});
      pause.async_wait([&](error_code) { over = true; });
      run_until(io, [&] { return over; });
    }
  }
};

inline constexpr fixed_window plenty_a_day{.limit = max_units, .window = std::chrono::hours{24}};

/// The same with a server, for tests on it, and for tests on it and on the memory store.
struct server_fixture : limiter_fixture {
  redis_server server;
  redis_client client{server};
  std::function<time_point()> memory_clock;  // empty: the process's clock

  store open(bool in_memory = false) {
    return in_memory ? make_memory_store(io.get_executor(), {.clock = memory_clock})
                     : make_redis_store(io.get_executor(), patient_options(server));
  }
  /// Calls test(store) with an empty store of each kind.
  template <class Test>
  void on_both(Test&& test) {
    for (const bool in_memory : {true, false}) {
      BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis")) {
        client.must("FLUSHALL");
        test(open(in_memory));
      }
    }
  }
  /// A limiter "r" of plenty_a_day whose store has a connection.
  limiter connected(const store& s) {
    limiter l(s, "r", plenty_a_day);
    answer([&](auto h) { l.fetch("connected?", h); });
    return l;
  }
  /// How often the server has run the command, in scripts and alone.
  std::int64_t runs_of(const std::string& command) { return test::runs_of(client, command); }
  std::int64_t script_calls() { return test::script_calls_of(client); }
};

/// Calls that can be cancelled one by one.
struct cancellable_crowd {
  crowd c;
  std::deque<asio::cancellation_signal> signals;

  auto caller() { return asio::bind_cancellation_slot(signals.emplace_back().slot(), c.caller()); }
  void cancel(std::size_t i, asio::cancellation_type how = asio::cancellation_type::terminal) {
    signals[i].emit(how);
  }
  void cancel_all() {
    for (auto& s : signals) s.emit(asio::cancellation_type::terminal);
  }
};

}  // namespace weir::test

#pragma once

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "support/leases.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace weir::test {

/// A server, gates on its own stores, and what the server knows of them.
struct gate_fixture {
  const std::string key = "weir:{gate:a}:c";
  redis_server server;
  redis_client client{server};
  asio::io_context io;

  redis_options options() const { return patient_options(server); }
  store open() { return make_redis_store(io.get_executor(), options()); }
  concurrency_limiter gate(std::int64_t limit,
                           std::chrono::microseconds length = std::chrono::hours{1}) {
    return {open(), "gate", {.limit = limit, .lease_duration = length}};
  }
  lease enter(const concurrency_limiter& g) { return test::enter(io, g, "a"); }
  std::int64_t inside() { return client.must("ZCARD", key).integer; }
  /// When the last lease lapses, by the server's clock.
  double end() {
    const auto last = client.must("ZRANGE", key, -1, -1, "WITHSCORES").children;
    return last.empty() ? 0 : std::stod(last.at(1).text);
  }
  /// How often the server has run that command, in scripts and without.
  int runs_of(const std::string& command) {
    const std::string all = client.must("INFO", "commandstats").text;
    const auto at = all.find("cmdstat_" + command + ":calls=");
    return at == std::string::npos ? 0 : std::stoi(all.substr(all.find('=', at) + 1));
  }
  /// For what only the server knows, and nobody tells: asked again and again, while everything else
  /// goes on.
  template <class Predicate>
  void ask_until(Predicate&& holds) {
    const auto limit = std::chrono::steady_clock::now() + watchdog;
    asio::steady_timer pause(io);
    while (!holds()) {
      BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < limit, "it never came about");
      bool over = false;
      pause.expires_after(std::chrono::milliseconds{1});
      pause.async_wait([&](error_code) { over = true; });
      run_until(io, [&] { return over; });
    }
  }
  /// Lets happen what can happen without waiting.
  void settle() {
    io.restart();
    while (io.poll() != 0) {
    }
  }
};

/// One that enters through a gate, and may be cancelled.
struct entrance {
  asio::cancellation_signal signal;
  error_code ec;
  lease got;
  bool done = false;

  entrance(const concurrency_limiter& g, enter_options how = {}) {
    g.enter("a", how, asio::bind_cancellation_slot(signal.slot(), [this](error_code e, lease l) {
              ec = e;
              got = std::move(l);
              done = true;
            }));
  }
};

}  // namespace weir::test

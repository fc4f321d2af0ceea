#pragma once

#include <boost/test/unit_test.hpp>

#include "support/fault_proxy.hpp"
#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace weir::test {

/// A real server, a proxy in front of it, and the way through both.
struct proxied {
  redis_server server;
  asio::io_context io;
  fault_proxy proxy{io, server};
  redis_options options = through_proxy();

  redis_options through_proxy() const {
    redis_options o = patient_options(server);
    o.port = static_cast<std::uint16_t>(proxy.port());
    return o;
  }
  weir::store open() { return make_redis_store(io.get_executor(), options); }

  /// One call, awaited.
  outcome record(const limiter& l, std::string_view subject, record_options how = {}) {
    crowd c;
    l.record(subject, how, c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c[0].times == 1);
    return c[0];
  }
  outcome fetch(const limiter& l, std::string_view subject) {
    crowd c;
    l.fetch(subject, c.caller());
    run_until_complete(io, c);
    return c[0];
  }
  /// Until the first call that succeeds: a store on its way back may fail some.
  decision record_until_it_succeeds(const limiter& l, std::string_view subject) {
    outcome o;
    run_until(io, [&] {
      o = record(l, subject);
      return !o.ec;
    });
    return o.d;
  }
  void connect(const limiter& l) { BOOST_TEST(!fetch(l, "connected?").ec.failed()); }

  /// For what only a server knows, and nobody tells: asked again and again, while everything else
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

}  // namespace weir::test

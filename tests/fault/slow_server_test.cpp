// A real server that gets a small part of its time, asked for far more than it can do.
#include <signal.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using steady = std::chrono::steady_clock;

/// Stops the server for the most part of each tenth of a second, until it ends.
class brake {
 public:
  explicit brake(pid_t server)
      : thread_([this, server] {
          while (!over_) {
            ::kill(server, SIGCONT);
            std::this_thread::sleep_for(2ms);
            ::kill(server, SIGSTOP);
            std::this_thread::sleep_for(98ms);
          }
          ::kill(server, SIGCONT);
        }) {}
  ~brake() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(slow_server_suite)

// It executed 13,132 checks in 12 s, and the callers got none.
BOOST_AUTO_TEST_CASE(a_server_that_gets_little_time_is_not_sent_what_has_expired) {
  weir::test::redis_server server;
  weir::test::redis_client client(server);
  asio::io_context io;
  weir::redis_options options = weir::parse_redis_url(server.url());
  const weir::limiter l(weir::make_redis_store(io.get_executor(), options), "r",
                        weir::fixed_window{.limit = 3, .window = 24h});
  std::size_t asked = 0, pending = 0, in_time = 0;
  bool stop = false;
  const std::function<void()> ask = [&] {
    ++pending;
    l.record("s" + std::to_string(asked++), [&](weir::error_code ec, const weir::decision& d) {
      --pending;
      if (!ec && d.allowed) ++in_time;
    });
  };
  {
    const brake slow(server.pid());
    const auto end = steady::now() + 5s;
    asio::steady_timer tick(io);
    // 10,000 callers at once: what they ask for, a healthy server could just do.
    const std::function<void()> refill = [&] {
      while (pending < 10'000) ask();
      tick.expires_after(10ms);
      tick.async_wait([&](weir::error_code) {
        stop = steady::now() >= end;
        if (!stop) refill();
      });
    };
    refill();
    weir::test::run_until(io, [&] { return stop; });
  }
  weir::test::run_until(io, [&] { return pending == 0; });
  const auto executed = static_cast<std::size_t>(client.must("DBSIZE").integer);
  BOOST_TEST_MESSAGE("asked " << asked << ", executed " << executed << ", in time " << in_time);
  // How many come in time depends on what else runs on the machine.
  BOOST_TEST(in_time <= executed);
  BOOST_TEST(executed < asked / 2);  // the others were never sent

  // Once it is fast again, it serves.
  const std::size_t before = in_time;
  weir::test::run_until(io, [&] {
    if (pending == 0) ask();
    return in_time > before + 100;
  });
}

BOOST_AUTO_TEST_SUITE_END()

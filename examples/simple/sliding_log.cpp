// A sliding log of one second: three records 300 ms apart, and fetch says 3; wait 600 ms, record,
// and it says 2, because the first two are more than a second old by then.
//
//     sliding_log [redis://127.0.0.1:6379]
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <vector>
#include <weir/weir.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// Every example is run as a test, so it looks at its own numbers.
void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

asio::awaitable<void> sleep_for(std::chrono::microseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::deferred);
}

asio::awaitable<void> example(weir::store store) {
  weir::limiter visits{store, "sliding-log-example", weir::sliding_log{.limit = 100, .window = 1s}};
  co_await visits.reset("alice");

  // The log by definition: a request made at t counts while now - t < window. Computed from the
  // decisions' own times, so that a slow machine gets other numbers but no failure.
  std::vector<weir::time_point> log;
  const auto count_at = [&log](weir::time_point now) {
    return std::ranges::count_if(log, [now](weir::time_point t) { return now - t < 1s; });
  };

  for (int i = 0; i < 3; ++i) {
    const weir::decision d = co_await visits.record("alice");
    log.push_back(d.at);
    std::cout << "record: " << d.used << "\n";
    expect(d.used == count_at(d.at), "each record adds one");
    co_await sleep_for(300ms);
  }

  weir::decision d = co_await visits.fetch("alice");
  std::cout << "fetch:  " << d.used << "\n";
  expect(d.used == count_at(d.at), "fetch adds none");

  std::cout << "wait 600 ms\n";
  co_await sleep_for(600ms);

  d = co_await visits.record("alice");
  log.push_back(d.at);
  std::cout << "record: " << d.used << "\n";
  expect(d.used == count_at(d.at), "what is older than the window does not count");
}

}  // namespace

int main(int argc, char** argv) try {
  asio::io_context context;
  asio::co_spawn(
      context, example(weir::open_store(context.get_executor(), argc > 1 ? argv[1] : "memory://")),
      [](std::exception_ptr failed) {
        if (failed) std::rethrow_exception(failed);
      });
  context.run();
} catch (const std::exception& e) {
  std::cerr << "failed: " << e.what() << "\n";
  return 1;
}

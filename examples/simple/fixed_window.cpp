// A fixed window of one second: record three times, and the count says 1, 2, 3; wait one window,
// record, and it says 1.
//
//     fixed_window [redis://127.0.0.1:6379]
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
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

// What the count has to be, from the times of the decisions alone: so a slow machine, on which
// three records take longer than the window, does not make the example fail.
class expected_count {
 public:
  std::int64_t after_record_at(weir::time_point t) {
    if (count_ == 0 || t >= start_ + 1s) {
      start_ = t;
      count_ = 0;
    }
    return ++count_;
  }

 private:
  weir::time_point start_{};
  std::int64_t count_ = 0;
};

asio::awaitable<void> example(weir::store store) {
  // Unlimited: nothing is refused, and the policy only counts.
  weir::limiter visits{store, "fixed-window-example",
                       weir::fixed_window{.limit = weir::unlimited, .window = 1s}};
  co_await visits.reset("alice");

  expected_count expected;
  for (int i = 0; i < 3; ++i) {
    const weir::decision d = co_await visits.record("alice");
    std::cout << "record: " << d.used << "\n";
    expect(d.used == expected.after_record_at(d.at), "the count of the window");
  }

  std::cout << "wait one second\n";
  co_await sleep_for(1s);

  const weir::decision d = co_await visits.record("alice");
  std::cout << "record: " << d.used << "\n";
  expect(d.used == 1 && expected.after_record_at(d.at) == 1, "a new window");
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

// From a thread that blocks: use_future. The I/O runs on another thread; this one waits for the
// answer.
//
//     use_future [redis://127.0.0.1:6379]
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <iostream>
#include <thread>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

int main(int argc, char** argv) try {
  asio::io_context context;
  weir::store store = weir::open_store(context.get_executor(), examples::store_url(argc, argv));
  auto keep_running = asio::make_work_guard(context);  // run() shall not end between two checks
  std::thread io([&context] { context.run(); });

  int result = 0;
  try {
    weir::limiter limiter{store, "use-future-example",
                          weir::sliding_log{.limit = 10, .window = 1min}};
    limiter.reset("alice", asio::use_future).get();

    // Several at once: on Redis, they travel together.
    std::future<weir::decision> first = limiter.record("alice", asio::use_future);
    std::future<weir::decision> second = limiter.record("alice", {.cost = 4}, asio::use_future);
    const bool both = first.get().allowed && second.get().allowed;  // get() throws what went wrong

    const weir::decision d = limiter.fetch("alice", asio::use_future).get();
    std::cout << d.used << " of " << d.limit << " used\n";
    expect(both && d.used == 5, "1 and 4 make 5");
  } catch (const std::exception& e) {
    result = examples::failed(e);
  }

  store.close();
  keep_running.reset();
  io.join();
  return result;
} catch (const std::exception& e) {
  return examples::failed(e);
}

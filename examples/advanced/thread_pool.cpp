// Many threads, one limiter: 64 coroutines on a pool of four threads use up one allowance together.
// Limiters and stores may be used from any thread; no strand is needed around them.
//
//     thread_pool [redis://127.0.0.1:6379]
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <mutex>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

constexpr int threads = 4;
constexpr int coroutines = 64;
constexpr int checks_each = 20;
constexpr int limit = 500;

struct tally {
  std::atomic<int> allowed{0};
  std::atomic<int> refused{0};

  std::mutex mutex;
  std::exception_ptr failure;
};

asio::awaitable<void> caller(weir::limiter limiter, tally& t) {
  for (int i = 0; i < checks_each; ++i) {
    // Resumes on this coroutine's own executor, on whichever thread of the pool is free.
    const weir::decision d = co_await limiter.record("everybody", {.timeout = 5s});
    ++(d.allowed ? t.allowed : t.refused);
  }
}

asio::awaitable<void> example(weir::limiter limiter, tally& t) {
  co_await limiter.reset("everybody");

  const auto executor = limiter.get_executor();
  for (int i = 0; i < coroutines; ++i) {
    asio::co_spawn(executor, caller(limiter, t), [&t](std::exception_ptr failed) {
      // An exception that leaves a handler would end a thread of the pool, and with it the program.
      if (failed) {
        const std::lock_guard lock(t.mutex);
        t.failure = failed;
      }
    });
  }
}

}  // namespace

int main(int argc, char** argv) try {
  tally t;
  asio::thread_pool pool(threads);
  {
    weir::store store = weir::open_store(pool.get_executor(), examples::store_url(argc, argv));
    weir::limiter limiter{store, "thread-pool-example",
                          weir::fixed_window{.limit = limit, .window = 1h}};
    asio::co_spawn(pool, example(limiter, t), [&t](std::exception_ptr failed) {
      if (failed) {
        const std::lock_guard lock(t.mutex);
        t.failure = failed;
      }
    });
  }  // the store closes with the last coroutine, and then the pool has nothing left to do
  pool.join();
  if (t.failure) std::rethrow_exception(t.failure);

  std::cout << coroutines << " coroutines on " << threads << " threads: " << t.allowed
            << " checks allowed, " << t.refused << " refused\n";
  expect(t.allowed == limit, "exactly the limit, and not one more");
  expect(t.allowed + t.refused == coroutines * checks_each, "every check is answered");
} catch (const std::exception& e) {
  return examples::failed(e);
}

// Many processes, one limit. Four processes with 16 coroutines each take from one allowance of 100:
// through Redis exactly 100 checks pass, in whichever process. In memory, each process has an
// allowance of its own.
//
//     many_processes redis://127.0.0.1:6379
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::rethrow;

namespace {

constexpr int processes = 4;
constexpr int coroutines = 16;
constexpr int checks_each = 10;
constexpr int limit = 100;

weir::limiter open_limiter(asio::io_context& context, const std::string& url) {
  return {weir::open_store(context.get_executor(), url), "many-processes-example",
          weir::token_bucket{.capacity = limit, .refill = weir::per_hour(1)}};
}

asio::awaitable<void> caller(weir::limiter limiter, int& passed) {
  for (int i = 0; i < checks_each; ++i) {
    const weir::decision d = co_await limiter.record("fleet", {.timeout = 10s});
    if (d.allowed) ++passed;
  }
}

// What one process does. Returns how many of its checks passed.
int run_process(const std::string& url) {
  asio::io_context context;
  int passed = 0;
  {
    const weir::limiter limiter = open_limiter(context, url);
    for (int i = 0; i < coroutines; ++i) {
      asio::co_spawn(context, caller(limiter, passed), rethrow);
    }
  }
  context.run();
  return passed;
}

asio::awaitable<void> forget(weir::limiter limiter) { co_await limiter.reset("fleet"); }

}  // namespace

int main(int argc, char** argv) try {
  const std::string url = examples::store_url(argc, argv);
  {
    asio::io_context context;
    asio::co_spawn(context, forget(open_limiter(context, url)), rethrow);
    context.run();
  }

  // A store must not be carried through fork(): both processes would read from one connection. Each
  // opens its own.
  std::array<pid_t, processes> children{};
  std::array<int, processes> pipes{};
  for (int i = 0; i < processes; ++i) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
      int passed = -1;
      try {
        passed = run_process(url);
      } catch (const std::exception& e) {
        std::cerr << "process " << i << " failed: " << e.what() << "\n";
      }
      const bool told = write(ends[1], &passed, sizeof passed) == sizeof passed;
      _exit(told && passed >= 0 ? 0 : 1);
    }
    close(ends[1]);
    children[i] = child;
    pipes[i] = ends[0];
  }

  int total = 0;
  bool healthy = true;
  for (int i = 0; i < processes; ++i) {
    int passed = -1;
    if (read(pipes[i], &passed, sizeof passed) != sizeof passed) healthy = false;
    close(pipes[i]);
    int status = 0;
    waitpid(children[i], &status, 0);
    healthy = healthy && status == 0 && passed >= 0;
    std::cout << "process " << i + 1 << ": " << passed << " of " << coroutines * checks_each
              << " checks passed\n";
    total += passed;
  }
  std::cout << "together: " << total << " with a limit of " << limit << "\n";

  expect(healthy, "every process gets its answers");
  const bool shared = url != "memory://";
  expect(total == (shared ? limit : processes * limit), "exactly the limit");
} catch (const std::exception& e) {
  return examples::failed(e);
}

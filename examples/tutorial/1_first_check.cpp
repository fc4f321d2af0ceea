// Tutorial 1: the first check.
//
// A limiter ties three things together: a resource (what is protected), a policy (how much is
// allowed) and a store (where the counts are kept). Each check names a subject (who calls) and is
// answered with a decision.
//
// Here the store is in memory: no server, one process. Tutorial 3 puts the same code on Redis.
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

asio::awaitable<void> example(weir::store store) {
  // Three requests per minute for each subject. A policy out of range throws here, not at the first
  // check.
  weir::limiter logins{store, "tutorial-logins", weir::fixed_window{.limit = 3, .window = 1min}};

  // Only so that the example can be run again on a store that remembers.
  co_await logins.reset("alice");
  co_await logins.reset("bob");

  for (int i = 1; i <= 4; ++i) {
    // One check: it counts the request if it fits, and says whether it did.
    const weir::decision d = co_await logins.record("alice");
    std::cout << "alice, request " << i << ": " << (d.allowed ? "allowed" : "refused") << ", "
              << d.remaining << " left";
    // Refused is an answer, not an error. It tells when the same request would pass.
    if (!d.allowed) std::cout << ", try again in " << d.retry_after.count() << " us";
    std::cout << "\n";

    expect(d.allowed == (i <= 3), "three requests should pass, and not a fourth");
    expect(d.remaining == std::max(0, 3 - i), "each allowed request should use one unit");
    expect(d.allowed == (d.retry_after == 0us), "only a refusal has a time to wait for");
  }

  // Subjects do not know of each other.
  const weir::decision bob = co_await logins.record("bob");
  std::cout << "bob, request 1: " << (bob.allowed ? "allowed" : "refused") << "\n";
  expect(bob.allowed, "bob has an allowance of his own");

  // fetch() asks without counting.
  const weir::decision seen = co_await logins.fetch("bob");
  std::cout << "bob has used " << seen.used << " of " << seen.limit << "\n";
  expect(seen.used == 1 && seen.limit == 3, "looking should not count");
}

}  // namespace

int main(int argc, char** argv) try {
  asio::io_context context;
  // The store closes when its last copy is gone. The coroutine gets the only one, so that run()
  // returns after it.
  asio::co_spawn(
      context, example(weir::open_store(context.get_executor(), argc > 1 ? argv[1] : "memory://")),
      [](std::exception_ptr failed) {
        if (failed) std::rethrow_exception(failed);
      });
  context.run();
} catch (const std::exception& e) {
  return examples::failed(e);
}

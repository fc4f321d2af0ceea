// Tutorial 3: one allowance for many processes.
//
//     3_shared_through_redis redis://127.0.0.1:6379
//
// Nothing changes but the URL. Two stores on one server stand for two processes here: each has its
// own connection, and what one counts, the other sees. Two stores in memory share nothing.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::rethrow;

namespace {

asio::awaitable<void> example(weir::store here, weir::store there, bool shared) {
  // The same resource, the same kind of policy: the same counts.
  const weir::fixed_window ten_an_hour{.limit = 10, .window = 1h};
  weir::limiter ours{here, "tutorial-reports", ten_an_hour};
  weir::limiter theirs{there, "tutorial-reports", ten_an_hour};
  co_await ours.reset("account-42");

  // One check may cost more than one unit.
  weir::decision d = co_await ours.record("account-42", {.cost = 7});
  std::cout << "one process takes 7: " << (d.allowed ? "allowed" : "refused") << ", " << d.remaining
            << " left\n";
  expect(d.allowed && d.remaining == 3, "7 of 10 should pass");

  d = co_await theirs.record("account-42", {.cost = 7});
  std::cout << "another takes 7:     " << (d.allowed ? "allowed" : "refused") << ", " << d.remaining
            << " left\n";
  expect(d.allowed != shared, "a second 7 should pass only where nothing is shared");

  // A refused request consumes nothing, so a smaller one still fits.
  d = co_await theirs.record("account-42", {.cost = 3});
  std::cout << "it takes 3 instead:  " << (d.allowed ? "allowed" : "refused") << ", " << d.remaining
            << " left\n";
  expect(d.allowed && d.remaining == 0, "3 should be left");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string url = examples::store_url(argc, argv);
  const bool shared = url != "memory://";
  if (!shared) std::cout << "in memory: each store counts for itself\n";

  asio::io_context context;
  // Connecting goes on in the background; the first checks wait for it, within their deadline.
  weir::store here = weir::open_store(context.get_executor(), url);
  weir::store there = weir::open_store(context.get_executor(), url);
  asio::co_spawn(context, example(std::move(here), std::move(there), shared), rethrow);
  context.run();
} catch (const std::exception& e) {
  return examples::failed(e);
}

#include "crew.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <exception>
#include <future>
#include <optional>
#include <weir/store.hpp>

#include "caller.hpp"

namespace demo {

namespace asio = boost::asio;
using namespace std::chrono_literals;

tally run_callers(const job& work, phase which, std::chrono::seconds duration) {
  asio::io_context context(1);
  std::optional<throttle> shared;
  if (which == phase::throttled) {
    const auto store = weir::open_store(context.get_executor(), work.store);
    // A capacity of one unit per caller: each has one call waiting, so none is refused.
    const auto policy = policy_for(work.allowance, work.all_callers);
    shared.emplace(
        throttle{weir::limiter(store, "vendor-api", policy), work.account, work.ahead_of_store});
  }

  const asio::ip::tcp::endpoint vendor(asio::ip::address_v4::loopback(), work.vendor_port);
  const auto end = std::chrono::steady_clock::now() + duration;
  tally results;
  std::exception_ptr failure;
  int busy = work.callers;
  const auto caller_left = [&](std::exception_ptr error) {
    if (error && !failure) failure = error;
    // Not left to run dry: the store's open connection counts as work.
    if (--busy == 0 || failure) context.stop();
  };
  for (int i = 0; i < work.callers; ++i) {
    asio::co_spawn(context, make_calls(vendor, shared ? &*shared : nullptr, end, &results),
                   caller_left);
  }
  context.run();
  if (failure) std::rethrow_exception(failure);
  return results;
}

namespace {

/// A decision holds the store's time of a moment ago. The decision that came fastest is the
/// closest.
asio::awaitable<std::chrono::microseconds> time_ahead(weir::limiter limiter) {
  auto ahead = std::chrono::microseconds::max();
  for (int i = 0; i < 10; ++i) {
    const weir::decision d = co_await limiter.fetch("clock", {.timeout = 2s});
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    ahead = std::min(
        ahead, std::chrono::ceil<std::chrono::microseconds>(now) - d.decided_at.time_since_epoch());
  }
  co_return ahead;
}

}  // namespace

std::chrono::microseconds compare_clocks(const std::string& url) {
  asio::io_context context(1);
  const auto store = weir::open_store(context.get_executor(), url);
  auto ahead = asio::co_spawn(
      context, time_ahead(weir::limiter(store, "vendor-api", policy_for(1, 1))), asio::use_future);
  while (ahead.wait_for(0s) != std::future_status::ready) context.run_one();
  return ahead.get();
}

}  // namespace demo

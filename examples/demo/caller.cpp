#include "caller.hpp"

#include <algorithm>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include "http_client.hpp"

namespace demo {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

time_point now() { return std::chrono::steady_clock::now(); }

asio::awaitable<void> sleep_until(time_point when) {
  asio::steady_timer timer(co_await asio::this_coro::executor, when);
  co_await timer.async_wait(asio::deferred);
}

// A caller's turn is `decided_at` + `delay` of its decision. weir spaces the turns evenly by the
// store's clock; the vendor counts when a request reaches it.
// Between the two lie a timer, a busy processor and a network, late by a different time each time.
// At exactly the vendor's limit the smallest difference would be a 429, so we stay 5 % below it: at
// 47.5 instead of 50 per second, 50 / 47.5 s = 1.053 s pass from the first of 51 turns to the last,
// and only a lateness above 53 ms could squeeze 51 requests into a second. Other limits: likewise.
constexpr std::int64_t percent_of_allowance = 95;

// A caller may be this late; the rest of those 53 ms is for the network and the vendor. A caller
// that wakes later drops its turn and takes another one, so that a process that was stopped for
// half a second does not send all its calls in one burst.
constexpr auto longest_lateness = 25ms;

/// Waits for this call's turn. False if it would come after `end`.
asio::awaitable<bool> wait_for_turn(const throttle& throttle, time_point end) {
  for (;;) {
    const weir::decision d = co_await throttle.limiter.record(throttle.account);

    // Allowed: the turn comes after `delay`. Refused: the bucket is full, and has room after
    // `retry_after`. Both count from `decided_at`, so a slow answer does not make the caller late.
    const auto wait = d.allowed ? d.delay : d.retry_after;
    const auto turn = time_point{d.decided_at.time_since_epoch() + wait + throttle.ahead_of_store};
    co_await sleep_until(std::min(turn, end));
    if (now() >= end) co_return false;
    if (d.allowed && now() <= turn + longest_lateness) co_return true;
  }
}

}  // namespace

weir::leaky_bucket policy_for(int allowance, int places) {
  return {.capacity = places, .leak = {allowance * percent_of_allowance, 100s}};
}

asio::awaitable<void> make_calls(asio::ip::tcp::endpoint vendor, const throttle* throttle,
                                 time_point end, tally* results) {
  http_client client(co_await asio::this_coro::executor);
  co_await client.connect(vendor);

  bool served = false;
  auto wanted = now();
  while (now() < end) {
    if (throttle != nullptr && !co_await wait_for_turn(*throttle, end)) co_return;

    const auto sent = now();
    const auto reply = co_await client.call();
    ++results->requests;
    if (reply.ok) {
      ++results->ok;
      results->waits.push_back(std::chrono::floor<std::chrono::microseconds>(sent - wanted));
      if (!served) ++results->served;
      served = true;
      wanted = now();
    } else {
      ++results->refused;
      co_await sleep_until(std::min(now() + reply.retry_after, end));
    }
  }
}

}  // namespace demo

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

// A caller's reservation is at `decided_at` + `delay` of its decision. weir spaces reservations
// evenly by the store's clock; the vendor counts when a request reaches it. A timer, a busy
// processor and a network lie between, and delay each request by another time. At exactly the
// vendor's limit the smallest difference would be a 429, so the demo stays 5 % below it: at 47.5
// instead of 50 per second, 50 / 47.5 s = 1.053 s pass from the first of 51 reservations to the
// last, and only a delay above 53 ms could put 51 requests into one second.
constexpr std::int64_t percent_of_allowance = 95;

// A caller may be this late; the rest of those 53 ms is for the network and the vendor. A caller
// that wakes later drops its reservation and makes another one, so that a process that was stopped
// for half a second does not send all its calls in one burst.
constexpr auto longest_lateness = 25ms;

/// Reserves a time for this call and waits for it. False if it would come after `end`.
asio::awaitable<bool> wait_for_reservation(const throttle& throttle, time_point end) {
  for (;;) {
    const weir::decision d = co_await throttle.limiter.record(throttle.account);

    // Allowed: the reservation is after `delay`. Refused: the bucket is full, and has room after
    // `retry_after`. Both count from `decided_at`, so a slow answer does not make the caller late.
    const auto wait = d.allowed ? d.delay : d.retry_after;
    const auto due = time_point{d.decided_at.time_since_epoch() + wait + throttle.ahead_of_store};
    co_await sleep_until(std::min(due, end));
    if (now() >= end) co_return false;
    if (d.allowed && now() <= due + longest_lateness) co_return true;
  }
}

}  // namespace

weir::leaky_bucket policy_for(int allowance, int max_waiters) {
  return {.capacity = max_waiters, .leak = {allowance * percent_of_allowance, 100s}};
}

asio::awaitable<void> make_calls(asio::ip::tcp::endpoint vendor, const throttle* throttle,
                                 time_point end, tally* results) {
  http_client client(co_await asio::this_coro::executor);
  co_await client.connect(vendor);

  bool served = false;
  auto wanted = now();
  while (now() < end) {
    if (throttle != nullptr && !co_await wait_for_reservation(*throttle, end)) co_return;

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

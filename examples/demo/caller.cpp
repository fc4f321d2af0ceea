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

// weir spaces the turns evenly by the store's clock; the vendor counts when a request reaches it. Between the two lie a
// timer, a busy processor and a network, none of which is ever late by the same time twice. Exactly at the vendor's limit
// the smallest difference would be a 429, so we stay 5 % below: with a limit of 50 per second, 51 turns then take
// 50 / 47.5 s = 1.053 s, and no lateness below 53 ms squeezes 51 requests into one second. The limit itself cancels out.
constexpr std::int64_t percent_of_allowance = 95;

// Of those 53 ms, a caller may use up 20. A turn missed by more is let go, and the caller takes another: so a process that
// was stopped for half a second does not send all that was due meanwhile in one burst. The rest is for network and vendor.
constexpr auto longest_lateness = 20ms;

/// Waits for this call's turn. False if it would come after `end`.
asio::awaitable<bool> wait_for_turn(const throttle& throttle, time_point end) {
  for (;;) {
    const auto asked = now();
    const weir::decision d = co_await throttle.limiter.record(throttle.account);

    // Allowed: a place in the queue is ours, `delay` away from its head. Refused: the queue is full for so long.
    const auto pause = d.allowed ? d.delay : d.retry_after;
    if (pause > 0us) co_await sleep_until(std::min(now() + pause, end));
    if (now() >= end) co_return false;

    // Counted from the asking, the lateness includes that of the store's answer.
    if (d.allowed && now() - asked <= d.delay + longest_lateness) co_return true;
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
      results->waits.push_back(std::chrono::duration_cast<std::chrono::microseconds>(sent - wanted));
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

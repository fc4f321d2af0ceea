// Tutorial 2: waiting.
//
// A refusal says when the same request would pass (`retry_after`): wait that long with a timer, and
// try again. A leaky bucket goes further: it lets the request in and says how long to wait for its
// turn (`delay`), which spaces requests evenly.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <iostream>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

auto in_ms(std::chrono::microseconds time) {
  return std::chrono::ceil<std::chrono::milliseconds>(time).count();
}

asio::awaitable<void> sleep_for(std::chrono::microseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::deferred);
}

// Tries until the request passes. retry_after is rounded up, so one who waits that long is never
// early; but others may come meanwhile and take the place, hence a loop.
asio::awaitable<weir::decision> record_when_possible(weir::limiter limiter,
                                                     std::string_view subject) {
  for (;;) {
    const weir::decision d = co_await limiter.record(subject);
    if (d.allowed) co_return d;
    std::cout << "  refused, waiting " << in_ms(d.retry_after) << " ms\n";
    co_await sleep_for(d.retry_after);
  }
}

asio::awaitable<void> retry_after(weir::store store) {
  std::cout << "a token bucket of 2, refilled with 10 per second:\n";
  weir::limiter mails{store, "tutorial-mails",
                      weir::token_bucket{.capacity = 2, .refill = weir::per_second(10)}};
  co_await mails.reset("newsletter");

  // Two pass at once. The other three wait for a token each, and tokens come every 100 ms.
  weir::time_point first, last;
  for (int i = 1; i <= 5; ++i) {
    const weir::decision d = co_await record_when_possible(mails, "newsletter");
    if (i == 1) first = d.at;
    last = d.at;
    std::cout << "  mail " << i << " may go\n";
  }
  // `at` is the time of the decision on the store's own clock. Waiting can only be longer than
  // planned.
  expect(last - first >= 300ms, "five mails should need three refills");
}

asio::awaitable<void> delay(weir::store store) {
  std::cout << "a leaky bucket of 5 that drains at 20 per second:\n";
  weir::limiter pages{store, "tutorial-pages",
                      weir::leaky_bucket{.capacity = 5, .leak = weir::per_second(20)}};
  co_await pages.reset("crawler");

  weir::time_point turn_before{};
  for (int i = 1; i <= 5; ++i) {
    const weir::decision d = co_await pages.record("crawler");
    expect(d.allowed, "the bucket should hold five");
    std::cout << "  page " << i << " has its turn in " << in_ms(d.delay) << " ms\n";
    // A turn is never less than the spacing after the turn before. (Microseconds are whole; 50 ms
    // is.)
    const weir::time_point turn = d.at + d.delay;
    if (i > 1) expect(turn - turn_before >= 50ms, "turns should be 50 ms apart");
    turn_before = turn;
    // A real crawler would now do: co_await sleep_for(d.delay), then fetch the page.
  }
}

asio::awaitable<void> example(weir::store store) {
  co_await retry_after(store);
  co_await delay(store);
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

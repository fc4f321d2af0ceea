// Tutorial 2: waiting.
//
// `record` answers at once. A caller that would rather wait asks with `acquire`: the store books
// the turn, in order of arrival, and the caller sleeps until then, once. No loop is needed, and
// callers of other processes wait in the same order.
#include <boost/asio/awaitable.hpp>
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

// `at` is the time of the answer on the store's own clock, and `delay` how long it was from then
// until the turn. When acquire() returns, the turn has come.
weir::time_point turn_of(const weir::decision& d) { return d.decided_at + d.delay; }

asio::awaitable<void> wait_for_the_turn(weir::store store) {
  std::cout << "a token bucket of 2, refilled with 10 per second:\n";
  weir::limiter mails{store, "tutorial-mails",
                      weir::token_bucket{.capacity = 2, .refill = weir::per_second(10)}};
  co_await mails.reset("newsletter");

  // Two pass at once. The other three wait for a token each, and tokens come every 100 ms.
  weir::time_point first, last;
  for (int i = 1; i <= 5; ++i) {
    const weir::decision d = co_await mails.acquire("newsletter");
    std::cout << "  mail " << i << " may go, after " << in_ms(d.delay) << " ms\n";
    expect(d.allowed, "a turn within the next seconds is waited for");
    if (i == 1) first = turn_of(d);
    last = turn_of(d);
  }
  expect(last - first >= 300ms, "five mails should need three refills");
}

asio::awaitable<void> wait_no_longer_than(weir::store store) {
  std::cout << "one report an hour:\n";
  weir::limiter reports{store, "tutorial-reports",
                        weir::token_bucket{.capacity = 1, .refill = weir::per_hour(1)}};
  co_await reports.reset("daily");

  const weir::decision first = co_await reports.acquire("daily");
  expect(first.allowed, "the first report should pass at once");

  // The next turn is an hour away. A caller waits for 10 s at the most, unless it says otherwise;
  // if its turn lies further away, it is refused at once, and nothing is booked.
  const weir::decision second = co_await reports.acquire("daily", {.max_wait = 2s});
  std::cout << "  the second is refused; ask again in " << in_ms(second.retry_after) << " ms\n";
  expect(!second.allowed, "nobody should wait for an hour here");
  expect(second.retry_after > 30min, "it would be booked 2 s before its turn");
  expect((co_await reports.fetch("daily")).used == 1, "a refusal should count nothing");
}

asio::awaitable<void> wait_evenly(weir::store store) {
  std::cout << "a leaky bucket that drains at 20 per second:\n";
  weir::limiter pages{store, "tutorial-pages",
                      weir::leaky_bucket{.capacity = 5, .leak = weir::per_second(20)}};
  co_await pages.reset("crawler");

  // A leaky bucket lets no two through at once: turns are evenly spaced. (record() would answer at
  // once and name the `delay`, for a caller that sleeps by itself.)
  weir::time_point turn_before{};
  for (int i = 1; i <= 5; ++i) {
    const weir::decision d = co_await pages.acquire("crawler");
    std::cout << "  page " << i << " may be fetched, after " << in_ms(d.delay) << " ms\n";
    expect(d.allowed, "the next turn is 50 ms away at the most");
    if (i > 1) expect(turn_of(d) - turn_before >= 50ms, "turns should be 50 ms apart");
    turn_before = turn_of(d);
  }
}

asio::awaitable<void> example(weir::store store) {
  co_await wait_for_the_turn(store);
  co_await wait_no_longer_than(store);
  co_await wait_evenly(store);
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

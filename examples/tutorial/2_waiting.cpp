// Tutorial 2: waiting.
//
// `record` answers at once. A caller that would rather wait calls `acquire`: the store makes a
// reservation, in order of arrival, and the caller sleeps once until then. No loop is needed, and
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

// `decided_at` is the time of the answer on the store's clock, and `delay` the time from then until
// the reservation. When acquire() completes, that time has come.
weir::time_point reserved_time(const weir::decision& d) { return d.decided_at + d.delay; }

asio::awaitable<void> wait_in_order(weir::store store) {
  std::cout << "a token bucket of 2, refilled with 10 per second:\n";
  weir::limiter mails{store, "tutorial-mails",
                      weir::token_bucket{.capacity = 2, .refill = weir::per_second(10)}};
  co_await mails.reset("newsletter");

  // Two pass at once. The other three wait for a token each, and tokens come every 100 ms.
  weir::time_point first, last;
  for (int i = 1; i <= 5; ++i) {
    const weir::decision d = co_await mails.acquire("newsletter");
    std::cout << "  mail " << i << " may go, after " << in_ms(d.delay) << " ms\n";
    expect(d.allowed, "a reservation within the next seconds is waited for");
    if (i == 1) first = reserved_time(d);
    last = reserved_time(d);
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

  // The next reservation would be an hour ahead. A caller waits for up to 10 s unless it gives a
  // max_wait. Beyond that, the call is refused at once, and nothing is reserved.
  const weir::decision second = co_await reports.acquire("daily", {.max_wait = 2s});
  std::cout << "  the second is refused; ask again in " << in_ms(second.retry_after) << " ms\n";
  expect(!second.allowed, "nobody should wait for an hour here");
  expect(second.retry_after > 30min, "it would be accepted 2 s before its time");
  expect((co_await reports.fetch("daily")).used == 1, "a refusal should count nothing");
}

asio::awaitable<void> wait_evenly(weir::store store) {
  std::cout << "a leaky bucket that drains at 20 per second:\n";
  weir::limiter pages{store, "tutorial-pages",
                      weir::leaky_bucket{.capacity = 5, .leak = weir::per_second(20)}};
  co_await pages.reset("crawler");

  // The reservations of a leaky bucket are evenly spaced. (record() would answer at once with the
  // `delay`, for a caller that sleeps by itself.)
  weir::time_point before{};
  for (int i = 1; i <= 5; ++i) {
    const weir::decision d = co_await pages.acquire("crawler");
    std::cout << "  page " << i << " may be fetched, after " << in_ms(d.delay) << " ms\n";
    expect(d.allowed, "the next reservation is at most 50 ms away");
    if (i > 1) expect(reserved_time(d) - before >= 50ms, "reservations should be 50 ms apart");
    before = reserved_time(d);
  }
}

asio::awaitable<void> example(weir::store store) {
  co_await wait_in_order(store);
  co_await wait_no_longer_than(store);
  co_await wait_evenly(store);
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

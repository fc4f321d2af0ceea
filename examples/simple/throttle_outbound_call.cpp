// Keeping to a vendor's limit.
//
// The vendor allows 50 calls in any second and answers 429 to more. Forty coroutines have two calls
// each to make, all at once. acquire() makes a reservation for each call, and the call sleeps once
// until then. With a leaky bucket, the calls leave evenly spaced.
//
//     throttle_outbound_call [redis://127.0.0.1:6379]
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>
#include <vector>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::rethrow;
using examples::sleep_for;

namespace {

// The pretended vendor: it counts for itself, as vendors do.
class vendor {
 public:
  int call() { return limit_.allowed() ? 200 : 429; }

 private:
  weir::local_limiter<weir::sliding_log> limit_{weir::sliding_log{.limit = 50, .window = 1s}};
};

// What this program did, for the lines at the end.
struct tally {
  int done = 0;
  int status_429 = 0;
  int refused = 0;
  std::vector<weir::time_point> reserved;
};

asio::awaitable<void> call_vendor(weir::limiter limiter, vendor& api, tally& t) {
  for (;;) {
    const weir::decision d = co_await limiter.acquire("our-account", {.max_wait = 10s});
    // The reservation would be further ahead; a service would say that it is busy
    if (!d.allowed) {
      ++t.refused;
      co_return;
    }
    t.reserved.push_back(d.decided_at + d.delay);
    if (api.call() == 200) break;
    // Possible in spite of the limiter: networks and busy machines bunch up what left evenly.
    ++t.status_429;
    co_await sleep_for(100ms);
  }
  ++t.done;
}

asio::awaitable<void> worker(weir::limiter limiter, vendor& api, tally& t) {
  co_await call_vendor(limiter, api, t);
  co_await call_vendor(limiter, api, t);
}

}  // namespace

int main(int argc, char** argv) try {
  // 40 a second, a little below what the vendor allows: calls do not arrive as evenly as they
  // leave.
  const weir::leaky_bucket pace{.capacity = 60, .leak = weir::per_second(40)};

  asio::io_context context;
  vendor api;
  tally t;
  {
    weir::store store = weir::open_store(context.get_executor(), examples::store_url(argc, argv));
    weir::limiter limiter{store, "throttle-outbound-example", pace};
    for (int i = 0; i < 40; ++i) {
      asio::co_spawn(context, worker(limiter, api, t), rethrow);
    }
  }  // from here on, only the workers hold the store: it closes with the last of them
  context.run();

  std::ranges::sort(t.reserved);
  std::cout << t.done << " calls done in " << (t.reserved.back() - t.reserved.front()) / 1ms
            << " ms, " << t.status_429 << " answered with 429, " << t.refused << " refused\n";

  expect(t.done == 80 && t.refused == 0, "every call is made in the end");
  for (std::size_t i = 1; i < t.reserved.size(); ++i) {
    expect(t.reserved[i] - t.reserved[i - 1] >= 25ms, "reservations are 25 ms apart");
  }
} catch (const std::exception& e) {
  return examples::failed(e);
}

// A server limits each of its clients in its own process: no store, no coroutines. A
// local_keyed_limiter counts each key apart; any thread may call it.
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <weir/local_keyed_limiter.hpp>

using namespace std::chrono_literals;

namespace {

// Every example is run as a test, so it looks at its own numbers.
void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

// This example sets the time. Without this argument, the limiter uses the system's clock.
weir::time_point now{1'700'000'000s};
weir::time_point read_clock() { return now; }

using client_limiter = weir::local_keyed_limiter<weir::token_bucket>;

/// What the server answers.
int status_of(client_limiter& limiter, std::string_view client) {
  return limiter.allowed(client) ? 200 : 429;
}

void each_client_has_its_own_limit(client_limiter& limiter) {
  int served = 0;
  for (int i = 0; i < 50; ++i) served += status_of(limiter, "203.0.113.7") == 200 ? 1 : 0;
  expect(served == 20, "a burst of 20");
  expect(status_of(limiter, "198.51.100.23") == 200, "another client is not affected");

  // record() says when to come back.
  const weir::decision refused = limiter.record("203.0.113.7");
  std::cout << "the busy client: " << served << " of 50 requests, and Retry-After "
            << refused.retry_after.count() / 1000 << " ms\n";
  expect(!refused.allowed && refused.retry_after == 100ms, "one token at 10 per second");
}

// 100,000 clients come once each. The limiter remembers 10,000 clients at most; the busy one is not
// among those that it forgets.
void memory_is_bounded(client_limiter& limiter) {
  for (int i = 0; i < 100'000; ++i) (void)limiter.allowed("client " + std::to_string(i));
  std::cout << "after 100,000 more clients: " << limiter.size() << " are remembered, "
            << limiter.evicted() << " were forgotten early\n";
  expect(limiter.size() == 10'000, "max_keys");
  expect(status_of(limiter, "203.0.113.7") == 429, "the busy client is still refused");
}

}  // namespace

int main() try {
  client_limiter limiter{
      {.capacity = 20, .refill = weir::per_second(10)}, {.max_keys = 10'000}, read_clock};
  each_client_has_its_own_limit(limiter);
  memory_is_bounded(limiter);
} catch (const std::exception& e) {
  std::cerr << "failed: " << e.what() << "\n";
  return 1;
}

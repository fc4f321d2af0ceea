// Limits inside one process: no store, no subjects, no coroutines. allowed() of a
// local_limiter counts and answers; any thread may call it.
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <weir/local_limiter.hpp>

using namespace std::chrono_literals;

namespace {

// Every example is run as a test, so it looks at its own numbers.
void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

// This example sets the time. Without this argument, a local_limiter uses the system's clock.
weir::time_point now{1'700'000'000s};
weir::time_point read_clock() { return now; }

template <class Policy>
int passed_of(weir::local_limiter<Policy>& limiter, int requests) {
  int passed = 0;
  for (int i = 0; i < requests; ++i) passed += limiter.allowed() ? 1 : 0;
  return passed;
}

// A window that starts with the first request. Simple, but two bursts may meet at its border.
void fixed() {
  weir::local_limiter limiter{weir::fixed_window{.limit = 5, .window = 10s}, read_clock};
  expect(limiter.allowed(), "the first request opens the window");
  now += 9'999ms;
  const int before = passed_of(limiter, 10);
  now += 1ms;
  const int after = passed_of(limiter, 10);
  std::cout << "fixed window, 5 per 10 s: " << before << " pass just before its end, and " << after
            << " a millisecond later\n";
  expect(before == 4 && after == 5, "both sides of the border are used up");
}

// A moving window over two counters: what passed shortly before still weighs.
void moving() {
  weir::local_limiter limiter{weir::sliding_window{.limit = 5, .window = 10s}, read_clock};
  now = weir::time_point{1'700'000'009s} +
        999ms;  // windows are aligned to the clock: this one ends in 1 ms
  const int before = passed_of(limiter, 10);
  now += 1ms;
  const int after = passed_of(limiter, 10);
  now += 4s;  // 6 s of the previous window are still covered: its 5 weigh 3
  const int later = passed_of(limiter, 10);
  std::cout << "moving window, 5 per 10 s: " << before << " pass just before the border, " << after
            << " after it, " << later << " four seconds later\n";
  expect(before == 5 && after == 0 && later == 2, "no burst at the border");
}

// Tokens that come continuously, and a bucket that holds some for a burst.
void tokens() {
  weir::local_limiter limiter{weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)},
                              read_clock};
  const int burst = passed_of(limiter, 50);
  now += 55ms;  // 5 tokens and a half; the half is kept
  const int first = passed_of(limiter, 50);
  now += 5ms;
  const int second = passed_of(limiter, 50);
  std::cout << "token bucket of 20, 100 per second: " << burst << " at once, " << first
            << " after 55 ms, " << second << " after 5 ms more\n";
  expect(burst == 20 && first == 5 && second == 1, "not even half a token is lost");
}

// record() gives the whole decision, and a request may cost more than one unit.
void decisions() {
  weir::local_limiter limiter{weir::gcra{.rate = weir::per_second(10), .burst = 4}, read_clock};
  expect(limiter.record(3).allowed, "3 of 4");
  const weir::decision d = limiter.record(3);
  std::cout << "gcra, 10 per second, burst 4: a second request for 3 units may come in "
            << d.retry_after.count() / 1000 << " ms\n";
  expect(!d.allowed && d.retry_after == 200ms, "two units are missing, at 100 ms each");
}

}  // namespace

int main() try {
  fixed();
  moving();
  tokens();
  decisions();
} catch (const std::exception& e) {
  std::cerr << "failed: " << e.what() << "\n";
  return 1;
}

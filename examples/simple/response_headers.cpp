// The other side: a service that limits its own clients turns a decision into the headers of its
// response.
//
//     response_headers [redis://127.0.0.1:6379]
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

struct response {
  int status;
  std::string headers;
};

/// When more is allowed. `reset_after` is the time until nothing is in use: for a window its end,
/// for a bucket the time until it is full, long after the next call would pass. (With several
/// tiers, it is the longest of all: not the time for the tier whose numbers the decision has.)
///
/// `per_unit`: in which time a bucket gets one unit back; zero for a window.
std::chrono::microseconds until_more(const weir::decision& d, std::chrono::microseconds per_unit) {
  if (!d.allowed) return d.retry_after;
  return d.remaining == 0 ? d.reset_after - (d.limit - 1) * per_unit : d.reset_after;
}

response to_response(const weir::decision& d, std::chrono::microseconds per_unit) {
  // Whole seconds in HTTP. Rounded up: a client that comes early is refused again.
  const auto seconds = [](std::chrono::microseconds t) {
    return std::to_string(std::chrono::ceil<std::chrono::seconds>(t).count());
  };
  response r{d.allowed ? 200 : 429, {}};
  r.headers = "RateLimit-Limit: " + std::to_string(d.limit) + "\n" +
              "RateLimit-Remaining: " + std::to_string(d.remaining) + "\n" +
              "RateLimit-Reset: " + seconds(until_more(d, per_unit)) + "\n";
  if (!d.allowed) r.headers += "Retry-After: " + seconds(d.retry_after) + "\n";
  return r;
}

asio::awaitable<void> example(weir::store store) {
  // A quota from midnight to midnight UTC: anchor::epoch. The offset moves it, here to 03:00.
  weir::limiter quota{
      store, "response-headers-example",
      weir::fixed_window{.limit = 2, .window = 24h, .anchor = weir::anchor::epoch, .offset = 3h}};
  co_await quota.reset("client-7");

  weir::time_point end_before{};
  int used = 0;
  for (int i = 0; i < 3; ++i) {
    const weir::decision d = co_await quota.record("client-7");
    const response r = to_response(d, 0s);
    std::cout << r.status << "\n" << r.headers << "\n";

    const weir::time_point end = d.decided_at + d.reset_after;
    expect(end.time_since_epoch() % 24h == 3h, "the quota ends at 03:00");
    // Only in case that 03:00 comes while this runs: the count starts anew then.
    if (end != end_before) used = 0;
    end_before = end;
    used = std::min(used + 1, 3);
    expect(r.status == (used <= 2 ? 200 : 429), "two a day");
    expect((r.headers.find("Retry-After") != std::string::npos) == (r.status == 429),
           "Retry-After comes with 429 only");
  }

  // Ten at once, then one a minute: the headers announce the minute, not the ten.
  weir::limiter bucket{store, "response-headers-example",
                       weir::token_bucket{.capacity = 10, .refill = weir::per_minute(1)}};
  co_await bucket.reset("client-7");
  for (int i = 0; i < 11; ++i) {
    const weir::decision d = co_await bucket.record("client-7");
    const response r = to_response(d, 1min);
    if (i < 9) continue;
    std::cout << r.status << "\n" << r.headers << "\n";
    expect(r.status == (i < 10 ? 200 : 429), "ten at once");
    const bool in_a_minute = r.headers.find("RateLimit-Reset: 60\n") != std::string::npos ||
                             r.headers.find("RateLimit-Reset: 59\n") != std::string::npos;
    expect(in_a_minute && d.reset_after > 9min, "the next passes in a minute");
  }
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

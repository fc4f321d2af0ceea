// A sliding window of one second: five records, and fetch says 5; wait one second, record, and
// fetch says what the formula gives for (5, 1, now): the previous window's count, weighted by the
// part of it that the sliding window still covers, plus the current one's.
//
//     sliding_window [redis://127.0.0.1:6379]
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::sleep_for;

namespace {

constexpr std::int64_t window = 1'000'000;  // us

// The policy by its formula, fed with the times of the decisions. Whichever windows the records
// fall into (five of them may well lie on both sides of a border), this is what has to come out.
class formula {
 public:
  void record_at(weir::time_point t) { ++counts_[t.time_since_epoch().count() / window]; }

  // Rounded up, as `decision::used` is.
  std::int64_t used_at(weir::time_point t) {
    const std::int64_t now = t.time_since_epoch().count();
    const std::int64_t elapsed = now % window;
    const std::int64_t previous = counts_[now / window - 1];
    const std::int64_t current = counts_[now / window];
    return (previous * (window - elapsed) + window - 1) / window + current;
  }

 private:
  std::map<std::int64_t, std::int64_t> counts_;  // by the window's number since the epoch
};

asio::awaitable<void> example(weir::store store) {
  weir::limiter visits{store, "sliding-window-example",
                       weir::sliding_window{.limit = 100, .window = 1s}};
  co_await visits.reset("alice");

  formula expected;
  for (int i = 0; i < 5; ++i) {
    const weir::decision d = co_await visits.record("alice");
    expected.record_at(d.decided_at);
    expect(d.used == expected.used_at(d.decided_at), "each record adds one");
  }
  weir::decision d = co_await visits.fetch("alice");
  std::cout << "five records\nfetch: " << d.used << "\n";
  expect(d.used == expected.used_at(d.decided_at), "fetch adds none");

  std::cout << "wait one second, record\n";
  co_await sleep_for(1s);
  d = co_await visits.record("alice");
  expected.record_at(d.decided_at);

  d = co_await visits.fetch("alice");
  const std::int64_t percent = d.decided_at.time_since_epoch().count() % window * 100 / window;
  std::cout << "fetch: " << d.used << ", " << percent << "% of the current window having passed\n";
  expect(d.used == expected.used_at(d.decided_at),
         "the previous window weighs as much as is still covered");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

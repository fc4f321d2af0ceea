// A sliding log of one second: three records 300 ms apart, and fetch says 3; wait 600 ms, record,
// and it says 2, because the first two are more than a second old by then.
//
//     sliding_log [redis://127.0.0.1:6379]
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <iostream>
#include <vector>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::sleep_for;

namespace {

asio::awaitable<void> example(weir::store store) {
  weir::limiter visits{store, "sliding-log-example", weir::sliding_log{.limit = 100, .window = 1s}};
  co_await visits.reset("alice");

  // The log by definition: a request made at t counts while now - t < window. Computed from the
  // decisions' own times, so that a slow machine gets other numbers but no failure.
  std::vector<weir::time_point> log;
  const auto count_at = [&log](weir::time_point now) {
    return std::ranges::count_if(log, [now](weir::time_point t) { return now - t < 1s; });
  };

  for (int i = 0; i < 3; ++i) {
    const weir::decision d = co_await visits.record("alice");
    log.push_back(d.decided_at);
    std::cout << "record: " << d.used << "\n";
    expect(d.used == count_at(d.decided_at), "each record adds one");
    co_await sleep_for(300ms);
  }

  weir::decision d = co_await visits.fetch("alice");
  std::cout << "fetch:  " << d.used << "\n";
  expect(d.used == count_at(d.decided_at), "fetch adds none");

  std::cout << "wait 600 ms\n";
  co_await sleep_for(600ms);

  d = co_await visits.record("alice");
  log.push_back(d.decided_at);
  std::cout << "record: " << d.used << "\n";
  expect(d.used == count_at(d.decided_at), "what is older than the window does not count");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

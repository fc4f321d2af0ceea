// A fixed window of one second: record three times, and the count says 1, 2, 3; wait one window,
// record, and it says 1.
//
//     fixed_window [redis://127.0.0.1:6379]
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <iostream>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::sleep_for;

namespace {

// What the count has to be, from the times of the decisions alone: so a slow machine, on which
// three records take longer than the window, does not make the example fail.
class expected_count {
 public:
  std::int64_t after_record_at(weir::time_point t) {
    if (count_ == 0 || t >= start_ + 1s) {
      start_ = t;
      count_ = 0;
    }
    return ++count_;
  }

 private:
  weir::time_point start_{};
  std::int64_t count_ = 0;
};

asio::awaitable<void> example(weir::store store) {
  // Unlimited: nothing is refused, and the policy only counts.
  weir::limiter visits{store, "fixed-window-example",
                       weir::fixed_window{.limit = weir::unlimited, .window = 1s}};
  co_await visits.reset("alice");

  expected_count expected;
  for (int i = 0; i < 3; ++i) {
    const weir::decision d = co_await visits.record("alice");
    std::cout << "record: " << d.used << "\n";
    expect(d.used == expected.after_record_at(d.decided_at), "the count of the window");
  }

  std::cout << "wait one second\n";
  co_await sleep_for(1s);

  const weir::decision d = co_await visits.record("alice");
  std::cout << "record: " << d.used << "\n";
  expect(d.used == 1 && expected.after_record_at(d.decided_at) == 1, "a new window");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

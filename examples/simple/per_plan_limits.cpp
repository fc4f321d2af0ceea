// Limits by plan: the free plan gets 3 exports an hour, the pro plan 10.
//
// Each plan is a limiter. Both have the same resource name and the same kind of policy with the
// same window, so they share one count: a customer that changes the plan keeps what it has used. If
// plans should count apart, give them different resource names ("exports/free",
// "exports/pro"). refund() and settle() need the limiter that made the decision: keep it with the
// decision.
//
//     per_plan_limits [redis://127.0.0.1:6379]
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <iostream>
#include <string_view>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

enum class plan { free, pro };

class export_limits {
 public:
  explicit export_limits(const weir::store& store)
      : free_(store, "exports", weir::fixed_window{.limit = 3, .window = 1h}),
        pro_(store, "exports", weir::fixed_window{.limit = 10, .window = 1h}) {}

  // Limiters are made once and kept; choosing one costs nothing.
  const weir::limiter& of(plan p) const { return p == plan::pro ? pro_ : free_; }

 private:
  weir::limiter free_;
  weir::limiter pro_;
};

asio::awaitable<weir::decision> export_report(const export_limits& limits, std::string_view user,
                                              plan p) {
  const weir::decision d = co_await limits.of(p).record(user);
  std::cout << user << " (" << (p == plan::pro ? "pro" : "free")
            << "): " << (d.allowed ? "exported" : "refused") << ", " << d.used << " of " << d.limit
            << " used\n";
  co_return d;
}

asio::awaitable<void> example(weir::store store) {
  const export_limits limits(store);
  co_await limits.of(plan::free).reset("alice");
  co_await limits.of(plan::pro).reset("bob");

  for (int i = 1; i <= 4; ++i) {
    const weir::decision d = co_await export_report(limits, "alice", plan::free);
    expect(d.allowed == (i <= 3), "three on the free plan");
  }
  for (int i = 1; i <= 4; ++i) {
    const weir::decision d = co_await export_report(limits, "bob", plan::pro);
    expect(d.allowed, "ten on the pro plan");
  }

  std::cout << "alice upgrades\n";
  const weir::decision d = co_await export_report(limits, "alice", plan::pro);
  expect(d.allowed && d.used == 4 && d.remaining == 6, "what she used before still counts");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

// One limit for the resource in total and one for each consumer, in one step: 5 calls in 10 s for
// all, 3 for each. If one limiter refuses a call, the other does not count it.
#include "../example.hpp"

namespace {

using namespace std::chrono_literals;
using examples::expect;

std::string describe(const weir::decision& d) {
  if (d.allowed) return "OK";
  return d.tier == 0 ? "RESOURCE OVERLIMIT" : "CONSUMER OVERLIMIT";
}

boost::asio::awaitable<void> example(weir::store store) {
  // Limiters of one group share a slot of a Redis Cluster, so they can be asked together.
  weir::limiter resource{store, "partner", weir::sliding_log{5, 10s}, {.group = "partner"}};
  weir::limiter consumer{store, "consumer", weir::sliding_log{3, 10s}, {.group = "partner"}};
  // An earlier run may have counted here.
  co_await resource.reset("all");
  co_await consumer.reset("anna");
  co_await consumer.reset("ben");

  std::string seen;
  for (const char* who : {"anna", "anna", "anna", "anna", "ben", "ben", "ben"}) {
    const weir::decision d = co_await weir::record_all(resource.on("all"), consumer.on(who));
    std::cout << who << ": " << describe(d) << "\n";
    seen += d.allowed ? 'o' : d.tier == 0 ? 'R' : 'C';
  }
  expect(seen == "oooCooR", "anna gets 3, both together 5");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

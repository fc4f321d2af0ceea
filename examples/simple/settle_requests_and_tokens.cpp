// One call to a model counts twice: as a request, and for its tokens. Both are taken in one step,
// and settled in one step when the response tells how many tokens it really was.
#include "../example.hpp"

namespace {

using namespace std::chrono_literals;
using examples::expect;

/// What a model's API says of a response.
struct usage {
  std::int64_t total_tokens;
};
usage ask_the_model(std::int64_t tokens) { return {tokens}; }

boost::asio::awaitable<void> example(weir::store store) {
  // Limiters of one group share a slot of a Redis Cluster, so they can be asked together.
  weir::limiter requests{
      store, "model-requests", weir::fixed_window{.limit = 3, .window = 24h}, {.group = "model"}};
  weir::limiter tokens{store,
                       "model-tokens",
                       weir::token_bucket{.capacity = 10'000, .refill = weir::per_day(10'000)},
                       {.group = "model"}};
  // An earlier run may have counted here.
  co_await requests.reset("team-7");
  co_await tokens.reset("team-7");

  // The prompt and max_tokens: what the call costs at the most.
  weir::joint_decision d = co_await weir::record_all(requests.on("team-7"),
                                                     tokens.on("team-7", 4000));
  expect(d.allowed, "both have room");
  const usage used = ask_the_model(1212);
  co_await weir::settle_all(d, requests.on("team-7"), tokens.on("team-7", used.total_tokens));
  weir::decision left = co_await tokens.fetch("team-7");
  std::cout << "it took 1212: " << left.remaining << " tokens remain\n";
  expect(left.remaining == 8788, "2788 came back");

  // A call that was not made after all gives both back.
  d = co_await weir::record_all(requests.on("team-7"), tokens.on("team-7", 4000));
  const weir::decision back = co_await weir::refund_all(d, requests.on("team-7"),
                                                        tokens.on("team-7"));
  std::cout << "not made: " << back.remaining << " requests remain\n";
  expect(back.allowed && back.remaining == 2, "only the first request counts");

  // A call that cost more tokens than the estimate, and that the vendor does not count as a
  // request.
  d = co_await weir::record_all(requests.on("team-7"), tokens.on("team-7", 4000));
  co_await weir::settle_all(d, requests.on("team-7", 0),
                            tokens.on("team-7", ask_the_model(9000).total_tokens));
  d = co_await weir::record_all(requests.on("team-7"), tokens.on("team-7", 100));
  std::cout << "in debt: the next 100 tokens in "
            << std::chrono::duration_cast<std::chrono::minutes>(d.retry_after).count() << " min\n";
  expect(!d.allowed && d.tier == 1, "212 tokens too many; there is room for two requests");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

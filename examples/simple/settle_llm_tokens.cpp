// The true cost of a call is known afterwards: record an upper estimate, then settle the actual
// cost.
#include "../example.hpp"

namespace {

using examples::expect;

/// What a model's API says of a response.
struct usage {
  std::int64_t total_tokens;
};
usage ask_the_model(std::int64_t tokens) { return {tokens}; }

boost::asio::awaitable<void> example(weir::store store) {
  weir::limiter tokens{store, "model-tokens",
                       weir::token_bucket{.capacity = 10'000, .refill = weir::per_day(10'000)}};
  co_await tokens.reset("team-7");  // an earlier run may have counted here

  weir::decision d = co_await tokens.record("team-7", {.cost = 4000});
  expect(d.allowed && d.remaining == 6000, "4000 are taken");
  weir::decision now = co_await tokens.settle("team-7", d, ask_the_model(1212).total_tokens);
  std::cout << "it took 1212: " << now.remaining << " remain\n";
  expect(now.remaining == 8788, "2788 came back");

  // A call that was not made after all.
  d = co_await tokens.record("team-7", {.cost = 4000});
  now = co_await tokens.refund("team-7", d);
  std::cout << "not made: " << now.remaining << " remain\n";
  expect(now.remaining == 8788, "all of it came back");
  now = co_await tokens.refund("team-7", d);
  expect(!now.allowed, "but only once");

  // A call that cost more than the estimate.
  d = co_await tokens.record("team-7", {.cost = 4000});
  co_await tokens.settle("team-7", d, ask_the_model(14'000).total_tokens);
  d = co_await tokens.record("team-7", {.cost = 100});
  std::cout << "in debt: the next 100 in "
            << std::chrono::duration_cast<std::chrono::hours>(d.retry_after).count() << " h\n";
  expect(!d.allowed && d.retry_after > std::chrono::hours{12}, "5212 too many are half a day");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

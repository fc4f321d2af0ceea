// A vendor that answers "429, come back later", and a fleet that obeys.
//
// A vendor may refuse calls for reasons that we cannot count: it is busy, or another client has
// used our allowance. One caller gets "429, Retry-After: 1" and passes the response to the limiter.
// From then on the limiter refuses every caller of that account, in every process, until the second
// is over.
//
//     cool_down [redis://127.0.0.1:6379]
#include <vector>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::sleep_for;

namespace {

struct response {
  int status = 200;
  std::vector<weir::header_field> headers = {};
};

// The pretended vendor: it answers its first call with 429. With Boost.Beast, a response
// goes into on_response as it is.
struct vendor {
  int calls = 0;

  response call() {
    if (calls++ == 0) return {.status = 429, .headers = {{"Retry-After", "1"}}};
    return {};
  }
};

struct tally {
  int done = 0;
  int cooling_down = 0;
};

asio::awaitable<void> call_vendor(weir::limiter limiter, vendor& api, tally& t) {
  for (;;) {
    const weir::decision d = co_await limiter.record("our-account");
    if (!d.allowed) {
      if (d.cooling_down) ++t.cooling_down;
      // It has random jitter, so that the callers do not return together.
      co_await sleep_for(d.retry_after);
      continue;
    }
    const response r = api.call();
    co_await limiter.on_response("our-account", r.status, r.headers);
    if (r.status == 200) break;
  }
  ++t.done;
}

asio::awaitable<void> example(weir::store store) {
  // 100 a second, as far as we know. With `cool_downs`, each check also reads whether the subject
  // is in a cool-down.
  const weir::limiter limiter(store, "held-back-example",
                              weir::token_bucket{.capacity = 100, .refill = weir::per_second(100)},
                              {.cool_downs = true});
  co_await limiter.reset("our-account");

  vendor api;
  tally t;
  asio::co_spawn(co_await asio::this_coro::executor, call_vendor(limiter, api, t),
                 examples::rethrow);
  for (;;) {
    const weir::decision d = co_await limiter.fetch("our-account");
    if (d.cooling_down) break;
    co_await sleep_for(1ms);
  }

  // Twenty more callers, which do not know of the 429.
  for (int i = 0; i < 20; ++i) {
    asio::co_spawn(co_await asio::this_coro::executor, call_vendor(limiter, api, t),
                   examples::rethrow);
  }
  while (t.done < 21) co_await sleep_for(50ms);

  std::cout << t.done << " calls done, " << t.cooling_down << " times told to wait, "
            << api.calls - t.done << " turned away by the vendor\n";
  expect(api.calls == 22, "the vendor turned away one call only");
  expect(t.cooling_down >= 1, "the others were told by the limiter");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

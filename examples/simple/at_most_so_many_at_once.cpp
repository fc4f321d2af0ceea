// At most three calls at once, in all processes together.
//
// Some vendors count what is in flight, not what is sent per second. Each caller enters through a
// gate, and its lease is its place: kept while the call lasts, given back at the end of the scope,
// and free again by itself if the whole process dies. If the place is lost meanwhile (the store
// could not be reached for too long, or forgot it), the call is cancelled.
//
//     at_most_so_many_at_once [redis://127.0.0.1:6379]
#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using examples::expect;
using examples::sleep_for;

namespace {

constexpr int at_once = 3;
constexpr int callers = 12;

struct tally {
  int in_flight = 0;
  int most = 0;
  int done = 0;
  int refused = 0;
};

asio::awaitable<void> call_vendor(tally& t) {
  t.most = std::max(t.most, ++t.in_flight);
  co_await sleep_for(20ms);
  --t.in_flight;
}

asio::awaitable<void> caller(weir::concurrency_limiter gate, tally& t) {
  for (;;) {
    weir::lease place = co_await gate.enter("our-account");
    if (!place) {
      // place.decision().retry_after is when a lease would lapse; usually one is given back before.
      ++t.refused;
      co_await sleep_for(10ms);
      continue;
    }
    // In a strand, or a context with one thread, as here. Elsewhere: place.cancel_when_lost(). And
    // only for a call that does not throw: `||` would go on to wait for the loss.
    // docs/concurrency.md says what to write then.
    const auto first = co_await (call_vendor(t) || place.lost(asio::use_awaitable));
    expect(first.index() == 0, "no place is lost here");
    break;
  }
  ++t.done;
}

asio::awaitable<void> example(weir::store store) {
  const weir::concurrency_limiter gate(store, "at-most-example",
                                       {.limit = at_once, .lease_duration = 30s});
  tally t;
  for (int i = 0; i < callers; ++i) {
    asio::co_spawn(co_await asio::this_coro::executor, caller(gate, t), examples::rethrow);
  }
  while (t.done < callers) co_await sleep_for(10ms);

  std::cout << t.done << " calls done, " << t.most << " at once, " << t.refused
            << " times told that the gate was full\n";
  expect(t.most == at_once, "never more than that, and at times so many");
  expect((co_await gate.fetch("our-account")).used == 0, "all places are given back");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

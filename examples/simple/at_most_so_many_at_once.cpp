// At most three calls at once, in all processes together.
//
// Some vendors limit the calls in flight, not the calls per second. Each caller takes a lease from
// a gate. The lease is kept while the call lasts, is given back at the end of the scope, and lapses
// if the process dies. If the lease is lost meanwhile (the store could not be reached for too long,
// or lost its data), the call is cancelled.
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
    weir::lease lease = co_await gate.enter("our-account");
    if (!lease) {
      // lease.decision().retry_after is when a lease would lapse; usually one is given back before.
      ++t.refused;
      co_await sleep_for(10ms);
      continue;
    }
    // `||` is for a strand, or a context with one thread, as here (elsewhere: cancel_when_lost()),
    // and for a call that does not throw: otherwise it waits for the loss. docs/concurrency.md says
    // what to write then.
    const auto first = co_await (call_vendor(t) || lease.lost(asio::use_awaitable));
    expect(first.index() == 0, "no lease is lost here");
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
  expect((co_await gate.fetch("our-account")).used == 0, "all leases are given back");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

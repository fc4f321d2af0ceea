// At most three calls at once, in all processes together.
//
// Some vendors limit the calls in flight, not the calls per second. Each caller takes a lease from
// a gate. The lease is kept while the call lasts, is given back at the end of the scope, and lapses
// if the process dies. If the lease is lost meanwhile (the store could not be reached for too long,
// or lost its data), the call is cancelled. If the call throws, its exception comes out at once,
// and the lease is given back.
//
//     calls_in_flight [redis://127.0.0.1:6379]
#include <algorithm>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <exception>
#include <stdexcept>
#include <utility>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;
using examples::sleep_for;

namespace {

constexpr int at_once = 3;
constexpr int callers = 12;

struct tally {
  int in_flight = 0;
  int most = 0;
  int done = 0;
  int failed = 0;
  int refused = 0;
};

struct connection_closed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The first call fails.
asio::awaitable<void> call_vendor(tally& t) {
  if (t.failed == 0) {
    ++t.failed;
    throw connection_closed("the vendor has closed the connection");
  }
  t.most = std::max(t.most, ++t.in_flight);
  co_await sleep_for(20ms);
  --t.in_flight;
}

/// Calls the vendor, and cancels the call if the lease is lost. For a context with one thread, as
/// here; docs/concurrency.md says what to write elsewhere.
asio::awaitable<void> call_while_held(const weir::lease& lease, tally& t) {
  auto executor = co_await asio::this_coro::executor;
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, call_vendor(t), asio::deferred), lease.lost());
  auto [order, failure, lost] = co_await std::move(race).async_wait(
      asio::experimental::wait_for_one(), asio::deferred);
  if (failure) std::rethrow_exception(failure);  // operation_aborted, if the lease was lost first
  expect(order[0] == 0, "no lease is lost here");
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
    try {
      co_await call_while_held(lease, t);
      break;
    } catch (const connection_closed& e) {
      std::cout << e.what() << ": once more\n";
    }
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
            << " times refused because the gate was full\n";
  expect(t.most == at_once, "three calls at once, and never more");
  expect((co_await gate.fetch("our-account")).used == 0, "all leases are given back");
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, example); }

// SIGTERM: the service takes no new work, gives the work under way a moment, and closes the store.
// Then run() returns. A caller that still waits gives its reservation back and gets store_closed.
//
//     shutdown [redis://127.0.0.1:6379]
#include <boost/asio/signal_set.hpp>
#include <boost/system/system_error.hpp>
#include <csignal>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::expect;

namespace {

struct service {
  weir::store store;
  weir::limiter limiter{store, "shutdown-example",
                        weir::token_bucket{.capacity = 3, .refill = weir::per_hour(1)}};
  bool accepting = true;
  int under_way = 0;
  int served = 0;
  int closed = 0;
};

asio::awaitable<void> serve(service& s) {
  if (!s.accepting) co_return;
  ++s.under_way;
  try {
    co_await s.limiter.acquire("everybody", {.max_wait = 24h});
    ++s.served;
  } catch (const boost::system::system_error& e) {
    // Its reservation has been given back. After outcome_unknown, it might still count.
    if (e.code() != weir::error::store_closed) throw;
    ++s.closed;
  }
  --s.under_way;
}

asio::awaitable<void> end_on_signal(service& s) {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  co_await signals.async_wait(asio::deferred);
  s.accepting = false;
  for (int i = 0; i < 10 && s.under_way > 0; ++i) co_await examples::sleep_for(10ms);
  s.store.close();
}

/// Plays the clients, and the process that sends the signal.
asio::awaitable<void> play(service& s) {
  const auto executor = co_await asio::this_coro::executor;
  co_await s.limiter.reset("everybody");
  for (int i = 0; i < 5; ++i) asio::co_spawn(executor, serve(s), examples::rethrow);
  while (s.served < 3) co_await examples::sleep_for(1ms);
  std::raise(SIGTERM);
}

}  // namespace

int main(int argc, char** argv) try {
  asio::io_context context;
  service s{weir::open_store(context.get_executor(), examples::store_url(argc, argv))};
  asio::co_spawn(context, end_on_signal(s), examples::rethrow);
  asio::co_spawn(context, play(s), examples::rethrow);
  context.run();

  std::cout << s.served << " served, " << s.closed << " told that the store was closed\n";
  expect(s.served == 3 && s.closed == 2, "the bucket had three tokens");
  expect(s.under_way == 0, "everybody has heard");
} catch (const std::exception& e) {
  return examples::failed(e);
}

// SIGTERM: the service takes no new work, gives the work under way a moment, and closes the store.
// Then run() returns. A caller that still waits gives its reservation back and gets store_closed.
//
//     shutdown [redis://127.0.0.1:6379]
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
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
  int refused = 0;
  int closed = 0;
};

/// Counts a call as under way until it ends, by an exception too.
class counted {
 public:
  explicit counted(int& count) : count_(++count) {}
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --count_; }

 private:
  int& count_;
};

asio::awaitable<void> serve(service& s) {
  if (!s.accepting) co_return;
  const counted here(s.under_way);
  const auto [ec, d] = co_await s.limiter.acquire("everybody", {.max_wait = 24h},
                                                  asio::as_tuple(asio::deferred));
  if (ec == weir::error::store_closed || ec == weir::error::outcome_unknown) {
    // After store_closed, the reservation has been given back. After outcome_unknown, the server
    // has not confirmed that, and the reservation may still count.
    ++s.closed;
  } else if (ec) {
    throw boost::system::system_error(ec);
  } else if (!d.allowed) {
    ++s.refused;  // the reservation would come after max_wait
  } else {
    ++s.served;
  }
}

asio::awaitable<void> end_on_signal(service& s) {
  const auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  co_await signals.async_wait(asio::deferred);
  s.accepting = false;
  asio::steady_timer timer(executor);
  for (int i = 0; i < 10 && s.under_way > 0; ++i) {
    timer.expires_after(10ms);
    co_await timer.async_wait(asio::deferred);
  }
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

  std::cout << s.served << " served, " << s.refused << " refused, " << s.closed
            << " ended by the close of the store\n";
  expect(s.served == 3 && s.closed == 2, "the bucket had three tokens");
  expect(s.under_way == 0, "every call has ended");
} catch (const std::exception& e) {
  return examples::failed(e);
}

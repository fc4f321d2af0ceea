// The README shows the lines between the two marks. A test compares them, so change both.
#include <chrono>
#include <stdexcept>
#include <string>

// README begin
#include <boost/asio.hpp>
#include <iostream>
#include <weir/weir.hpp>
namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> call_partner(weir::limiter& partner, std::string account) {
  // Reserves the first free time in the store, in one round trip, and sleeps until then.
  const weir::decision d = co_await partner.acquire(account, {.max_wait = 5s});
  if (!d.allowed) co_return;  // more than 5 s away: try again after d.retry_after
  std::cout << "calling the partner for " << account << "\n";
}

asio::awaitable<void> service(std::string url) {  // "memory://" or "redis://127.0.0.1:6379"
  weir::store store = weir::open_store(co_await asio::this_coro::executor, url);
  weir::limiter partner{store, "partner-api",
                        weir::token_bucket{.capacity = 2, .refill = weir::per_second(10)}};
  for (int i = 0; i < 5; ++i) co_await call_partner(partner, "account-42");
}
// README end

int main(int argc, char** argv) try {
  asio::io_context context;
  asio::co_spawn(context, service(argc > 1 ? argv[1] : "memory://"), [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  });
  const auto start = std::chrono::steady_clock::now();
  context.run();
  // Two tokens may be there already, the other three come one every 100 ms.
  if (std::chrono::steady_clock::now() - start < std::chrono::milliseconds{250}) {
    throw std::runtime_error("five calls were let through faster than the bucket allows");
  }
} catch (const std::exception& e) {
  std::cerr << "failed: " << e.what() << "\n";
  return 1;
}

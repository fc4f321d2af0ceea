// The last handle of a store goes away in one thread while another is still inside a call of it.
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <thread>

#include "weir/weir.hpp"

namespace last_handle_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::limiter;

constexpr weir::gcra one_per_us{.rate = weir::per_second(1'000'000), .burst = 1};

/// Two limiters of a store without other handles.
struct two_limiters {
  explicit two_limiters(const weir::store& s)
      : one(s, "one", one_per_us, {.group = "g"}), other(s, "other", one_per_us, {.group = "g"}) {}

  limiter one, other;
  std::array<weir::claim, 2> claims{one.on("a"), other.on("a")};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(last_handle_suite)

// The store looked at itself after it had let a waiter sleep, whose turn came at once: the waiter
// ended in another thread, and the store with it. The thread sanitizer sees that whenever it may
// happen.
BOOST_AUTO_TEST_CASE(a_memory_store_may_end_while_a_call_of_it_returns) {
  asio::io_context io;
  auto work = asio::make_work_guard(io);
  std::thread other([&] { io.run(); });
  std::atomic<int> answered{0}, allowed{0};
  constexpr int rounds = 500;
  for (int i = 0; i < rounds; ++i) {
    // The store's clock stands still: the first takes the turn of this microsecond, and the second
    // sleeps for the next one.
    auto both = std::make_unique<two_limiters>(weir::make_memory_store(
        io.get_executor(), {.clock = [] { return weir::time_point(1'000'000s); }}));
    for (const bool last : {false, true}) {
      const std::span<const weir::claim> claims(both->claims);
      auto owner = last ? std::move(both) : nullptr;
      weir::acquire_all(claims, {.max_wait = 1h},
                        [&, owner = std::move(owner)](weir::error_code ec, weir::decision d) {
                          allowed += !ec && d.allowed && (d.delay > 0us) == (owner != nullptr) ? 1
                                                                                               : 0;
                          ++answered;
                        });
    }
  }
  work.reset();
  other.join();
  BOOST_TEST(answered == 2 * rounds);
  BOOST_TEST(allowed == 2 * rounds);
}

BOOST_AUTO_TEST_CASE(a_store_without_other_handles_is_gone_when_the_last_handler_runs) {
  asio::io_context io;
  const auto token = std::make_shared<int>(0);
  long holders = 0;
  {
    const limiter last(weir::make_memory_store(io.get_executor(),
                                               {.clock = [token] { return weir::time_point{}; }}),
                       "r", one_per_us);
    last.record("a", [&](weir::error_code, weir::decision) { holders = token.use_count(); });
  }
  BOOST_TEST(token.use_count() > 1);  // the check keeps the store
  io.run();
  BOOST_TEST(holders == 1);
}

// The further limiters of a joint check kept the store until its handler had returned.
BOOST_AUTO_TEST_CASE(a_store_of_two_limiters_is_gone_when_the_last_handler_runs) {
  asio::io_context io;
  const auto token = std::make_shared<int>(0);
  long holders = 0;
  {
    const two_limiters last(weir::make_memory_store(
        io.get_executor(), {.clock = [token] { return weir::time_point{}; }}));
    weir::record_all(last.claims,
                     [&](weir::error_code, weir::decision) { holders = token.use_count(); });
  }
  BOOST_TEST(token.use_count() > 1);
  io.run();
  BOOST_TEST(holders == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace last_handle_test

// What waiting_line adds to the lines: who calls the store, and for how long.
#include "waiting/acquire_queue.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>

#include "support/run.hpp"
#include "support/watched_store.hpp"
#include "weir/memory_store.hpp"

namespace {

using weir::decision;
using weir::error_code;

/// A limiter whose store is asked for the next one while it is asked for one, up to `in_all`: as other threads would.
struct busy_limiter {
  boost::asio::io_context io;
  const int in_all;
  int asked = 0;
  int answered = 0;
  weir::store store{std::make_shared<weir::test::watched_store>(
      weir::make_memory_store(io.get_executor()), [this](const auto&) {
        if (++asked < in_all) wait();
      })};
  weir::limiter limiter{store, "r",
                        weir::token_bucket{.capacity = 10'000, .refill = weir::per_second(1)}};

  explicit busy_limiter(int n) : in_all(n) {}

  void wait() {
    limiter.acquire("a", {},
                    [this](error_code ec, const decision& d) { answered += !ec && d.allowed; });
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(waiting_line_suite)

BOOST_AUTO_TEST_CASE(nobody_is_kept_starting_what_others_keep_bringing) {
  busy_limiter busy(1000);
  busy.wait();
  BOOST_TEST(busy.asked < 100);
  weir::test::run_out(busy.io);
  BOOST_TEST(busy.asked == 1000);
  BOOST_TEST(busy.answered == 1000);
}

BOOST_AUTO_TEST_SUITE_END()

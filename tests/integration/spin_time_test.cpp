// spin_time: the context's thread polls for replies instead of sleeping.
#include <boost/asio/io_context.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace spin_time_test {
namespace {

using namespace std::chrono_literals;
using namespace weir::test;

weir::store open(boost::asio::io_context& io, const std::string& url,
                 std::chrono::microseconds spin_time) {
  if (url.starts_with("memcached")) {
    weir::memcached_options o = weir::parse_memcached_url(url);
    o.spin_time = spin_time;
    return weir::make_memcached_store(io.get_executor(), o);
  }
  weir::redis_options o = weir::parse_redis_url(url);
  o.timeout = 50s;
  o.spin_time = spin_time;
  return weir::make_redis_store(io.get_executor(), o);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spin_time_suite)

// poll() never sleeps, and returns as soon as there is nothing to do at once. So without spin_time
// it returns before the reply is there.
BOOST_DATA_TEST_CASE(no_thread_sleeps_until_the_reply_is_there,
                     boost::unit_test::data::make({"tcp", "unix", "memcached"}), kind) {
  boost::asio::io_context io;
  const weir::limiter l(open(io, empty_store_url(kind), 24h), "r",
                        weir::fixed_window{.limit = 100, .window = 24h});
  crowd first;
  l.record("a", first.caller());
  run_until_complete(io, first);
  for (std::uint32_t i = 0; i < 10; ++i) {
    crowd next;
    l.record("a", next.caller());
    io.poll();
    BOOST_TEST(next.allowed() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(the_thread_sleeps_when_the_server_takes_longer) {
  redis_server server;
  boost::asio::io_context io;
  const weir::limiter l(open(io, server.url(), 1ms), "r",
                        weir::fixed_window{.limit = 100, .window = 24h});
  crowd callers;
  l.record("a", callers.caller());
  run_until_complete(io, callers);
  server.pause();
  l.record("a", callers.caller());
  io.poll();  // it returns
  BOOST_TEST(callers.allowed() == 1u);
  server.resume();
  run_until_complete(io, callers);
  BOOST_TEST(callers.allowed() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace spin_time_test

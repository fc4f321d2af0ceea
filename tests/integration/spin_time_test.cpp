// spin_time: the context's thread polls for replies instead of sleeping.
#include <boost/test/data/test_case.hpp>

#include "support/run.hpp"
#include "support/stores.hpp"

namespace spin_time_test {

using namespace weir;
using namespace weir::test;

store open(boost::asio::io_context& io, const std::string& url,
           std::chrono::microseconds spin_time) {
  if (url.starts_with("memcached")) {
    memcached_options o = parse_memcached_url(url);
    o.spin_time = spin_time;
    return make_memcached_store(io.get_executor(), o);
  }
  redis_options o = parse_redis_url(url);
  o.timeout = 50s;
  o.spin_time = spin_time;
  return make_redis_store(io.get_executor(), o);
}

BOOST_AUTO_TEST_SUITE(spin_time_suite)

// poll() never sleeps, and returns as soon as there is nothing to do at once. So without spin_time
// it returns before the reply is there.
BOOST_DATA_TEST_CASE(no_thread_sleeps_until_the_reply_is_there,
                     boost::unit_test::data::make({"tcp", "unix", "memcached"}), kind) {
  boost::asio::io_context io;
  const limiter l(open(io, empty_store_url(kind), 24h), "r",
                  fixed_window{.limit = 100, .window = 24h});
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
  const limiter l(open(io, server.url(), 1ms), "r", fixed_window{.limit = 100, .window = 24h});
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

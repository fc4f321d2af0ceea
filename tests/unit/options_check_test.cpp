// Numbers of a store's options that are out of range are turned away where they are given.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/system/system_error.hpp>

#include "redis/options_check.hpp"
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace options_check_test {

using namespace weir;
using namespace weir::test;

constexpr auto most = std::numeric_limits<std::size_t>::max();

struct field {
  std::string_view name;
  std::function<void(redis_options&, milliseconds)> set;
  milliseconds low;
};

const field durations[] = {
    {"timeout", [](auto& o, auto d) { o.timeout = d; }, 1ms},
    {"connect_timeout", [](auto& o, auto d) { o.connect_timeout = d; }, 1ms},
    {"silence_timeout", [](auto& o, auto d) { o.silence_timeout = d; }, 10ms},
    {"ping_interval", [](auto& o, auto d) { o.ping_interval = d; }, 10ms},
    {"backoff_min", [](auto& o, auto d) { o.backoff_min = o.backoff_max = d; }, 1ms},
    {"backoff_max", [](auto& o, auto d) { o.backoff_min = 1ms, o.backoff_max = d; }, 1ms},
    {"breaker_pause", [](auto& o, auto d) { o.breaker_pause = d; }, 1ms},
};

std::string redis_fault(const std::function<void(redis_options&)>& change) {
  redis_options o;
  change(o);
  return weir::redis::fault_of(o);
}

/// What making the store throws; empty if it is made.
std::string memory_fault(const memory_options& o) {
  boost::asio::io_context io;
  try {
    make_memory_store(io, o).close();
  } catch (const boost::system::system_error& e) {
    BOOST_TEST((e.code() == error::invalid_options));
    return e.what();
  }
  return {};
}

BOOST_AUTO_TEST_SUITE(options_check_suite)

// A ping_interval of 0 took 93 % of a core; with a silence_timeout of 0, or durations that
// overflow, every call failed.
BOOST_AUTO_TEST_CASE(durations_that_would_spin_or_overflow_are_refused_by_name_and_range) {
  for (const field& f : durations) {
    BOOST_TEST_CONTEXT(f.name) {
      const auto fault = [&](milliseconds d) {
        return redis_fault([&](redis_options& o) { f.set(o, d); });
      };
      for (const milliseconds d : {f.low, milliseconds(24h), milliseconds(1min)}) {
        BOOST_TEST(fault(d) == "");
      }
      for (const milliseconds d :
           {0ms, -1ms, f.low - 1ms, milliseconds(24h) + 1ms, milliseconds::max() / 1000}) {
        BOOST_TEST(fault(d).starts_with(f.name), fault(d));
        BOOST_TEST(fault(d).ends_with(" to 1d"), fault(d));
      }
    }
  }
  BOOST_TEST(redis_fault([](auto& o) { o.timeout = std::chrono::microseconds::max(); }) ==
             "timeout is not from 1us to 1d");
  BOOST_TEST(redis_fault([](auto& o) { o.timeout = std::chrono::microseconds::min(); }) != "");
  BOOST_TEST(redis_fault([](auto& o) { o.spin_time = std::chrono::microseconds(50); }) == "");
  BOOST_TEST(redis_fault([](auto& o) { o.spin_time = std::chrono::microseconds(-1); }) ==
             "spin_time is not from 0us to 1d");
  BOOST_TEST(redis_fault([](auto& o) { o.silence_timeout = milliseconds::max(); }) ==
             "silence_timeout is not from 10ms to 1d");
  BOOST_TEST(redis_fault([](auto& o) { o.connect_timeout = milliseconds::min(); }) ==
             "connect_timeout is not from 1ms to 1d");
  BOOST_TEST(redis_fault([](auto& o) { o.backoff_min = 2ms, o.backoff_max = 1ms; }) ==
             "backoff_max is less than backoff_min");
}

BOOST_AUTO_TEST_CASE(counts_out_of_range_are_refused_by_name_and_range) {
  BOOST_TEST(redis_fault([](auto&) {}) == "");
  BOOST_TEST(redis_fault([](auto& o) { o.port = 0; }) == "port is not from 1 to 65535");
  BOOST_TEST(redis_fault([](auto& o) { o.port = 0, o.unix_path = "/tmp/a.sock"; }) == "");
  BOOST_TEST(redis_fault([](auto& o) { o.breaker_failures = 0; }) == "");
  BOOST_TEST(redis_fault([](auto& o) { o.breaker_failures = most; }) ==
             "breaker_failures is not from 0 to 1000000000");
  for (const std::size_t n : {std::size_t{0}, most}) {
    BOOST_TEST(redis_fault([&](auto& o) { o.max_pending = n; }) ==
               "max_pending is not from 1 to 1000000000");
    BOOST_TEST(redis_fault([&](auto& o) { o.max_keys_per_call = n; }) ==
               "max_keys_per_call is not from 1 to 1000");
    const std::pair<memory_options, std::string> rows[] = {
        {{.max_subjects = n}, "max_subjects is not from 1 to 1000000000000: "},
        {{.max_settled = n}, "max_settled is not from 1 to 1000000000: "},
        {{.shards = n}, "shards is not from 1 to 65536: "},
    };
    for (const auto& [options, says] : rows) {
      const std::string fault = memory_fault(options);
      BOOST_TEST(fault.starts_with("memory_options: " + says), fault);
    }
  }
  BOOST_TEST(memory_fault({.max_subjects = 1, .shards = 65'536}) == "");
}

BOOST_AUTO_TEST_CASE(a_store_with_numbers_out_of_range_is_not_made) {
  boost::asio::io_context io;
  const auto fails_as_told = [](const boost::system::system_error& e) {
    return e.code() == error::invalid_options &&
           (std::string_view(e.what()).find("ping_interval") != std::string_view::npos ||
            std::string_view(e.what()).find("shards") != std::string_view::npos);
  };
  redis_options redis;
  redis.ping_interval = 0ms;
  BOOST_CHECK_EXCEPTION((void)make_redis_store(io.get_executor(), redis),
                        boost::system::system_error, fails_as_told);
  BOOST_CHECK_EXCEPTION((void)make_memory_store(io.get_executor(), {.shards = 0}),
                        boost::system::system_error, fails_as_told);
  BOOST_TEST(io.poll() == 0u);  // nothing was started
}

// They were read through a null pointer.
BOOST_AUTO_TEST_CASE(an_empty_executor_or_store_is_refused) {
  const auto is_refused = [](const boost::system::system_error& e) {
    return e.code() == error::invalid_options;
  };
  for (const char* url : {"memory://", "redis://h", "redis-cluster://h", "memcached://h"}) {
    BOOST_CHECK_EXCEPTION((void)open_store({}, url), boost::system::system_error, is_refused);
  }
  boost::asio::io_context io;
  weir::store store = make_memory_store(io.get_executor());
  const weir::store moved = std::move(store);
  const weir::policy policy = gcra{.rate = per_second(1)};
  BOOST_CHECK_EXCEPTION(limiter(store, "r", policy), boost::system::system_error, is_refused);
  BOOST_CHECK_EXCEPTION(concurrency_limiter(store, "r", {}), boost::system::system_error,
                        is_refused);
}

// g++ 12 makes a mess of the strings of an argument that is made by default, if the expression has
// a co_await: the program freed what it had not allocated.
BOOST_AUTO_TEST_CASE(stores_are_made_in_an_expression_with_a_co_await) {
  namespace asio = boost::asio;
  asio::io_context io;
  const auto make_all = [&]() -> asio::awaitable<void> {
    make_memory_store(co_await asio::this_coro::executor).close();
    make_redis_store(co_await asio::this_coro::executor).close();
    make_memcached_store(co_await asio::this_coro::executor).close();
  };
  auto done = asio::co_spawn(io, make_all, asio::use_future);
  io.run();
  BOOST_CHECK_NO_THROW(done.get());
}

BOOST_AUTO_TEST_CASE(a_store_takes_the_executor_of_a_context) {
  boost::asio::io_context io;
  boost::asio::thread_pool pool(1);
  const boost::asio::any_io_executor own = io.get_executor();
  BOOST_TEST((open_store(io, "memory://").get_executor() == own));
  BOOST_TEST((make_memory_store(io, {.shards = 1}).get_executor() == own));
  BOOST_TEST((make_memory_store(pool).get_executor() == pool.get_executor()));
  weir::store redis = make_redis_store(io), memcached = make_memcached_store(io);
  BOOST_TEST((redis.get_executor() == own && memcached.get_executor() == own));
}

// Such a store did not log in, and worked with the rights of the default user.
BOOST_AUTO_TEST_CASE(a_username_without_a_password_is_refused) {
  BOOST_TEST(redis_fault([](auto& o) { o.username = "u"; }) != "");
  BOOST_TEST(redis_fault([](auto& o) { o.username = "u", o.password = "p"; }) == "");
  BOOST_TEST(redis_fault([](auto& o) { o.password = "p"; }) == "");
  BOOST_TEST(redis_fault([](auto& o) {
               o.username = "u", o.credentials = [] { return redis_credentials{}; };
             }) == "");
  BOOST_TEST(redis_fault([](auto& o) {
               o.sentinel.addresses = {{"s", 26379}}, o.sentinel.username = "u";
             }) != "");
}

BOOST_AUTO_TEST_CASE(sentinels_without_an_address_or_a_master_are_refused) {
  const auto fault = [](const std::function<void(redis_options&)>& change) {
    return redis_fault([&](redis_options& o) {
      o.sentinel.addresses = {{"s1", 26379}, {"s2", 26380}};
      change(o);
    });
  };
  BOOST_TEST(fault([](auto&) {}) == "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.addresses[1].port = 0; }) != "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.addresses[0].host = ""; }) != "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.addresses[0].host = "a b"; }) != "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.addresses.resize(65, {"s", 1}); }) != "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.master = ""; }) != "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.master = "a\nb"; }) != "");
  BOOST_TEST(fault([](auto& o) { o.sentinel.tls_ca_file = "ca.pem"; }) != "");
  BOOST_TEST(fault([](auto& o) { o.unix_path = "/s"; }) != "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace options_check_test

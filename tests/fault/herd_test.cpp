// A fleet that loses its server's connections and comes back at once. Every client once sent all
// scripts, 90 KB: their buffers count towards maxmemory, and with allkeys-lru they pushed the
// limits themselves out.
#include "support/run.hpp"
#include "support/stores.hpp"

namespace herd_test {

using namespace weir;
using namespace weir::test;

constexpr std::size_t clients = 1000;
constexpr std::int64_t limiter_keys = 20'000;
// The server keeps some 40 KB of buffers for each client for seconds. With the scripts in them it
// was more than 86 KB.
constexpr std::int64_t spare_memory = std::int64_t{clients} * 64 * 1024;

const policy plenty = token_bucket{.capacity = 1000, .refill = per_day(1)};

struct fixture {
  redis_server server{{.arguments = {"--maxmemory-policy", "allkeys-lru"}}};
  redis_client admin{server};
  asio::io_context io;
  std::deque<limiter> fleet;

  std::int64_t info(const std::string& name) {
    const std::string all = admin.must("INFO", "everything").text;
    const auto at = all.find("\r\n" + name + ":");
    BOOST_TEST_REQUIRE((at != std::string::npos));
    return std::stoll(all.substr(at + name.size() + 3));
  }

  /// One call of each client, repeated by those whose connection was lost with it.
  void call_until_all_succeed() {
    std::vector<std::size_t> left(fleet.size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    while (!left.empty()) {
      crowd round;
      for (const std::size_t i : left) fleet[i].record("c" + std::to_string(i), round.caller());
      run_until_complete(io, round);
      std::vector<std::size_t> failed;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (round[i].ec) failed.push_back(left[i]);
      }
      left.swap(failed);
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(herd_suite, fixture)

BOOST_AUTO_TEST_CASE(a_fleet_that_reconnects_at_once_evicts_no_limit) {
  for (std::size_t i = 0; i < clients; ++i) {
    fleet.emplace_back(make_redis_store(io.get_executor(), patient_options(server)), "fleet",
                       plenty);
  }
  call_until_all_succeed();
  {
    crowd c;
    for (std::int64_t i = 0; i < limiter_keys; ++i) {
      fleet.front().record("limit " + std::to_string(i), c.caller());
    }
    run_until_complete(io, c);
    BOOST_TEST_REQUIRE(c.allowed() == static_cast<std::size_t>(limiter_keys));
  }
  const std::int64_t keys = admin.must("DBSIZE").integer;
  BOOST_TEST_REQUIRE(keys == limiter_keys + static_cast<std::int64_t>(clients));
  const std::int64_t connections = info("total_connections_received");
  admin.must("CONFIG", "SET", "maxmemory", info("used_memory") + spare_memory);
  BOOST_TEST_REQUIRE(info("evicted_keys") == 0);

  admin.must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  const std::int64_t before = info("total_net_input_bytes");
  call_until_all_succeed();
  const std::int64_t sent = info("total_net_input_bytes") - before;

  BOOST_TEST(info("total_connections_received") - connections ==
             static_cast<std::int64_t>(clients));
  BOOST_TEST_MESSAGE("each client sent " << sent / static_cast<std::int64_t>(clients) << " bytes; "
                                         << info("evicted_keys") << " of " << keys
                                         << " keys were evicted");
  BOOST_TEST(sent <= static_cast<std::int64_t>(clients) * 2048);
  BOOST_TEST(info("evicted_keys") == 0);
  BOOST_TEST(admin.must("DBSIZE").integer == keys);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace herd_test

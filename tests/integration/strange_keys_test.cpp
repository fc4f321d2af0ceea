// Keys of another program where ours should be: their caller is told, they stay as they are, and
// the neighbours in the same script call are counted exactly once.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace strange_keys_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::condition;
using weir::error;
using weir::test::crowd;
using weir::test::redis_client;
using weir::test::redis_server;

struct fixture {
  redis_server server;
  asio::io_context io;
  redis_client client{server};

  weir::store open() {
    return weir::make_redis_store(io.get_executor(), weir::test::patient_options(server));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(strange_keys_suite, fixture)

BOOST_AUTO_TEST_CASE(a_key_of_the_wrong_type_harms_only_its_own_caller) {
  const auto s = open();
  using plant = std::function<void(const std::string&)>;
  const std::pair<const char*, plant> strangers[] = {
      {"list", [&](const auto& key) { client.must("RPUSH", key, "x", "y", "z"); }},
      {"hash", [&](const auto& key) { client.must("HSET", key, "f", "v"); }},
      {"set", [&](const auto& key) { client.must("SADD", key, "m"); }},
      {"sorted set", [&](const auto& key) { client.must("ZADD", key, "1", "m"); }},
      {"stream", [&](const auto& key) { client.must("XADD", key, "*", "f", "v"); }},
      {"text", [&](const auto& key) { client.must("SET", key, "not a number"); }},
      {"empty text", [&](const auto& key) { client.must("SET", key, ""); }},
      {"infinity", [&](const auto& key) { client.must("SET", key, "inf"); }},
      {"not a number", [&](const auto& key) { client.must("SET", key, "nan"); }},
      {"negative", [&](const auto& key) { client.must("SET", key, "-5"); }},
      {"far away", [&](const auto& key) { client.must("SET", key, "1e300"); }},
      {"a fraction", [&](const auto& key) { client.must("SET", key, "0.5"); }},
      {"leading zeros", [&](const auto& key) { client.must("SET", key, "007"); }},
      {"an exponent", [&](const auto& key) { client.must("SET", key, "1e15"); }},
      {"hexadecimal", [&](const auto& key) { client.must("SET", key, "0x10"); }},
      {"minus zero", [&](const auto& key) { client.must("SET", key, "-0"); }},
      {"a space", [&](const auto& key) { client.must("SET", key, " 5"); }},
      {"16 bytes", [&](const auto& key) { client.must("SET", key, std::string(16, 'z')); }},
      {"24 bytes", [&](const auto& key) { client.must("SET", key, std::string(24, '\xff')); }},
      // These are three or four numbers, which look like a time, counts, and a line of the grid.
      {"a time", [&](const auto& key) { client.must("SET", key, "2026-11-22T21:06:26.123Z"); }},
      {"a hash",
       [&](const auto& key) { client.must("SET", key, "c19cfde3e601c7453e5df6f61447ab9a"); }},
      {"short list", [&](const auto& key) { client.must("RPUSH", key, std::string(16, 'z')); }},
      {"strange list",
       [&](const auto& key) {
         client.must("RPUSH", key, std::string(16, 'z'), std::string(16, 'z'));
       }},
      {"list with an odd end", [&](const auto& key) {
         client.must("RPUSH", key, std::string(16, '\0'), std::string(16, '\0'), "odd");
       }}};
  for (const auto& [policy_name, policy] : weir::test::slow_policies(3)) {
    for (const auto& [stranger, plant] : strangers) {
      BOOST_TEST_CONTEXT(policy_name << ", " << stranger) {
        client.must("FLUSHALL");
        const weir::limiter l(s, "r", policy);
        crowd first;
        l.record("bad", first.caller());
        weir::test::run_until_complete(io, first);
        const std::string key = weir::test::keys_of(client).at(0);
        client.must("DEL", key);
        plant(key);
        const std::string before = client.must("DUMP", key).text;

        crowd good, bad;
        for (int i = 0; i < 3; ++i) {
          l.record("one", good.caller());
          l.record("bad", bad.caller());
          l.record("two", good.caller());
        }
        l.fetch("bad", bad.caller());
        weir::test::run_until(io, [&] { return good.complete() && bad.complete(); });
        BOOST_TEST(good.allowed() == 6u);
        BOOST_TEST(good[4].d.used == 3);
        for (const auto& o : bad) {
          WEIR_TEST_ERROR(o.ec, error::wrong_type);
          BOOST_CHECK(o.ec == condition::not_counted);
        }
        BOOST_TEST(client.must("DUMP", key).text == before);  // theirs stays as it was

        crowd after;  // a reset makes room for ours
        l.reset("bad", after.caller());
        l.record("bad", after.caller());
        weir::test::run_until_complete(io, after);
        BOOST_TEST(after[1].d.used == 1);
      }
    }
  }
}

// The search for the entry that has to leave ended the script, with an error for all its callers.
BOOST_AUTO_TEST_CASE(a_damaged_entry_inside_a_log_harms_only_its_own_caller) {
  const weir::limiter l(open(), "r", weir::sliding_log{.limit = 10, .window = 1min});
  for (int i = 0; i < 10; ++i) {
    crowd one;
    l.record("bad", one.caller());
    weir::test::run_until_complete(io, one);
  }
  client.must("LSET", weir::test::keys_of(client).at(0), "5", "odd");

  crowd all;
  for (const char* const subject : {"one", "bad", "two"}) {
    l.record(subject, {.cost = 5}, all.caller());
  }
  weir::test::run_until_complete(io, all);
  BOOST_TEST(all[0].d.used == 5);
  WEIR_TEST_ERROR(all[1].ec, error::wrong_type);
  BOOST_TEST(all[2].d.used == 5);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace strange_keys_test

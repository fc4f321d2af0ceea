// Keys of another program where ours should be: their caller is told, they stay as they are, and
// the neighbours in the same script call are counted exactly once.
#include "support/run.hpp"
#include "support/stores.hpp"

namespace strange_keys_test {

using namespace weir;
using namespace weir::test;

struct fixture {
  redis_server server;
  asio::io_context io;
  redis_client client{server};

  store open() { return make_redis_store(io.get_executor(), patient_options(server)); }
};

BOOST_FIXTURE_TEST_SUITE(strange_keys_suite, fixture)

BOOST_AUTO_TEST_CASE(a_key_of_the_wrong_type_harms_only_its_own_caller) {
  const auto s = open();
  // model.foreign_state has many more values.
  using words = std::vector<std::string>;
  const words strangers[] = {{"RPUSH", "x"},
                             {"HSET", "f", "v"},
                             {"XADD", "*", "f", "v"},
                             {"SET", "not a number"},
                             {"SET", std::string(24, '\xff')},
                             {"RPUSH", std::string(16, 'z')}};
  for (const auto& [policy_name, policy] : slow_policies(3)) {
    for (const words& stranger : strangers) {
      BOOST_TEST_CONTEXT(policy_name << ", " << stranger[0] << " " << stranger[1]) {
        client.must("FLUSHALL");
        const limiter l(s, "r", policy);
        crowd first;
        l.record("bad", first.caller());
        run_until_complete(io, first);
        const std::string key = keys_of(client).at(0);
        client.must("DEL", key);
        auto writer = client.writer();
        writer.begin(1 + stranger.size()).arg(stranger[0]).arg(key);
        for (const std::string& word : std::span(stranger).subspan(1)) writer.arg(word);
        BOOST_TEST_REQUIRE(!client.read().is_error());
        const std::string before = client.must("DUMP", key).text;

        crowd good, bad;
        for (int i = 0; i < 3; ++i) {
          l.record("one", good.caller());
          l.record("bad", bad.caller());
          l.record("two", good.caller());
        }
        l.fetch("bad", bad.caller());
        run_until(io, [&] { return good.complete() && bad.complete(); });
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
        run_until_complete(io, after);
        BOOST_TEST(after[1].d.used == 1);
      }
    }
  }
}

// The search for the entry that has to leave ended the script, with an error for all its callers.
BOOST_AUTO_TEST_CASE(a_damaged_entry_inside_a_log_harms_only_its_own_caller) {
  const limiter l(open(), "r", sliding_log{.limit = 10, .window = 1min});
  for (int i = 0; i < 10; ++i) {
    crowd one;
    l.record("bad", one.caller());
    run_until_complete(io, one);
  }
  client.must("LSET", keys_of(client).at(0), "5", "odd");

  crowd all;
  for (const char* const subject : {"one", "bad", "two"}) {
    l.record(subject, {.cost = 5}, all.caller());
  }
  run_until_complete(io, all);
  BOOST_TEST(all[0].d.used == 5);
  WEIR_TEST_ERROR(all[1].ec, error::wrong_type);
  BOOST_TEST(all[2].d.used == 5);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace strange_keys_test

// A server that is there and will not serve: out of memory, unable to save, busy with a script,
// loading its data, part of a cluster. Nothing is counted, the error says which it is, and the same
// connection serves again when that is over.
#include <filesystem>

#include "fault/proxied.hpp"

namespace server_states_test {

using namespace weir;
using namespace weir::test;

/// A node that is a cluster by itself. Its second port lies ten thousand above the first, if there
/// is such a port.
std::unique_ptr<redis_server> start_cluster_node() {
  for (int attempts = 20;; --attempts) {
    try {
      return std::make_unique<redis_server>(redis_server_options{
          .arguments = {"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}});
    } catch (const std::runtime_error& e) {
      const std::string why = e.what();
      if (attempts == 0 || why.find("port number too high") == std::string::npos) throw;
    }
  }
}

struct fixture : proxied {
  redis_client admin{server};

  std::vector<limiter> one_of_each(const store& s) {
    std::vector<limiter> all;
    for (const auto& [name, policy] : slow_policies(100)) all.emplace_back(s, name, policy);
    return all;
  }

  /// Both calls and questions for each limiter, while the server refuses to write: calls fail,
  /// questions are answered, and in the end nothing has been counted.
  void check_refused_writes(const std::vector<limiter>& all, error expected) {
    crowd calls, questions;
    for (const auto& l : all) {
      for (int i = 0; i < 3; ++i) l.record("a", calls.caller());
      l.fetch("a", questions.caller());
    }
    run_until_complete(io, calls);
    run_until_complete(io, questions);
    BOOST_TEST(calls.failed(expected) == calls.size());
    for (const auto& o : calls) BOOST_CHECK(o.ec == condition::not_counted);
    for (const auto& o : questions) BOOST_TEST(o.d.used == 1);
  }

  void count_one(const std::vector<limiter>& all, std::int64_t used) {
    crowd c;
    for (const auto& l : all) l.record("a", c.caller());
    run_until_complete(io, c);
    for (const auto& o : c) BOOST_TEST(o.d.used == used);
  }

  /// A call is told at once what the server is; a proper one behind the same address is found
  /// without a restart.
  void check_told_at_once(const redis_server& what, error reason) {
    proxy.aim_at(what);
    const limiter l(open(), "r", fixed_window{.limit = 5, .window = 24h});
    const outcome o = record(l, "a");
    WEIR_TEST_ERROR(o.ec, reason);
    BOOST_CHECK(o.ec == condition::not_counted);
    proxy.aim_at(server);
    BOOST_TEST(record_until_it_succeeds(l, "a").used == 1);
  }

  /// Asks until the server says so, or no longer does.
  void await_reply(redis_client& client, const std::string& start, bool wanted) {
    poll_until([&] { return client.call("PING").text.starts_with(start) == wanted; });
  }

  /// A call that gives up early is told why; it may give up while it is asking once more.
  void check_hasty_calls_hear(const limiter& l, error reason) {
    run_until(io, [&] {
      const outcome o = record(l, "a", {.timeout = 40ms});
      if (o.ec == error::no_reply || o.ec == error::timed_out) return false;
      WEIR_TEST_ERROR(o.ec, reason);
      BOOST_CHECK(o.ec == condition::not_counted);
      return true;
    });
  }
};

BOOST_FIXTURE_TEST_SUITE(server_states_suite, fixture)

BOOST_AUTO_TEST_CASE(out_of_memory_and_back) {
  const auto all = one_of_each(open());
  count_one(all, 1);
  admin.must("CONFIG", "SET", "maxmemory-policy", "noeviction");
  admin.must("CONFIG", "SET", "maxmemory", "1");
  check_refused_writes(all, error::out_of_memory);
  admin.must("CONFIG", "SET", "maxmemory", "0");
  count_one(all, 2);
  BOOST_TEST(proxy.counts().accepted == 1u);
}

// A snapshot that really fails: where its file should be, there is a directory.
BOOST_AUTO_TEST_CASE(snapshots_that_fail_and_succeed_again) {
  const auto all = one_of_each(open());
  count_one(all, 1);
  const std::filesystem::path
      obstacle = std::filesystem::path(admin.must("CONFIG", "GET", "dir").children.at(1).text) /
                 admin.must("CONFIG", "GET", "dbfilename").children.at(1).text;
  const auto save = [&](const std::string& expected) {
    admin.must("BGSAVE");
    poll_until([&] {
      const std::string info = admin.must("INFO", "persistence").text;
      return info.find("rdb_bgsave_in_progress:0") != std::string::npos &&
             info.find("rdb_last_bgsave_status:" + expected) != std::string::npos;
    });
  };
  admin.must("CONFIG", "SET", "save", "3600 1");
  std::filesystem::create_directories(obstacle / "in the way");
  save("err");
  check_refused_writes(all, error::server_misconfigured);
  std::filesystem::remove_all(obstacle);
  save("ok");
  count_one(all, 2);
  BOOST_TEST(proxy.counts().accepted == 1u);
}

// Nothing runs beside a slow script. Those with time wait for its end, on an old connection and on
// a new one.
BOOST_AUTO_TEST_CASE(a_slow_script_is_waited_for) {
  const limiter l(open(), "r", fixed_window{.limit = 100, .window = 24h});
  BOOST_TEST(record(l, "a").d.used == 1);
  admin.must("CONFIG", "SET", "lua-time-limit", "1");
  redis_client slow(server);
  slow.send("EVAL", "while true do end", "0");
  slow.flush();
  await_reply(admin, "BUSY", true);

  crowd patient;
  l.record("a", patient.caller());
  const limiter fresh(open(), "r", fixed_window{.limit = 100, .window = 24h});
  fresh.record("a", patient.caller());
  check_hasty_calls_hear(l, error::server_busy);
  BOOST_TEST(patient.answered() == 0u);
  admin.must("SCRIPT", "KILL");
  run_until_complete(io, patient);
  BOOST_TEST(patient.allowed() == 2u);
  BOOST_TEST(patient[0].d.used + patient[1].d.used == 2 + 3);
  BOOST_TEST(slow.read().is_error());
}

// A server that reads its data in again, slowly.
BOOST_AUTO_TEST_CASE(a_loading_server_is_waited_for) {
  redis_server loading({.arguments = {"--enable-debug-command", "yes", "--key-load-delay", "1000",
                                      "--loading-process-events-interval-bytes", "1024"}});
  proxy.aim_at(loading);
  redis_client boss(loading), other(loading);
  const limiter l(open(), "r", fixed_window{.limit = 100, .window = 24h});
  BOOST_TEST(record(l, "a").d.used == 1);
  boss.must("DEBUG", "POPULATE", "20000", "key", "100");
  boss.send("DEBUG", "RELOAD");
  boss.flush();
  await_reply(other, "LOADING", true);

  crowd patient;
  l.record("a", patient.caller());
  const limiter fresh(open(), "r", fixed_window{.limit = 100, .window = 24h});
  fresh.record("a", patient.caller());
  check_hasty_calls_hear(l, error::server_loading);
  BOOST_TEST(patient.answered() == 0u);
  other.must("CONFIG", "SET", "key-load-delay", "0");
  run_until_complete(io, patient);
  BOOST_TEST(patient.allowed() == 2u);
  BOOST_TEST(patient[0].d.used + patient[1].d.used == 2 + 3);  // the count was in the data
}

// Some of its keys would have been counted and others refused, by their slots.
BOOST_AUTO_TEST_CASE(a_node_of_a_cluster_is_not_taken_for_a_server) {
  const auto node = start_cluster_node();
  redis_client client(*node);
  {
    auto writer = client.writer();
    writer.begin(2 + 16384).arg("CLUSTER").arg("ADDSLOTS");
    for (std::int64_t slot = 0; slot < 16384; ++slot) writer.arg(slot);
  }
  BOOST_TEST(!client.read().is_error());
  poll_until([&] {
    return client.must("CLUSTER", "INFO").text.find("cluster_state:ok") != std::string::npos;
  });
  check_told_at_once(*node, error::server_is_cluster);
  BOOST_TEST(client.must("DBSIZE").integer == 0);
}

BOOST_AUTO_TEST_CASE(a_sentinel_is_not_taken_for_a_server) {
  const redis_server sentinel({.sentinel = true});
  check_told_at_once(sentinel, error::server_is_sentinel);
}

// What only concerns one call leaves the connection, and the calls around it, alone.
BOOST_AUTO_TEST_CASE(an_error_reply_is_its_own_callers_alone) {
  const limiter l(open(), "r", fixed_window{.limit = 100, .window = 24h});
  admin.must("RPUSH", "weir:{r:odd}:f", "a list");
  connect(l);
  for (int i = 1; i <= 20; ++i) {
    crowd c;
    l.record("even", c.caller());
    l.record("odd", {.cost = 2}, c.caller());
    l.record("even", c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c[0].d.used == 2 * i - 1);
    WEIR_TEST_ERROR(c[1].ec, error::wrong_type);
    BOOST_TEST(c[2].d.used == 2 * i);
  }
  BOOST_TEST(proxy.counts().accepted == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace server_states_test

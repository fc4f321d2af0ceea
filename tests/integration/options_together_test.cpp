// The options of a limiter that change how its checks travel, two and three at a time on real
// servers: local_units, replicas, subject_buckets. What passes is exactly the limit.
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "support/fault_proxy.hpp"
#include "support/limiter_fixture.hpp"
#include "support/memcached_server.hpp"
#include "support/redis_cluster.hpp"
#include "weir/weir.hpp"

namespace options_together_test {
namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::limiter;
using weir::limiter_options;
using weir::test::redis_client;
using weir::test::redis_server;
using weir::test::asio::awaitable;

constexpr std::int64_t limit = 400;
constexpr weir::fixed_window window{.limit = limit, .window = 24h};
constexpr std::array<const char*, 4> subjects{"a", "b", "c", "d"};

/// The units in a fixed window's key; -1 if there is no such key.
std::int64_t counted(redis_client& client, const std::string& key) {
  const std::string bytes = client.must("GET", key).text;
  double count = -1;
  if (bytes.size() == 24) std::memcpy(&count, bytes.data() + 8, sizeof count);
  return static_cast<std::int64_t>(count);
}

/// What the callers of one subject were told.
struct tally {
  std::int64_t passed = 0, local = 0, beyond = 0;
};

struct fixture : weir::test::limiter_fixture {
  std::array<tally, subjects.size()> told;

  /// Checks one subject until its limit has passed and further checks are refused. A check may be
  /// refused while units are on their way to its process.
  awaitable<void> use_up(const limiter& l, std::size_t subject) {
    tally& t = told[subject];
    while (t.beyond < 20) {
      const decision d = co_await l.record(subjects[subject]);
      if (d.allowed) ++t.passed;
      if (d.source == weir::source::local_units) ++t.local;
      if (!d.allowed && t.passed >= limit) ++t.beyond;
    }
  }
  /// Each of the limiters acts as a process with two callers for each subject.
  void use_up(const std::vector<limiter>& fleet) {
    told = {};
    std::size_t running = 0;
    for (const limiter& l : fleet) {
      for (std::size_t i = 0; i < 2 * subjects.size(); ++i) {
        ++running;
        weir::test::asio::co_spawn(io, use_up(l, i % subjects.size()), [&](std::exception_ptr e) {
          BOOST_TEST(!e);
          --running;
        });
      }
    }
    weir::test::run_until(io, [&] { return running == 0; });
    for (const tally& t : told) BOOST_TEST(t.passed == limit);
  }
  std::int64_t local() const {
    std::int64_t sum = 0;
    for (const tally& t : told) sum += t.local;
    return sum;
  }
};

constexpr std::int64_t most_local = static_cast<std::int64_t>(subjects.size()) * limit;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(options_together_suite, fixture)

// The link between the servers is slow: units that were spent before their take was replicated
// would be missing at the replica.
BOOST_AUTO_TEST_CASE(local_units_are_spent_when_the_replica_has_their_take) {
  redis_server master{{.arguments = {"--repl-diskless-sync-delay", "0"}}}, replica;
  weir::test::fault_proxy link(io, master);
  redis_client standby(replica);
  standby.must("REPLICAOF", "127.0.0.1", std::to_string(link.port()));
  poll_until([&] {
    return standby.must("INFO", "replication").text.find("master_link_status:up") !=
           std::string::npos;
  });
  link.set_distance(5ms);
  const weir::store s = weir::make_redis_store(io.get_executor(),
                                               weir::test::patient_options(master));
  const limiter l(s, "r", window, {.local_units = 100, .replicas = 1});
  const std::string key = "weir:{r:a}:f";
  std::int64_t passed = 0, local = 0, refused = 0;
  while (refused < 10) {
    const decision d = answer([&](auto h) { l.record("a", h); });
    if (d.allowed) ++passed;
    if (d.source == weir::source::local_units) ++local;
    if (!d.allowed && passed >= limit) ++refused;
    BOOST_TEST_REQUIRE(counted(standby, key) >= passed);
  }
  BOOST_TEST(passed == limit);
  BOOST_TEST(counted(standby, key) == limit);
  BOOST_TEST(local > limit / 2);
}

// Two masters, each with a replica, which never takes its place, however slow the machine is.
BOOST_AUTO_TEST_CASE(buckets_of_subjects_go_with_local_units_and_with_replicas) {
  weir::test::redis_cluster cluster(2, 2, {"--cluster-node-timeout", "30000"});
  weir::redis_options o = weir::parse_redis_url(cluster.url());
  o.timeout = 50s;
  o.breaker_failures = 0;
  const limiter_options pairs[] = {
      {.subject_buckets = 2, .local_units = 50},
      {.subject_buckets = 2, .replicas = 1},
      {.subject_buckets = 2, .local_units = 50, .replicas = 1},
  };
  for (const limiter_options& options : pairs) {
    BOOST_TEST_CONTEXT(options.local_units << " local units, " << options.replicas << " replicas") {
      const std::string resource = "r" + std::to_string(options.local_units) + "-" +
                                   std::to_string(options.replicas);
      std::vector<limiter> fleet;
      for (int i = 0; i < 2; ++i) {
        fleet.emplace_back(weir::make_redis_store(io.get_executor(), o), resource, window, options);
      }
      use_up(fleet);
      // At the replicas without waiting, if the callers have waited for them.
      const std::size_t first = options.replicas > 0 ? 2 : 0;
      std::size_t found = 0;
      for (std::size_t node = first; node < first + 2; ++node) {
        redis_client client(cluster.node(node));
        client.must("READONLY");
        for (const std::string& key : weir::test::keys_of(client)) {
          if (!key.starts_with("weir:{" + resource + ":")) continue;
          BOOST_TEST((key.find(":0/2}/") != key.npos || key.find(":1/2}/") != key.npos), key);
          BOOST_TEST(counted(client, key) == limit, key);
          ++found;
        }
      }
      BOOST_TEST(found == subjects.size());
      if (options.local_units > 0) {
        BOOST_TEST(local() > most_local / 2);
      } else {
        BOOST_TEST(local() == 0);
      }
    }
  }
}

// Buckets have no effect there: the keys are those of any limiter.
BOOST_AUTO_TEST_CASE(local_units_work_on_memcached_with_or_without_buckets) {
  const weir::test::memcached_server_process server;
  for (const std::size_t buckets : {0, 2}) {
    const std::string resource = "r" + std::to_string(buckets);
    const auto open = [&] {
      return weir::make_memcached_store(io.get_executor(), server.patient_options());
    };
    std::vector<limiter> fleet;
    for (int i = 0; i < 2; ++i) {
      fleet.emplace_back(open(), resource, window,
                         limiter_options{.subject_buckets = buckets, .local_units = 50});
    }
    use_up(fleet);
    BOOST_TEST(local() > most_local / 2);
    const limiter plain(open(), resource, window);
    for (const char* subject : subjects) {
      BOOST_TEST(answer([&](auto h) { plain.fetch(subject, h); }).used == limit);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace options_together_test

// The options of a limiter that change how its checks travel, together on real servers: local_units
// and subject_buckets. What passes is exactly the limit.
#include <cstring>

#include "support/limiter_fixture.hpp"
#include "support/redis_cluster.hpp"

namespace options_together_test {

using namespace weir;
using namespace weir::test;
using asio::awaitable;

constexpr std::int64_t limit = 400;
constexpr fixed_window window{.limit = limit, .window = 24h};
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

struct fixture : limiter_fixture {
  std::array<tally, subjects.size()> told;

  /// Checks one subject until its limit has passed and further checks are refused. A check may be
  /// refused while units are on their way to its process.
  awaitable<void> use_up(const limiter& l, std::size_t subject) {
    tally& t = told[subject];
    while (t.beyond < 20) {
      const decision d = co_await l.record(subjects[subject]);
      if (d.allowed) ++t.passed;
      if (d.source == source::local_units) ++t.local;
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
        asio::co_spawn(io, use_up(l, i % subjects.size()), [&](std::exception_ptr e) {
          BOOST_TEST(!e);
          --running;
        });
      }
    }
    run_until(io, [&] { return running == 0; });
    for (const tally& t : told) BOOST_TEST(t.passed == limit);
  }
  std::int64_t local() const {
    std::int64_t sum = 0;
    for (const tally& t : told) sum += t.local;
    return sum;
  }
};

constexpr std::int64_t most_local = static_cast<std::int64_t>(subjects.size()) * limit;

BOOST_FIXTURE_TEST_SUITE(options_together_suite, fixture)

BOOST_AUTO_TEST_CASE(buckets_of_subjects_go_with_local_units) {
  redis_cluster cluster(2, 0);
  redis_options o = parse_redis_url(cluster.url());
  o.timeout = 50s;
  o.breaker_failures = 0;
  std::vector<limiter> fleet;
  for (int i = 0; i < 2; ++i) {
    fleet.emplace_back(make_redis_store(io.get_executor(), o), "r", window,
                       limiter_options{.subject_buckets = 2, .local_units = 50});
  }
  use_up(fleet);
  std::size_t found = 0;
  for (std::size_t node = 0; node < 2; ++node) {
    redis_client client(cluster.node(node));
    for (const std::string& key : keys_of(client)) {
      BOOST_TEST((key.find(":0/2}/") != key.npos || key.find(":1/2}/") != key.npos), key);
      BOOST_TEST(counted(client, key) == limit, key);
      ++found;
    }
  }
  BOOST_TEST(found == subjects.size());
  BOOST_TEST(local() > most_local / 2);
}

// Buckets have no effect there: the keys are those of any limiter.
BOOST_AUTO_TEST_CASE(local_units_work_on_memcached_with_or_without_buckets) {
  const memcached_server_process server;
  for (const std::size_t buckets : {0, 2}) {
    const std::string resource = "r" + std::to_string(buckets);
    const auto open = [&] {
      return make_memcached_store(io.get_executor(), server.patient_options());
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

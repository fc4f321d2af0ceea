// limiter_options::subject_buckets on a Redis Cluster, also while slots move, and on one server.
#include "cluster_fixture.hpp"
#include "support/load.hpp"

namespace subject_buckets_test {

using namespace weir;
using namespace weir::test;
using asio::awaitable;

constexpr std::size_t buckets = 2;
const limiter_options in_buckets{.subject_buckets = buckets};
const limiter_options cooled{.subject_buckets = buckets, .cool_downs = true};
const token_bucket slow{.capacity = 3, .refill = per_day(1)};

struct fixture : weir::test::cluster_fixture {
  fixture() : cluster_fixture(three_masters()) {}

  /// For all cases; they use different names.
  static redis_cluster& three_masters() {
    static redis_cluster shared(3, 0, {"--cluster-node-timeout", "10000"});
    return shared;
  }

  static std::uint16_t slot_of(const std::string& resource, std::size_t bucket,
                               std::size_t count = buckets) {
    return weir::redis::slot_of_tag(resource + ":" + std::to_string(bucket) + "/" +
                                    std::to_string(count));
  }
  /// Moves all subjects of a limiter to other masters.
  void move(const limiter& l) {
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      const std::uint16_t slot = slot_of(std::string(l.resource()), bucket);
      const std::size_t from = cluster.owner_of(slot);
      cluster.move(slot, from, (from + 1) % 3);
    }
  }
  /// Of all masters: how many script calls they have run.
  std::int64_t calls() {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      redis_client client(cluster.node(i));
      sum += script_calls_of(client);
    }
    return sum;
  }
  /// Of all masters: how many calls had keys that were not all there. Redis 6.2 says ASK at first.
  std::int64_t told_to_try_again() {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string all = redis_client(cluster.node(i)).must("INFO", "errorstats").text;
      for (const char* error : {"errorstat_TRYAGAIN:count=", "errorstat_ASK:count="}) {
        const auto at = all.find(error);
        if (at != all.npos) sum += std::stoll(all.substr(all.find('=', at) + 1));
      }
    }
    return sum;
  }
};

bool is_refused(asio::io_context& io, const claim& a, const claim& b) {
  crowd c;
  record_all(a, b, c.caller());
  run_until_complete(io, c);
  return c[0].ec == error::cannot_combine;
}

/// Each kind of call, on subjects of both buckets. `meanwhile` may move what they have counted.
awaitable<void> use_all_calls(const weir::store& store,
                              std::function<void(const limiter&)> meanwhile) {
  const limiter l(store, "r", slow, in_buckets);
  const limiter tiered(store, "t", tiers(slow, sliding_log{.limit = 9, .window = 24h}), cooled);
  const limiter more(store, "t", fixed_window{.limit = 9, .window = 24h}, in_buckets);
  const concurrency_limiter gate(store, "t",
                                 {.limit = 1, .lease_duration = 1h, .subject_buckets = buckets});
  for (const char* subject : {"a", "b", "{c}"}) {
    const decision first = co_await l.acquire(subject, {.max_wait = 1s});
    const decision second = co_await l.record(subject, {.cost = 2});
    BOOST_TEST((first.allowed && second.allowed));
    BOOST_TEST(!(co_await l.record(subject)).allowed);
    meanwhile(l);
    BOOST_TEST((co_await l.refund(subject, first)).allowed);
    BOOST_TEST((co_await l.settle(subject, second, 1)).allowed);
    BOOST_TEST((co_await l.fetch(subject)).used == 1);
    co_await l.reset(subject);
    BOOST_TEST((co_await l.fetch(subject)).used == 0);

    const auto both = co_await record_all(tiered.on(subject), more.on(subject));
    BOOST_TEST(both.allowed);
    lease inside = co_await gate.enter(subject, more.on(subject));
    BOOST_TEST(inside.allowed());
    meanwhile(tiered);
    BOOST_TEST(!(co_await gate.enter(subject, more.on(subject))).allowed());
    inside.release();
    co_await refund_all(both, tiered.on(subject), more.on(subject));
    BOOST_TEST((co_await tiered.fetch(subject)).used == 0);
    BOOST_TEST((co_await more.fetch(subject)).used == 1);
    co_await tiered.cool_down(subject, 1h);
    meanwhile(tiered);
    BOOST_TEST(!(co_await tiered.record(subject)).allowed);
  }
}

BOOST_FIXTURE_TEST_SUITE(subject_buckets_suite, fixture)

BOOST_AUTO_TEST_CASE(each_call_works_while_the_slots_of_the_buckets_move) {
  const auto store = open();
  run(io, [&] { return use_all_calls(store, [&](const limiter& l) { move(l); }); });
}

BOOST_AUTO_TEST_CASE(each_policy_counts_each_subject_and_keeps_the_count) {
  const auto store = open();
  std::vector<limiter> all;
  for (const auto& [name, policy] : slow_policies(3)) {
    all.emplace_back(store, name, policy, in_buckets);
  }
  const auto record = [&](bool allowed, std::int64_t used) {
    crowd c;
    for (const auto& l : all) {
      for (const char* subject : {"a", "b", "c", "d"}) l.record(subject, c.caller());
    }
    run_until_complete(io, c);
    for (std::size_t i = 0; i < c.size(); ++i) {
      BOOST_TEST_CONTEXT(all[i / 4].resource()) {
        WEIR_TEST_ERROR(c[i].ec, error_code());
        BOOST_TEST(c[i].d.allowed == allowed);
        BOOST_TEST(c[i].d.used == used);
      }
    }
  };
  record(true, 1);
  record(true, 2);
  for (const auto& l : all) move(l);
  record(true, 3);
  record(false, 3);
}

BOOST_AUTO_TEST_CASE(checks_of_one_bucket_travel_in_one_call) {
  const auto store = open();
  const auto calls_of = [&](const limiter& l) {
    crowd first, c;
    for (int i = 0; i < 40; ++i) l.record("first " + std::to_string(i), first.caller());
    run_until_complete(io, first);  // connected to all masters, scripts loaded
    const std::int64_t before = calls();
    for (int i = 0; i < 200; ++i) l.record("subject " + std::to_string(i), c.caller());
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 200u);
    return calls() - before;
  };
  BOOST_TEST(calls_of({store, "many", plenty()}) == 200);
  // Two masters, and calls of 32 keys; but writes may end anywhere.
  BOOST_TEST(calls_of({store, "many", plenty(), in_buckets}) < 20);
}

// While a slot moves, a call whose keys are partly here and partly there is answered with TRYAGAIN:
// its checks go on one by one. Each caller sees its own count rise by one.
BOOST_AUTO_TEST_CASE(slots_with_many_subjects_move_under_load) {
  const limiter l(open(), "moving", plenty(), in_buckets);
  load all(io, l, 40);
  all.run_on(5);
  const std::int64_t before = calls();
  std::int64_t checks = 0;
  for (const auto& c : all.callers) checks -= c->successes;
  for (int round = 0; round < 4; ++round) {
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      const std::uint16_t slot = slot_of("moving", bucket);
      const std::size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
      cluster.begin_move(slot, from, to);
      for (int part = 0; part < 3; ++part) {
        cluster.move_keys(slot, from, to, 5);
        all.run_on(2);
      }
      cluster.end_move(slot, from, to);
      all.run_on(2);
    }
  }
  all.end();
  std::int64_t failures = 0;
  for (const auto& c : all.callers) {
    failures += c->failures;
    checks += c->successes;
    BOOST_TEST(counted(l, c->subject) == c->successes);
  }
  BOOST_TEST_MESSAGE(checks << " checks in " << calls() - before << " calls, "
                            << told_to_try_again() << " of them told to try again; " << failures
                            << " checks failed");
  BOOST_TEST(told_to_try_again() > 0);
}

BOOST_FIXTURE_TEST_CASE(one_server_needs_no_buckets_and_takes_them, server_fixture) {
  const auto store = open();
  run(io, [&] { return use_all_calls(store, [](const limiter&) {}); });
  for (const std::string& key : keys_of(client)) {
    BOOST_TEST((key.starts_with("weir:{r:") || key.starts_with("weir:{t:")), key);
    const auto tag_end = key.find("/2}/");
    BOOST_TEST_REQUIRE(tag_end != key.npos, key);
    BOOST_TEST((key[tag_end - 1] == '0' || key[tag_end - 1] == '1'), key);
  }
}

// Whether two subjects are in one bucket is chance: the answer must not depend on it.
BOOST_FIXTURE_TEST_CASE(limiters_are_asked_together_about_one_subject, server_fixture) {
  const auto store = open();
  const fixed_window window{.limit = 9, .window = 24h};
  const limiter one(store, "r", slow, {.subject_buckets = 1});
  const limiter two(store, "r", window, {.subject_buckets = 1});
  BOOST_TEST(answer([&](auto h) { record_all(one.on("a"), two.on("a"), h); }).allowed);
  BOOST_TEST(is_refused(io, one.on("a"), two.on("b")));
  BOOST_TEST(is_refused(io, one.on("a"), one.on("b")));
  for (const limiter& other :
       {limiter(store, "r", window, {.subject_buckets = 2}), limiter(store, "r", window),
        limiter(store, "s", window, {.subject_buckets = 1})}) {
    BOOST_TEST(is_refused(io, one.on("a"), other.on("a")));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace subject_buckets_test

// limiter_options::replicas with real replicas: slow, stopped, promoted.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "redis/slot.hpp"
#include "support/fault_proxy.hpp"
#include "support/limiter_fixture.hpp"
#include "support/redis_cluster.hpp"
#include "support/sentinel_group.hpp"
#include "weir/weir.hpp"

namespace replicas_test {
namespace {

using namespace std::chrono_literals;
using weir::error;
using weir::limiter;
using weir::test::crowd;
using weir::test::fault;
using weir::test::fault_proxy;
using weir::test::outcome;
using weir::test::redis_client;
using weir::test::redis_server;
using weir::test::run_until;
using weir::test::run_until_complete;
using weir::test::sentinel_group;

constexpr weir::fixed_window many_a_day{.limit = 1'000'000, .window = 24h};

struct fixture : weir::test::limiter_fixture {
  static weir::redis_options options(const redis_server& server) {
    weir::redis_options o = weir::test::patient_options(server);
    o.silence_timeout = 400ms;  // a call waits for its replica longer than that
    return o;
  }
  weir::store open(const redis_server& server) {
    return weir::make_redis_store(io.get_executor(), options(server));
  }
  outcome record(const limiter& l, const std::string& subject, weir::record_options how = {}) {
    return outcome_of([&](auto h) { l.record(subject, how, h); });
  }
  /// What a server has counted for subject "a". Nothing else goes on meanwhile.
  static std::int64_t used_at(const redis_server& server) {
    weir::test::asio::io_context aside;
    crowd c;
    limiter(weir::make_redis_store(aside.get_executor(), options(server)), "r", many_a_day)
        .fetch("a", c.caller());
    run_until_complete(aside, c);
    BOOST_TEST(!c[0].ec.failed());
    return c[0].d.used;
  }
  static std::int64_t connections_of(redis_client& client) {
    const std::string all = client.must("CLIENT", "LIST", "TYPE", "NORMAL").text;
    constexpr std::string_view field = " name=weir";  // there may be a lib-name, too
    std::int64_t found = 0;
    for (auto at = all.find(field); at != all.npos; at = all.find(field, at + 1)) ++found;
    return found;
  }
};

/// A master, and a replica whose link to it goes through a proxy.
struct proxied_replica : fixture {
  redis_server master{{.arguments = {"--repl-diskless-sync-delay", "0"}}};
  redis_server replica;
  redis_client admin{master};
  fault_proxy link{io, master};
  fault_proxy way_in{io, master};  // for stores that follow a failover

  proxied_replica() {
    redis_client standby(replica);
    standby.must("REPLICAOF", "127.0.0.1", std::to_string(link.port()));
    poll_until([&] {
      return standby.must("INFO", "replication").text.find("master_link_status:up") !=
             std::string::npos;
    });
  }
  std::int64_t keys_at_replica() { return redis_client(replica).must("DBSIZE").integer; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(replicas_suite, fixture)

BOOST_FIXTURE_TEST_CASE(a_call_is_answered_when_the_replica_has_its_count, proxied_replica) {
  link.set_distance(5ms);
  const auto store = open(master);
  const limiter l(store, "r", many_a_day, {.replicas = 1});
  for (int i = 1; i <= 5; ++i) {
    BOOST_TEST(record(l, "s" + std::to_string(i)).d.allowed);
    BOOST_TEST(keys_at_replica() == i);
  }
  // All at once, in few writes.
  crowd c;
  for (int i = 1; i <= 500; ++i) l.record("s" + std::to_string(i), c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 500u);
  BOOST_TEST(keys_at_replica() == 500);
  BOOST_TEST(weir::test::runs_of(admin, "wait") < 50);
  // The other calls, too.
  const auto reset = outcome_of([&](auto h) { l.reset("s1", h); });
  BOOST_TEST(!reset.ec.failed());
  BOOST_TEST(keys_at_replica() == 499);
  const auto turn = outcome_of([&](auto h) { l.acquire("turn", h); });
  BOOST_TEST(turn.d.allowed);
  BOOST_TEST(keys_at_replica() == 500);
}

BOOST_FIXTURE_TEST_CASE(a_stopped_replica_delays_its_own_limiters_only, proxied_replica) {
  const auto store = open(master);
  const limiter l(store, "r", many_a_day, {.replicas = 1}), other(store, "o", many_a_day);
  BOOST_TEST(record(l, "a").d.used == 1);
  replica.pause();
  const outcome hasty = record(l, "a", {.timeout = 50ms});
  WEIR_TEST_ERROR(hasty.ec, error::not_replicated);
  BOOST_CHECK(hasty.ec == weir::condition::may_have_counted);
  BOOST_TEST(!hasty.d.allowed);

  crowd c;
  l.record("a", {.timeout = 50s}, c.caller());
  for (int i = 1; i <= 100; ++i) BOOST_TEST(record(other, "a").d.used == i);
  // The server is asked again and again, on a connection that stays.
  const std::int64_t waits = weir::test::runs_of(admin, "wait");
  poll_until([&] { return weir::test::runs_of(admin, "wait") >= waits + 3; });
  BOOST_TEST(c.answered() == 0u);
  BOOST_TEST(connections_of(admin) == 2);
  replica.resume();
  run_until_complete(io, c);
  BOOST_TEST(c[0].d.allowed);
  BOOST_TEST(record(l, "a").d.used == 4);  // the hasty call has counted
}

// The link carries nothing more, and then the master dies. What was answered is at the replica.
BOOST_FIXTURE_TEST_CASE(a_promoted_replica_has_all_that_was_answered, proxied_replica) {
  weir::redis_options o = options(master);
  o.port = static_cast<std::uint16_t>(way_in.port());
  const auto store = weir::make_redis_store(io.get_executor(), o);
  const limiter l(store, "r", weir::fixed_window{.limit = 100, .window = 24h}, {.replicas = 1});
  for (int i = 0; i < 40; ++i) BOOST_TEST(record(l, "a").d.allowed);
  link.strike({.what = fault::kind::half_open});
  crowd lost;
  for (int i = 0; i < 15; ++i) l.record("a", {.timeout = 50s}, lost.caller());
  const limiter plain(store, "r", weir::fixed_window{.limit = 100, .window = 24h});
  poll_until([&] { return answer([&](auto h) { plain.fetch("a", h); }).used == 55; });
  BOOST_TEST(lost.answered() == 0u);

  master.kill();
  run_until_complete(io, lost);
  for (const outcome& one : lost) WEIR_TEST_ERROR(one.ec, error::outcome_unknown);
  redis_client(replica).must("REPLICAOF", "NO", "ONE");
  way_in.aim_at(replica);
  outcome there;
  poll_until([&] {
    there = outcome_of([&](auto h) { plain.fetch("a", h); });
    return !there.ec;
  });
  BOOST_TEST(there.d.used == 40);
}

// At once: a give-back waits for no replica.
BOOST_FIXTURE_TEST_CASE(a_cancelled_turn_that_was_counted_goes_back, proxied_replica) {
  const auto store = open(master);
  const limiter l(store, "r", weir::gcra{.rate = weir::per_hour(1), .burst = 2}, {.replicas = 1});
  const limiter plain(store, "r", weir::gcra{.rate = weir::per_hour(1), .burst = 2});
  BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
  replica.pause();
  weir::test::cancellable_crowd c;
  l.acquire("a", c.caller());
  poll_until([&] { return answer([&](auto h) { plain.fetch("a", h); }).used == 2; });
  c.cancel_all();
  run_until_complete(io, c.c);
  WEIR_TEST_ERROR(c.c[0].ec, boost::asio::error::operation_aborted);
  poll_until([&] { return answer([&](auto h) { plain.fetch("a", h); }).used == 1; });
}

// The caller has left before the answer came: its turn waits for no replica either.
BOOST_FIXTURE_TEST_CASE(a_turn_whose_answer_came_too_late_goes_back, proxied_replica) {
  weir::redis_options o = options(master);
  o.silence_timeout = 20s;
  const auto store = weir::make_redis_store(io.get_executor(), o);
  const limiter l(store, "r", weir::gcra{.rate = weir::per_hour(1), .burst = 2}, {.replicas = 1});
  const limiter plain(store, "r", weir::gcra{.rate = weir::per_hour(1), .burst = 2});
  BOOST_TEST(record(l, "b").d.allowed);
  const std::int64_t waits = weir::test::runs_of(admin, "wait");
  replica.pause();
  master.pause();
  const outcome late = outcome_of([&](auto h) { l.acquire("a", {.timeout = 500ms}, h); });
  WEIR_TEST_ERROR(late.ec, error::no_reply);
  master.resume();
  poll_until([&] { return weir::test::runs_of(admin, "wait") > waits; });  // behind the turn
  poll_until([&] { return answer([&](auto h) { plain.fetch("a", h); }).used == 0; });
}

BOOST_FIXTURE_TEST_CASE(the_connection_ends_with_its_last_limiter_and_with_the_store,
                        proxied_replica) {
  std::optional<weir::store> store = open(master);
  const limiter plain(*store, "r", many_a_day);
  {
    const limiter l(*store, "r", many_a_day, {.replicas = 1});
    const limiter same(*store, "q", many_a_day, {.replicas = 1});
    BOOST_TEST(record(l, "a").d.allowed);
    BOOST_TEST(record(same, "a").d.allowed);
    BOOST_TEST(record(plain, "b").d.allowed);
    BOOST_TEST(connections_of(admin) == 2);
    const auto both = outcome_of([&](auto h) { weir::record_all(l.on("a"), plain.on("a"), h); });
    WEIR_TEST_ERROR(both.ec, error::cannot_combine);
  }
  poll_until([&] { return connections_of(admin) == 1; });
  const limiter l(*store, "r", many_a_day, {.replicas = 1});
  BOOST_TEST(record(l, "a").d.used == 2);
  replica.pause();
  crowd c;
  l.record("a", c.caller());
  poll_until([&] { return answer([&](auto h) { plain.fetch("a", h); }).used == 3; });
  store->close();
  run_until_complete(io, c);
  WEIR_TEST_ERROR(c[0].ec, error::outcome_unknown);
  WEIR_TEST_ERROR(record(l, "a").ec, error::store_closed);
  WEIR_TEST_ERROR(record(limiter(*store, "r", many_a_day, {.replicas = 3}), "a").ec,
                  error::store_closed);
  poll_until([&] { return connections_of(admin) == 0; });
}

// Each number of replicas has a store of its own, and a reset told the limiters of its own alone:
// another one refused its callers until the end of a cool-down that was over.
BOOST_FIXTURE_TEST_CASE(a_reset_ends_the_cool_down_for_limiters_with_other_replicas,
                        proxied_replica) {
  const auto store = open(master);
  for (const std::size_t waits_for : {0u, 1u}) {
    BOOST_TEST_CONTEXT(waits_for << " replicas") {
      const std::string name = "r" + std::to_string(waits_for);
      const weir::leaky_bucket ten_a_second{.capacity = 10, .leak = weir::per_second(10)};
      const auto make = [&](const std::string& resource, std::size_t replicas) {
        return limiter(store, resource, ten_a_second,
                       {.group = "g", .cool_downs = true, .replicas = replicas});
      };
      const limiter l = make(name, waits_for), same = make(name, 1 - waits_for);
      const limiter other = make("other", waits_for);
      BOOST_TEST(!outcome_of([&](auto h) { l.cool_down("a", 30s, h); }).ec.failed());
      BOOST_TEST(!outcome_of([&](auto h) { same.reset("a", h); }).ec.failed());
      // The second one waits for a tenth of a second, in this process.
      for (int i = 0; i < 2; ++i) {
        const outcome o = outcome_of(
            [&](auto h) { weir::acquire_all(l.on("a"), other.on("a"), {.max_wait = 5s}, h); });
        BOOST_TEST(!o.ec.failed());
        BOOST_TEST(o.d.allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_store_closes_when_its_last_handle_is_gone) {
  redis_server server;
  {
    const auto store = open(server);
    const limiter waits(store, "r", many_a_day, {.replicas = 1}), plain(store, "o", many_a_day);
    BOOST_TEST(record(plain, "a").d.allowed);
  }
  weir::test::run_out(io);  // no connection is left
}

// kill -9 under load, again and again: every answered call is there afterwards.
BOOST_AUTO_TEST_CASE(sentinels_promote_a_replica_that_lacks_no_answered_call) {
  sentinel_group group({.replicas = 1});
  const auto store = weir::make_redis_store(io.get_executor(), group.options());
  const limiter l(store, "r", many_a_day, {.replicas = 1});
  std::int64_t counted = 0, uncertain = 0, pending = 0;
  bool stopping = false;
  std::function<void()> again = [&] {
    ++pending;
    l.record("a", [&](weir::error_code ec, const weir::decision& d) {
      --pending;
      if (!ec) {
        BOOST_TEST(d.allowed);
        ++counted;
      } else {
        BOOST_CHECK_MESSAGE(ec == weir::condition::may_have_counted, ec.message());
        ++uncertain;
      }
      if (!stopping) again();
    });
  };
  for (int i = 0; i < 20; ++i) again();
  run_until(io, [&] { return counted >= 200; });
  redis_server& old = group.master();
  old.kill();
  group.wait_for_failover_from(old);
  const std::int64_t answered = counted, there = used_at(group.master());
  BOOST_TEST_MESSAGE(answered << " answered, " << uncertain << " uncertain, " << there
                              << " at the new master");
  BOOST_TEST(there >= answered);
  group.stop_failovers();  // to the old master, which is empty until it has what the new one has
  old.restart();
  run_until(io, [&] { return counted >= answered + 200; });
  stopping = true;
  run_until(io, [&] { return pending == 0; });
  const std::int64_t used = used_at(group.master());
  BOOST_TEST(used >= counted);
  BOOST_TEST(used <= counted + uncertain);
}

// Each master waits for its own replica.
BOOST_AUTO_TEST_CASE(in_a_cluster_each_node_waits_for_its_own_replica) {
  weir::test::redis_cluster cluster(2, 2);
  weir::redis_options o = weir::parse_redis_url(cluster.url());
  o.timeout = 50s;
  o.breaker_failures = 0;
  const auto store = weir::make_redis_store(io.get_executor(), o);
  const limiter l(store, "r", many_a_day, {.replicas = 1}), plain(store, "o", many_a_day);
  std::string subjects[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const auto slots = cluster.slots_of(i);
    for (int n = 0; subjects[i].empty(); ++n) {
      const std::string s = "s" + std::to_string(n);
      if (std::ranges::binary_search(slots, weir::redis::slot_of_tag("r:" + s))) subjects[i] = s;
    }
    BOOST_TEST(record(l, subjects[i]).d.used == 1);
  }
  cluster.node(2).pause();
  crowd c;
  l.record(subjects[0], c.caller());
  BOOST_TEST(record(l, subjects[1]).d.used == 2);
  for (int i = 1; i <= 20; ++i) BOOST_TEST(record(plain, std::to_string(i)).d.used == 1);
  const auto hasty = record(l, subjects[0], {.timeout = 20ms}).ec;
  BOOST_CHECK(hasty == error::timed_out || hasty == error::not_replicated);
  BOOST_TEST(c.answered() == 0u);
  cluster.node(2).resume();
  run_until_complete(io, c);
  BOOST_TEST(c[0].d.used == 2);
}

BOOST_AUTO_TEST_CASE(stores_without_replicas_refuse_the_option) {
  const auto make = [](const weir::store& s, std::size_t replicas) {
    return weir::test::error_of([&] { limiter(s, "r", many_a_day, {.replicas = replicas}); });
  };
  const auto memory = weir::make_memory_store(io.get_executor());
  WEIR_TEST_ERROR(make(memory, 1), error::invalid_policy);
  const auto memcached = weir::open_store(io.get_executor(), "memcached://127.0.0.1:1");
  WEIR_TEST_ERROR(make(memcached, 1), error::invalid_policy);
  const auto redis = weir::open_store(io.get_executor(), "redis://127.0.0.1:1");
  WEIR_TEST_ERROR(make(redis, 101), error::invalid_policy);
  WEIR_TEST_ERROR(make(redis, 100), weir::error_code());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace replicas_test

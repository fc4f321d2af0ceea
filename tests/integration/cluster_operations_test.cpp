// Calls on a Redis Cluster, while the slot of the subject moves and its master hands over to the
// replica. integration.cluster_mix has every policy.
#include "cluster_fixture.hpp"

namespace cluster_operations_test {

using namespace weir;
using namespace weir::test;

struct fixture : weir::test::cluster_fixture {
  // A manual failover holds the clients back for longer with a longer timeout.
  fixture() : cluster_fixture(3, "500") {}
  /// Moves all that the test uses to the next master.
  void move(const std::vector<std::uint16_t>& slots) {
    for (const std::uint16_t slot : slots) {
      const std::size_t from = cluster.owner_of(slot);
      cluster.move(slot, from, (from + 1) % 3);
    }
  }
  /// The states of a slot's keys, as its master has them.
  std::string state_of(std::uint16_t slot) {
    redis_client client(cluster.node(cluster.owner_of(slot)));
    std::string all;
    const auto keys = client.must("CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "10");
    for (const auto& key : keys.children) all += client.must("DUMP", key.text).text;
    return all;
  }
  /// Each master hands over to its replica.
  void fail_over() {
    for (std::size_t i = 0; i < 3; ++i) {
      redis_client(cluster.node(3 + i)).must("CLUSTER", "FAILOVER");
      run_while_waiting([&] { return !cluster.slots_of(3 + i).empty(); });
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(cluster_operations_suite, fixture)

BOOST_AUTO_TEST_CASE(reservations_refunds_tiers_and_cool_downs) {
  const auto store = open();
  const token_bucket slow{.capacity = 2, .refill = per_day(1)};
  const limiter l(store, "r", slow);
  const limiter tiered(store, "t", tiers(slow, fixture::plenty()));
  const limiter cooled(store, "c", fixture::plenty(), {.cool_downs = true});
  const limiter one(store, "one", slow, {.group = "g"});
  const limiter two(store, "two", fixture::plenty(), {.group = "g"});
  const std::vector<std::uint16_t> slots = {slot_of("r", "a"), slot_of("t", "a"), slot_of("c", "a"),
                                            weir::redis::slot_of_tag("g")};

  const auto first = answer([&](auto h) { l.acquire("a", {.max_wait = 1s}, h); });
  BOOST_TEST(first.allowed);
  BOOST_TEST(answer([&](auto h) { tiered.record("a", h); }).used == 1);
  answer([&](auto h) { cooled.cool_down("a", 1h, h); });
  BOOST_TEST(answer([&](auto h) { weir::record_all(one.on("a"), two.on("b"), h); }).allowed);

  move(slots);
  const auto second = answer([&](auto h) { l.acquire("a", {.max_wait = 1s}, h); });
  BOOST_TEST(second.allowed);
  BOOST_TEST(!answer([&](auto h) { l.acquire("a", {.max_wait = 1s}, h); }).allowed);
  BOOST_TEST(answer([&](auto h) { tiered.record("a", h); }).used == 2);
  BOOST_TEST(!answer([&](auto h) { tiered.record("a", h); }).allowed);
  BOOST_TEST(!answer([&](auto h) { cooled.record("a", h); }).allowed);
  BOOST_TEST(answer([&](auto h) { weir::record_all(one.on("a"), two.on("b"), h); }).allowed);
  BOOST_TEST(!answer([&](auto h) { weir::record_all(one.on("a"), two.on("b"), h); }).allowed);

  for (std::size_t i = 0; i < 3; ++i) cluster.replicate(i, 3 + i);
  fail_over();
  answer([&](auto h) { l.refund("a", second, h); });
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).allowed);  // the refunded unit
  BOOST_TEST(!answer([&](auto h) { l.record("a", h); }).allowed);
  BOOST_TEST(!answer([&](auto h) { cooled.record("a", h); }).allowed);
  BOOST_TEST(answer([&](auto h) { two.fetch("b", h); }).used == 2);
}

BOOST_AUTO_TEST_CASE(leases_are_renewed_and_given_back_where_their_slot_is) {
  const auto store = open();
  const concurrency_limiter gate(store, "gate", {.limit = 1, .lease_duration = 6s});
  run(io, [&]() -> asio::awaitable<void> {
    auto lease = co_await gate.enter("a", asio::use_awaitable);
    BOOST_TEST_REQUIRE(static_cast<bool>(lease));
    const std::uint16_t slot = slot_of("gate", "a");
    for (int i = 0; i < 2; ++i) {
      const std::size_t from = cluster.owner_of(slot);
      cluster.move(slot, from, (from + 1) % 3);
      const std::string before = state_of(slot);
      while (state_of(slot) == before) {  // until it is renewed
        asio::steady_timer pause(io, 20ms);
        co_await pause.async_wait(asio::use_awaitable);
      }
      BOOST_TEST(lease.is_held());
      const auto other = co_await gate.enter("a", asio::use_awaitable);
      BOOST_TEST(!other);
    }
    const std::size_t from = cluster.owner_of(slot);
    cluster.move(slot, from, (from + 1) % 3);
    lease.release();
    const auto next = co_await gate.enter("a", asio::use_awaitable);
    BOOST_TEST(static_cast<bool>(next));
  });
}

// A node that gives a slot away runs no command on a key that it does not have, not even in a
// script that has deleted the key a moment ago.
BOOST_AUTO_TEST_CASE(no_script_loses_its_key_on_a_slot_that_moves) {
  const auto store = open();
  const limiter log(store, "log", sliding_log{.limit = 3, .window = 100ms});
  const limiter ahead(store, "ahead", sliding_log{.limit = 3, .window = 100ms});
  const limiter empty(store, "empty", sliding_log{.limit = 3, .window = 100ms});
  const limiter tiered(store, "tiered",
                       tiers(fixture::plenty(), sliding_log{.limit = 3, .window = 100ms}));
  const concurrency_limiter gate(store, "gate", {.limit = 1, .lease_duration = 6s});
  const auto run_on_owner = [&](std::uint16_t slot, auto... command) {
    redis_client(cluster.node(cluster.owner_of(slot))).must(command...);
  };
  const std::vector<std::uint16_t> slots = {slot_of("log", "a"), slot_of("ahead", "a"),
                                            slot_of("empty", "a"), slot_of("gate", "a"),
                                            slot_of("tiered", "a")};
  const char* const log_of =
      "return redis.call('RPUSH', KEYS[1], struct.pack('<dd', 0, 0), "
      "struct.pack('<dd', tonumber(ARGV[1]), 1))";
  const char* const empty_log =
      "return redis.call('RPUSH', KEYS[1], "
      "struct.pack('<dddd', tonumber(ARGV[1]), 0, tonumber(ARGV[1]), 0))";
  const char* const far_ahead = "5000000000000000";
  // What has left the window, or lapsed, is replaced; and so is what a wrong clock has written.
  BOOST_TEST(answer([&](auto h) { log.record("a", h); }).allowed);
  BOOST_TEST(answer([&](auto h) { tiered.record("a", h); }).allowed);
  run_on_owner(slots[1], "EVAL", log_of, "1", "weir:{ahead:a}:l", far_ahead);
  run_on_owner(slots[2], "EVAL", empty_log, "1", "weir:{empty:a}:l", far_ahead);
  run_on_owner(slots[3], "ZADD", "weir:{gate:a}:c", "1", "1:1:1");
  run_for(150ms);
  std::vector<std::size_t> owners;
  for (const std::uint16_t slot : slots) {
    owners.push_back(cluster.owner_of(slot));
    cluster.begin_move(slot, owners.back(), (owners.back() + 1) % 3);
  }
  for (const auto* l : {&log, &ahead, &empty, &tiered}) {
    BOOST_TEST_CONTEXT(l->resource()) {
      for (int i = 0; i < 2; ++i) {
        const auto o = outcome_of([&](auto h) { l->acquire("a", {.max_wait = 1s}, h); });
        WEIR_TEST_ERROR(o.ec, error_code());
        BOOST_TEST(o.d.allowed);
      }
    }
  }
  run(io, [&]() -> asio::awaitable<void> {
    auto lease = co_await gate.enter("a", asio::use_awaitable);
    BOOST_TEST(static_cast<bool>(lease));
    const auto other = co_await gate.enter("a", asio::use_awaitable);
    BOOST_TEST(!other);
  });
  for (std::size_t i = 0; i < slots.size(); ++i) {
    cluster.end_move(slots[i], owners[i], (owners[i] + 1) % 3);
  }
}

// A reservation goes back also if its slot has moved since: close() ends soon, and run() returns.
BOOST_AUTO_TEST_CASE(a_store_that_closes_gives_reservations_back) {
  const gcra slow{.rate = per_second(1), .burst = 1};
  auto store = open(5s);
  const limiter l(store, "r", slow);
  BOOST_TEST(answer([&](auto h) { l.record("a", h); }).allowed);
  crowd waiters;
  for (int i = 0; i < 3; ++i) l.acquire("a", {.max_wait = 30s}, waiters.caller());
  const std::string key = "weir:{r:a}:m";
  const std::uint16_t slot = slot_of("r", "a");
  const auto tat = [&] {
    return redis_client(cluster.node(cluster.owner_of(slot))).must("GET", key).text;
  };
  const std::string before = tat();
  poll_until([&] { return tat() != before; });
  answer([&](auto h) { l.fetch("a", h); });  // behind the answers, which may not be read yet
  const std::size_t from = cluster.owner_of(slot);
  cluster.move(slot, from, (from + 1) % 3);
  store.close();
  run_until_complete(io, waiters);
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    WEIR_TEST_ERROR(waiters[i].ec, error::store_closed);
  }
  run_out(io);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_operations_test

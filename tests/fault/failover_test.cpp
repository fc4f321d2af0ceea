// A primary dies, its replica is promoted, and the address now leads there.
#include "fault/proxied.hpp"

namespace failover_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t limit = 100;

struct fixture : proxied {
  fixture() {
    // One round trip through the proxy at a time: the io_context has to run for each.
    redis_client(server).must("CONFIG", "SET", "repl-diskless-sync-delay", "0");
    redis_client standby(replica);
    standby.must("REPLICAOF", "127.0.0.1", std::to_string(replication.port()));
    poll_until([&] {
      return standby.must("INFO", "replication").text.find("master_link_status:up") !=
             std::string::npos;
    });
  }

  std::int64_t allowed_of(const limiter& l, int calls) {
    crowd c;
    for (int i = 0; i < calls; ++i) l.record("a", c.caller());
    run_until_complete(io, c);
    for (const auto& o : c) BOOST_TEST(!o.ec.failed());
    return static_cast<std::int64_t>(c.allowed());
  }

  bool replica_has(const std::string& subject) {
    return redis_client(replica).must("EXISTS", "weir:{r:" + subject + "}:f").integer == 1;
  }

  redis_server replica;
  fault_proxy replication{io, server};
};

BOOST_FIXTURE_TEST_SUITE(failover_suite, fixture)

// What the replica had got is still counted, and what it had not got is the most by which the limit
// can be passed.
BOOST_AUTO_TEST_CASE(a_replica_is_promoted) {
  const limiter l(open(), "r", fixed_window{.limit = limit, .window = 24h});
  std::int64_t admitted = allowed_of(l, 60);
  BOOST_TEST(admitted == 60);
  record(l, "marker");
  poll_until([&] { return replica_has("marker"); });

  replication.strike({.what = fault::kind::half_open});
  const std::int64_t not_carried = allowed_of(l, 15);
  admitted += not_carried;

  // First, so that no attempt to connect fails: calls would end at once then.
  proxy.aim_at(replica);
  server.kill();
  run_ready();

  // A replica will not write. It is asked again and again, on new connections, by the clients that
  // have the time.
  crowd patient;
  for (int i = 0; i < 200; ++i) l.record("a", patient.caller());
  run_until(io, [&] {
    const outcome o = record(l, "hasty", {.timeout = 60ms});
    if (o.ec == error::no_reply || o.ec == error::timed_out || o.ec == error::outcome_unknown)
      return false;
    WEIR_TEST_ERROR(o.ec, error::read_only);
    BOOST_CHECK(o.ec == condition::not_counted);
    return true;
  });
  BOOST_TEST(patient.answered() == 0u);

  redis_client(replica).must("REPLICAOF", "NO", "ONE");
  run_until_complete(io, patient);
  for (const auto& o : patient) BOOST_TEST(!o.ec.failed());
  admitted += static_cast<std::int64_t>(patient.allowed());
  BOOST_TEST(patient.allowed() == 40u);  // 60 were carried over
  BOOST_TEST(admitted == limit + not_carried);
  BOOST_TEST(fetch(l, "a").d.used == limit);
}

// The scripts of all policies say that it is a replica which refuses, each on its own way to a
// write.
BOOST_AUTO_TEST_CASE(calls_of_every_policy_wait_for_the_promotion) {
  std::vector<limiter> all;
  const auto s = open();
  for (const auto& [name, policy] : slow_policies(limit)) all.emplace_back(s, name, policy);
  crowd before, after;
  for (const auto& l : all) l.record("a", before.caller());
  run_until_complete(io, before);
  BOOST_TEST(before.allowed() == all.size());
  const limiter last(s, "r", fixed_window{.limit = limit, .window = 24h});
  record(last, "marker");
  poll_until([&] { return replica_has("marker"); });

  // First, so that no attempt to connect fails: calls would end at once then.
  proxy.aim_at(replica);
  server.kill();
  run_ready();
  for (const auto& l : all) {
    l.record("a", after.caller());  // on a state that is there
    l.record("b", after.caller());  // and on none
  }
  const std::size_t connections = proxy.counts().accepted;
  run_until(io, [&] { return proxy.counts().accepted >= connections + 3; });
  BOOST_TEST(after.answered() == 0u);
  redis_client(replica).must("REPLICAOF", "NO", "ONE");
  run_until_complete(io, after);
  for (std::size_t i = 0; i < after.size(); ++i) {
    BOOST_TEST_CONTEXT(all[i / 2].resource()) {
      BOOST_TEST(!after[i].ec.failed());
      BOOST_TEST(after[i].d.used == (i % 2 == 0 ? 2 : 1));
    }
  }
}

// The address moves while calls are under way, back and forth.
BOOST_AUTO_TEST_CASE(the_address_moves_under_load) {
  redis_client(replica).must("REPLICAOF", "NO", "ONE");
  const limiter l(open(), "r", fixed_window{.limit = limit, .window = 24h});
  std::int64_t admitted = 0;
  for (int round = 0; round < 10; ++round) {
    crowd c;
    for (int i = 0; i < 30; ++i) l.record("a", c.caller());
    run_ready();
    proxy.aim_at(round % 2 == 0 ? replica : server);
    proxy.strike({.what = fault::kind::reset});
    run_until_complete(io, c);
    admitted += static_cast<std::int64_t>(c.allowed());
    BOOST_TEST(c.allowed() + c.refused() + c.failed(error::outcome_unknown) == c.size());
  }
  BOOST_TEST(admitted <= 2 * limit);  // two servers that do not know of each other
}

// A hold of 25 ms for each refusal had ended before the next one came: the old primary was written
// to for seconds.
BOOST_AUTO_TEST_CASE(a_demoted_primary_far_away_is_left_after_one_round_trip) {
  const store s = open();
  const limiter l(s, "r", fixed_window{.limit = limit, .window = 24h});
  connect(l);
  open_send_window(io, s);
  redis_client(replica).must("REPLICAOF", "NO", "ONE");
  redis_client old(server);
  old.must("REPLICAOF", "127.0.0.1", std::to_string(replica.port()));
  poll_until([&] {
    return old.must("INFO", "replication").text.find("master_link_status:up") != std::string::npos;
  });
  proxy.set_distance(60ms);
  proxy.aim_at(replica);  // for new connections
  const auto asked = [&] {
    const std::string all = old.must("INFO", "commandstats").text;
    const auto at = all.find("cmdstat_evalsha:calls=");
    return at == std::string::npos ? 0 : std::stoul(all.substr(all.find('=', at) + 1));
  };
  const std::size_t asked_before = asked();
  const std::size_t told_before = proxy.counts().bytes[static_cast<std::size_t>(way::replies)];
  const auto is_told = [&] {
    return proxy.counts().bytes[static_cast<std::size_t>(way::replies)] > told_before;
  };

  // A call every 40 ms, each of a subject of its own: so each is a command.
  crowd c;
  asio::steady_timer tick(io);
  const auto call_and_wait = [&] {
    l.record("s" + std::to_string(c.size()), c.caller());
    bool over = false;
    tick.expires_after(40ms);
    tick.async_wait([&](error_code) { over = true; });
    run_until(io, [&] { return over; });
  };
  while (!is_told()) call_and_wait();
  run_ready();  // the store has read it
  const std::size_t written = c.size();
  // What is on its way there and back is awaited, and nothing more is written meanwhile.
  while (proxy.counts().accepted == 1) call_and_wait();
  const std::size_t later = c.size() - written;
  BOOST_TEST_MESSAGE(written << " calls before the first refusal was told, " << later
                             << " until the next connection, " << asked() - asked_before
                             << " commands at the old primary");
  BOOST_TEST(asked() - asked_before <= written);
  BOOST_TEST(later > 0u);
  run_until_complete(io, c);
  for (const auto& o : c) {
    BOOST_TEST(!o.ec.failed());
    BOOST_TEST(o.d.used == 1);
  }
  BOOST_TEST(asked() - asked_before <= written);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace failover_test

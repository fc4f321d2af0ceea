// A store on a master that Sentinels name, with real servers: found, killed, hung, moved.
#include "support/limiter_fixture.hpp"
#include "support/sentinel_group.hpp"

namespace sentinel_test {

using namespace weir;
using namespace weir::test;

constexpr fixed_window many_a_day{.limit = 1'000'000, .window = 24h};

struct fixture : limiter_fixture {
  limiter on(const redis_options& o) {
    return limiter(make_redis_store(io.get_executor(), o), "r", many_a_day);
  }
  decision record(const limiter& l) {
    return answer([&](auto caller) { l.record("a", caller); });
  }

  /// Callers that record again as soon as they have their answers, until stop().
  struct load {
    load(const limiter& l, int callers) : l_(l) {
      for (int i = 0; i < callers; ++i) again();
    }
    void again() {
      ++busy;
      l_.record("a", [this](error_code ec, decision d) {
        --busy;
        if (!ec) {
          ++counted;
          last_used = d.used;
        } else {
          ++(ec == condition::may_have_counted ? uncertain : failed);
        }
        if (!stopping) again();
      });
    }
    limiter l_;
    int busy = 0;
    std::int64_t counted = 0, uncertain = 0, failed = 0, last_used = 0;
    bool stopping = false;
  };
  void run_for_more(const load& l, std::int64_t answers) {
    const auto target = l.counted + answers;
    run_until(io, [&] { return l.counted >= target; });
  }
  void stop(load& l) {
    l.stopping = true;
    run_until(io, [&] { return l.busy == 0; });
  }
  /// What the server has counted.
  std::int64_t used_at(redis_server& s, const redis_options& o) {
    redis_options direct = o;
    direct.sentinel = {};
    direct.port = static_cast<std::uint16_t>(s.port());
    const limiter l = on(direct);
    return answer([&](auto caller) { l.fetch("a", caller); }).used;
  }
};

BOOST_FIXTURE_TEST_SUITE(sentinel_suite, fixture)

BOOST_AUTO_TEST_CASE(it_finds_the_master_whichever_sentinel_runs_with_passwords_everywhere) {
  sentinel_group group({.replicas = 1, .password = "p1", .sentinel_password = "p2"});
  group.sentinels[0].kill();
  group.sentinels[1].pause();
  redis_options o = group.options();
  o.connect_timeout = 300ms;
  const limiter l = on(o);
  BOOST_TEST(record(l).used == 1);
  BOOST_TEST(used_at(group.servers[0], o) == 1);

  redis_options wrong = group.options();
  wrong.sentinel.password = "no";
  wrong.timeout = 1s;
  const limiter other = on(wrong);
  const outcome refused = outcome_of([&](auto caller) { other.record("a", caller); });
  BOOST_TEST((refused.ec == error::authentication_failed || refused.ec == error::timed_out ||
              refused.ec == error::host_unreachable || refused.ec == error::connection_refused));
  BOOST_TEST((refused.ec == condition::not_counted));
}

BOOST_AUTO_TEST_CASE(a_name_that_no_sentinel_knows_is_told_at_the_deadline) {
  sentinel_group group({.replicas = 0, .sentinels = 1});
  redis_options o = group.options();
  o.sentinel.master = "other";
  o.timeout = 300ms;
  const limiter l = on(o);
  BOOST_TEST((outcome_of([&](auto caller) { l.record("a", caller); }).ec == error::master_unknown));
}

// It comes back as a replica: nobody asks it.
BOOST_AUTO_TEST_CASE(a_master_that_is_killed_or_hangs_is_replaced) {
  for (const bool hangs : {false, true}) {
    sentinel_group group;
    const redis_options o = group.options();
    load callers(on(o), 20);
    run_for_more(callers, 200);
    redis_server& old = group.master();
    hangs ? old.pause() : old.kill();
    group.wait_for_failover_from(old);
    // On a machine that stalls, the old one could become the master again.
    group.stop_failovers();
    run_for_more(callers, 200);
    hangs ? old.resume() : old.restart();
    sentinel_group::wait_for_replica(old);
    run_for_more(callers, 200);
    stop(callers);
    redis_server& master = group.master();
    BOOST_TEST(&master != &old);
    // The new master may lack what was not replicated; nothing was counted twice.
    BOOST_TEST(used_at(master, o) <= callers.counted + callers.uncertain);
    BOOST_TEST(callers.failed == 0);
  }
}

// The old master stays up: what it has answered is known, what it refuses (READONLY) did not run.
BOOST_AUTO_TEST_CASE(a_planned_failover_leaves_no_call_uncertain) {
  sentinel_group group;
  const redis_options o = group.options();
  load callers(on(o), 20);
  run_for_more(callers, 200);
  redis_server& old = group.master();
  group.fail_over();
  run_for_more(callers, 500);
  stop(callers);
  BOOST_TEST(&group.master() != &old);
  BOOST_TEST(callers.failed == 0);
  BOOST_TEST_MESSAGE("uncertain " << callers.uncertain);
  BOOST_TEST(used_at(group.master(), o) <= callers.counted + callers.uncertain);
}

// Nothing is announced then, and the old master stays one: the store counted there for ever.
BOOST_AUTO_TEST_CASE(a_master_that_sentinels_were_told_to_replace_is_left) {
  sentinel_group group({.replicas = 0, .sentinels = 1});
  redis_server other;
  redis_options o = group.options();
  o.ping_interval = 50ms;
  const limiter l = on(o);
  BOOST_TEST(record(l).used == 1);
  redis_client sentinel(group.sentinels[0]);
  sentinel.must("SENTINEL", "REMOVE", "mymaster");
  sentinel.must("SENTINEL", "MONITOR", "mymaster", "127.0.0.1", std::to_string(other.port()), "1");
  poll_until([&] { return record(l).used == 1; });
  BOOST_TEST(used_at(other, o) >= 1);
}

BOOST_AUTO_TEST_CASE(closing_ends_the_connection_to_the_sentinel_too) {
  sentinel_group group({.replicas = 0, .sentinels = 1});
  {
    const limiter l = on(group.options());
    record(l);
  }
  run_out(io);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sentinel_test

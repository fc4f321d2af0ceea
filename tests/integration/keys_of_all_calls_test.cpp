// What each kind of call leaves in Redis, and does there: every key has a TTL, no script goes
// beyond the keys that it declares, and none searches the others. keys_test.cpp has the same of the
// plain checks.
#include "integration/monitored.hpp"
#include "redis/script/scripts.hpp"
#include "support/leases.hpp"
#include "support/limiter_fixture.hpp"
#include "support/shifted_clock.hpp"

namespace keys_of_all_calls_test {

using namespace weir;
using namespace weir::test;

const limiter_options heeding{.cool_downs = true, .sync_remaining_with = vendor_count::requests};

/// Ten at once, and then within a month those turns that the tests reserve.
std::vector<named_policy> policies_of_ten() {
  auto all = slow_policies(10);
  for (auto& [name, policy] : all) {
    auto* window = std::get_if<fixed_window>(&policy);
    if (window && window->anchor == anchor::epoch) window->window = 240h;
  }
  return all;
}

const weir::tiers three_tiers(token_bucket{.capacity = 10, .refill = per_day(1)},
                              fixed_window{.limit = 10, .window = 24h},
                              sliding_log{.limit = 10, .window = 24h});

struct fixture : server_fixture {
  using look = std::function<void(const std::string&)>;

  decision record(const limiter& l, std::string_view subject, std::int64_t cost) {
    const decision d = answer([&](auto h) { l.record(subject, {.cost = cost}, h); });
    BOOST_TEST(d.allowed);
    return d;
  }
  decision fetch(const limiter& l, std::string_view subject = "a") {
    return answer([&](auto h) { l.fetch(subject, h); });
  }
  decision settle(const limiter& l, const decision& d, std::int64_t actual) {
    const decision s = answer([&](auto h) { l.settle("b", d, actual, h); });
    BOOST_TEST(s.allowed);
    return s;
  }
  void acquire(const limiter& l, std::string_view subject, std::int64_t cost,
               cancellable_crowd& by) {
    l.acquire(subject, {.cost = cost, .max_wait = 31 * 24h}, by.caller());
  }
  void cancel(cancellable_crowd& waiting, std::size_t i) {
    waiting.cancel(i);
    run_until(io, [&] { return waiting.c[i].times == 1; });
    BOOST_TEST((waiting.c[i].ec == asio::error::operation_aborted));
  }

  /// Turns of subject "a".
  void wait_and_leave(const limiter& l, const look& then) {
    record(l, "a", 8);
    then("record");
    const decision before = fetch(l);
    cancellable_crowd waiting;
    for (int i = 0; i < 3; ++i) acquire(l, "a", 5, waiting);
    const decision behind = fetch(l);
    BOOST_TEST((behind.retry_after > before.retry_after));
    then("acquire");
    cancel(waiting, 1);
    fetch(l);  // behind what was given back
    then("cancelled in between");
    cancel(waiting, 2);
    const decision one_left = fetch(l);
    BOOST_TEST((one_left.retry_after < behind.retry_after));
    then("cancelled at the end");
    cancel(waiting, 0);
    fetch(l);
    then("all cancelled");
  }

  /// What subject "b" has counted becomes less and more, also behind a turn that is reserved.
  void settle_each_way(const limiter& l, const look& then) {
    const decision first = record(l, "b", 1);
    const decision second = record(l, "b", 2), third = record(l, "b", 3), last = record(l, "b", 1);
    BOOST_TEST(answer([&](auto h) { l.refund("b", last, h); }).allowed);
    then("refund");
    settle(l, third, 2);
    then("settle downwards");
    cancellable_crowd waiting;
    acquire(l, "b", 9, waiting);
    fetch(l, "b");
    BOOST_TEST(answer([&](auto h) { l.refund("b", first, h); }).allowed);
    then("refund, a turn being reserved");
    settle(l, second, 30);
    then("settle upwards, a turn being reserved");
    cancel(waiting, 0);
    fetch(l, "b");
    then("cancelled in debt");
    const decision cheap = record(l, "c", 1);
    BOOST_TEST(answer([&](auto h) { l.settle("c", cheap, 7, h); }).allowed);
    then("settle upwards");
  }

  void hear_the_vendor(const limiter& l, const look& then) {
    record(l, "d", 1);
    const std::vector<header_field> left{{"X-RateLimit-Remaining", "4"}};
    const decision lowered = answer([&](auto h) { l.on_response("d", 200, left, h); });
    BOOST_TEST(lowered.remaining == 4);
    then("on_response with what remains");
    const std::vector<header_field> pause{{"Retry-After", "60"}};
    BOOST_TEST(answer([&](auto h) { l.on_response("d", 429, pause, h); }).cooling_down);
    then("on_response with a pause");
    BOOST_TEST(answer([&](auto h) { l.cool_down("e", 1h, h); }).cooling_down);
    then("cool_down of a stranger");
    BOOST_TEST(answer([&](auto h) { l.cool_down("d", 1h, h); }).cooling_down);
    BOOST_TEST(answer([&](auto h) { l.record("d", h); }).cooling_down);
    cancellable_crowd waiting;
    acquire(l, "d", 1, waiting);
    fetch(l, "d");
    then("acquire behind a cool_down");
    cancel(waiting, 0);
    fetch(l, "d");
    then("cancelled behind a cool_down");
  }

  void forget(const limiter& l) {
    crowd c;
    for (const char* subject : {"a", "b", "c", "d", "e"}) l.reset(subject, c.caller());
    run_until_complete(io, c);
  }

  void everything_of(const limiter& l, bool heeds, const look& then) {
    wait_and_leave(l, then);
    settle_each_way(l, then);
    if (heeds) hear_the_vendor(l, then);
  }

  void limiters_together(const store& s, const look& then) {
    const limiter_options group{.group = "g"};
    const limiter bucket(s, "bucket", gcra{.rate = per_day(1), .burst = 5}, group);
    const limiter log(s, "log", sliding_log{.limit = 5, .window = 24h}, group);
    const auto ask = [&](auto start) {
      return answer([&](auto h) { start(bucket.on("a", 2), log.on("b", 3), h); });
    };
    BOOST_TEST(ask([](auto... args) { record_all(args...); }).allowed);
    then("record_all");
    const auto looked = ask([](auto... args) { fetch_all(args...); });
    BOOST_TEST(!looked.allowed);
    cancellable_crowd waiting;
    const joint_acquire_options patiently{.max_wait = 31 * 24h};
    for (int i = 0; i < 2; ++i) {
      acquire_all(bucket.on("a", 2), log.on("b", 3), patiently, waiting.caller());
    }
    const auto behind = ask([](auto... args) { fetch_all(args...); });
    BOOST_TEST((behind.retry_after > looked.retry_after));
    then("acquire_all");
    for (const std::size_t i : {0u, 1u}) {
      cancel(waiting, i);
      ask([](auto... args) { fetch_all(args...); });
      then("acquire_all, cancelled");
    }
  }

  void gates(const store& s, const look& then) {
    const concurrency_limiter gate(s, "gate", {.limit = 3, .lease_duration = 3s, .group = "g"});
    const limiter log(s, "log", sliding_log{.limit = 5, .window = 24h}, {.group = "g"});
    std::vector<lease> held;
    held.push_back(enter(io, gate, "a"));
    then("enter");
    const claim also = log.on("c");
    gate.enter("a", also, {}, [&](error_code ec, lease l) {
      BOOST_TEST(!ec.failed(), ec.message());
      held.push_back(std::move(l));
    });
    run_until(io, [&] { return held.size() == 2; });
    BOOST_TEST(held.back().allowed());
    then("enter together with a limiter");
    const auto lapses = [&] {
      const decision d = weir::test::fetch(io, gate, "a");
      return d.decided_at + d.reset_after;
    };
    const auto first = lapses();
    const auto pause = [&] {
      asio::steady_timer timer(io, 5ms);
      bool over = false;
      timer.async_wait([&](error_code) { over = true; });
      run_until(io, [&] { return over; });
    };
    while (lapses() == first) pause();  // renewed, at a third of its length
    then("renew");
    held.pop_back();
    while (weir::test::fetch(io, gate, "a").used != 1) pause();
    then("release");
    held.clear();
    while (weir::test::fetch(io, gate, "a").used != 0) pause();
  }

  /// A renewal may come between the two readings: then they are taken again.
  bool the_gate_outlasts_its_leases(const concurrency_limiter& gate) {
    for (int i = 0; i < 3; ++i) {
      for (const std::string& key : keys()) {
        if (!key.ends_with(":c")) continue;
        const std::chrono::milliseconds left{client.must("PTTL", key).integer + 1};
        if (left >= weir::test::fetch(io, gate, "a").reset_after) return true;
      }
    }
    return false;
  }

  void every_call() {
    const auto nothing = [](const std::string&) {};
    const store s = open();
    for (const auto& [name, policy] : policies_of_ten()) {
      BOOST_TEST_CONTEXT(name) {
        const limiter plain(s, name, policy);
        everything_of(plain, false, nothing);
        const limiter attentive(s, std::string("heeding ") + name, policy, heeding);
        everything_of(attentive, true, nothing);
        forget(plain);
        forget(attentive);
      }
    }
    const limiter tiers(s, "tiers", three_tiers, heeding);
    everything_of(tiers, true, nothing);
    limiters_together(s, nothing);
    gates(s, nothing);
    forget(tiers);
  }

  std::vector<std::string> keys() { return keys_of(client); }

  void every_key_has_a_ttl(const std::string& step) {
    BOOST_TEST_CONTEXT(step) {
      const auto all = keys();
      BOOST_TEST(!all.empty());
      for (const std::string& key : all) {
        BOOST_TEST(client.must("PTTL", key).integer > 0, key << " stays for ever");
      }
    }
  }

  /// And one that lasts as long as what was counted, or reserved: what the limiter says of itself,
  /// roughly.
  void the_count_outlasts(const limiter& l, const std::string& step) {
    BOOST_TEST_CONTEXT(step) {
      for (const std::string subject : {"a", "b", "c", "d"}) {
        const decision d = fetch(l, subject);
        if (d.reset_after < 2h) continue;
        std::chrono::microseconds longest{0};
        for (const std::string& key : keys()) {
          const auto at = key.rfind("}:");
          if (!key.substr(0, at).ends_with(":" + subject)) continue;
          const std::string kind = key.substr(at + 2);
          if (kind == "h" || kind[0] == 's') continue;  // a pause, or what was settled
          longest = std::max<std::chrono::microseconds>(
              longest, std::chrono::milliseconds{client.must("PTTL", key).integer});
        }
        BOOST_TEST((longest > d.reset_after - 1h), subject << " is forgotten too early");
      }
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(keys_of_all_calls_suite, fixture)

BOOST_AUTO_TEST_CASE(no_call_leaves_a_key_for_ever_or_one_that_goes_too_early) {
  const store s = open();
  const auto try_it = [&](const limiter& l, bool heeds) {
    client.must("FLUSHALL");
    everything_of(l, heeds, [&](const std::string& step) {
      every_key_has_a_ttl(step);
      the_count_outlasts(l, step);
    });
  };
  for (const auto& [name, policy] : policies_of_ten()) {
    BOOST_TEST_CONTEXT(name) {
      try_it(limiter(s, "r", policy), false);
      try_it(limiter(s, "r", policy, heeding), true);
    }
  }
  BOOST_TEST_CONTEXT("tiers") { try_it(limiter(s, "r", three_tiers, heeding), true); }
  client.must("FLUSHALL");
  const auto then = [&](const std::string& step) { every_key_has_a_ttl(step); };
  limiters_together(s, then);
  client.must("FLUSHALL");
  const concurrency_limiter gate(s, "gate", {.limit = 3, .lease_duration = 3s, .group = "g"});
  gates(s, [&](const std::string& step) {
    every_key_has_a_ttl(step);
    BOOST_TEST(the_gate_outlasts_its_leases(gate), step << ": leases are forgotten too early");
  });
}

BOOST_AUTO_TEST_CASE(scripts_touch_only_the_keys_they_declare_and_read_the_clock_once) {
  for (const auto& script : weir::redis::scripts()) client.must("SCRIPT", "LOAD", script.text);
  redis_client monitor(server);
  monitor.must("MONITOR");
  every_call();
  const auto seen = judge_scripts(monitor, client);
  BOOST_TEST(seen.calls > 500u);
  BOOST_TEST(seen.touches > seen.calls);
  std::size_t never = 0;
  for (const auto& script : weir::redis::scripts()) never += seen.shas.contains(script.sha) ? 0 : 1;
  BOOST_TEST(never == 0u);
}

// Such commands take as long as there are keys, and hold up everybody.
BOOST_AUTO_TEST_CASE(nothing_searches_the_key_space) {
  every_call();
  const std::string used = client.must("INFO", "commandstats").text;
  for (const std::string command : {"evalsha", "unlink", "zadd", "rpush", "zrem"}) {
    BOOST_TEST(used.find("cmdstat_" + command + ":") != std::string::npos, command);
  }
  for (const std::string command :
       {"keys", "scan", "randomkey", "dbsize", "sort", "flushdb", "flushall"}) {
    BOOST_TEST(used.find("cmdstat_" + command + ":") == std::string::npos, command);
  }
}

// A TTL that is rounded down to nothing would delete the key at once, and everybody would pass.
BOOST_AUTO_TEST_CASE(a_window_below_a_millisecond_still_refuses) {
  shifted_clock clock;
  redis_server still({.environment = clock.environment()});
  const auto s = make_redis_store(io.get_executor(), patient_options(still));
  redis_client asked(still);
  const named_policy policies[] = {
      {"fixed_window", fixed_window{.limit = 2, .window = 900us}},
      {"fixed_window of 1 us", fixed_window{.limit = 2, .window = 1us}},
      {"sliding_log", sliding_log{.limit = 2, .window = 900us}},
      {"sliding_log of 1 us", sliding_log{.limit = 2, .window = 1us}},
      {"token_bucket", token_bucket{.capacity = 2, .refill = {2, 900us}}},
      {"leaky_bucket", leaky_bucket{.capacity = 2, .leak = {2, 900us}}}};
  // Late in a millisecond, and at its very beginning.
  for (const auto t0 : {1'790'000'000'123'999us, 1'790'000'000'124'000us}) {
    for (const auto& [name, policy] : policies) {
      BOOST_TEST_CONTEXT(name << " at " << t0.count()) {
        asked.must("FLUSHALL");
        clock.stop_at(t0);
        const limiter l(s, "r", policy);
        // Different costs make two script calls. Both are in one write and happen at one time.
        crowd c;
        l.record("a", {.cost = 2}, c.caller());
        l.record("a", {.cost = 1}, c.caller());
        run_until_complete(io, c);
        for (const auto& o : c) BOOST_TEST(!o.ec.failed(), o.ec.message());
        BOOST_TEST(c[0].d.allowed);
        BOOST_TEST(!c[1].d.allowed);
        const auto turn = t0 + c[1].d.retry_after;
        BOOST_TEST((turn > t0));
        clock.stop_at(turn - 1us);
        BOOST_TEST(!answer([&](auto h) { l.record("a", h); }).allowed);
        clock.stop_at(turn);
        BOOST_TEST(answer([&](auto h) { l.record("a", h); }).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace keys_of_all_calls_test

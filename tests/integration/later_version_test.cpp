// Keys that a later version of weir has written: each call on them fails with an error of its own
// and changes nothing, and the other keys of the same script call are counted.
#include "support/leases.hpp"
#include "support/limiter_fixture.hpp"

namespace later_version_test {

using namespace weir;
using namespace weir::test;

struct fixture : server_fixture {
  /// What docs/formats.md says of the keys of later versions: an odd number of bytes.
  static constexpr const char* later = "weir/2:a state that this version cannot read";

  /// Gives the key a state of the future, of the same type. Returns what is there now.
  std::string plant(const std::string& key) {
    const std::string type = client.must("TYPE", key).text;
    BOOST_TEST_REQUIRE((type == "string" || type == "list" || type == "zset"), key << " " << type);
    if (type == "string") client.must("SET", key, later);
    if (type == "list") client.must("LSET", key, "0", later);
    if (type == "zset") client.must("ZADD", key, "0", later);
    client.must("PERSIST", key);
    return dump(key);
  }
  std::string dump(const std::string& key) { return client.must("DUMP", key).text; }

  /// The calls fail with newer_state, and nothing of the key changes: not even its TTL.
  void refuses(const std::string& key, const std::vector<std::function<void(crowd&)>>& calls) {
    const std::string planted = plant(key);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      BOOST_TEST_CONTEXT(key << ", call " << i) {
        crowd c;
        calls[i](c);
        run_until_complete(io, c);
        for (const outcome& o : c) {
          WEIR_TEST_ERROR(o.ec, error::newer_state);
          BOOST_CHECK(o.ec == condition::not_counted);
        }
        BOOST_TEST(dump(key) == planted);
        BOOST_TEST(client.must("PTTL", key).integer == -1);
      }
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(later_version_suite, fixture)

BOOST_AUTO_TEST_CASE(every_call_of_every_policy_fails_and_changes_nothing) {
  const store s = open();
  for (const auto& [name, policy] : slow_policies(9)) {
    BOOST_TEST_CONTEXT(name) {
      client.must("FLUSHALL");
      const limiter l(s, "r", policy);
      const limiter hears(s, "r", policy,
                          {.cool_downs = true, .sync_remaining_with = vendor_count::requests});
      const auto said = answer([&](auto h) { l.record("a", h); });
      const std::vector<header_field> headers = {{"X-RateLimit-Limit", "9"},
                                                 {"X-RateLimit-Remaining", "1"}};
      crowd neighbours;
      refuses(keys_of(client).at(0),
              {[&](crowd& c) {
                 // They travel together.
                 for (const char* other : {"before", "after"}) {
                   l.record(other, neighbours.caller());
                   l.record("a", c.caller());
                 }
               },
               [&](crowd& c) { l.fetch("a", c.caller()); },
               [&](crowd& c) { l.acquire("a", {.max_wait = 1s}, c.caller()); },
               [&](crowd& c) { l.refund("a", said, c.caller()); },
               [&](crowd& c) { hears.on_response("a", 200, headers, c.caller()); }});
      run_until_complete(io, neighbours);
      BOOST_TEST(neighbours.allowed() == 2u);
      // A reset does not read the key.
      BOOST_TEST(!outcome_of([&](auto h) { l.reset("a", h); }).ec.failed());
      BOOST_TEST(answer([&](auto h) { l.record("a", h); }).used == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_counts_refused_requests_fails_too) {
  const store s = open();
  for (const weir::policy& p :
       {weir::policy(fixed_window{.limit = 9, .window = 24h, .count_refused = true}),
        weir::policy(sliding_window{.limit = 9, .window = 24h, .count_refused = true}),
        weir::policy(sliding_log{.limit = 9, .window = 24h, .count_refused = true})}) {
    client.must("FLUSHALL");
    const limiter l(s, "r", p);
    answer([&](auto h) { l.record("a", h); });
    refuses(keys_of(client).at(0), {[&](crowd& c) { l.record("a", c.caller()); },
                                    [&](crowd& c) { l.fetch("a", c.caller()); }});
  }
}

BOOST_AUTO_TEST_CASE(one_such_key_stops_all_tiers_and_all_limiters_of_a_call) {
  const store s = open();
  const weir::policy window = fixed_window{9, 24h};
  const limiter both(s, "both", tiers(sliding_log{9, 24h}, window));
  const limiter one(s, "one", window, {.group = "g"}), two(s, "two", window, {.group = "g"});
  const auto said = answer([&](auto h) { both.record("a", h); });
  answer([&](auto h) { record_all(one.on("a"), two.on("a"), h); });
  const std::string first = dump("weir:{both:a}:l"), own = dump("weir:{g}:one:a:f");
  BOOST_TEST((!first.empty() && !own.empty()));
  refuses("weir:{both:a}:f1", {[&](crowd& c) { both.record("a", c.caller()); },
                               [&](crowd& c) { both.fetch("a", c.caller()); },
                               [&](crowd& c) { both.acquire("a", {.max_wait = 1s}, c.caller()); },
                               [&](crowd& c) { both.refund("a", said, c.caller()); }});
  refuses("weir:{g}:two:a:f",
          {[&](crowd& c) { record_all(one.on("a"), two.on("a"), c.caller()); }});
  BOOST_TEST(dump("weir:{both:a}:l") == first);
  BOOST_TEST(dump("weir:{g}:one:a:f") == own);
  // Beside a foreign key, the reason that an upgrade takes away is told.
  client.must("SET", "weir:{both:a}:l", "foreign");
  WEIR_TEST_ERROR(outcome_of([&](auto h) { both.record("a", h); }).ec, error::newer_state);
}

BOOST_AUTO_TEST_CASE(cool_downs_and_gates_fail_too) {
  const store s = open();
  const limiter l(s, "r", fixed_window{9, 24h}, {.cool_downs = true});
  answer([&](auto h) { l.cool_down("a", 1h, h); });
  refuses("weir:{r:a}:h", {[&](crowd& c) { l.cool_down("a", 2h, c.caller()); },
                           [&](crowd& c) { l.record("a", c.caller()); },
                           [&](crowd& c) { l.fetch("a", c.caller()); }});

  const concurrency_limiter g(s, "gate", {.limit = 2, .lease_duration = 1h});
  std::vector<lease> held;
  const auto enter = [&](crowd& c) {
    g.enter("a", [&held, told = c.caller()](error_code ec, lease got) mutable {
      held.push_back(std::move(got));
      told(ec);
    });
  };
  crowd first;
  enter(first);
  run_until_complete(io, first);
  BOOST_TEST_REQUIRE(held.at(0).is_held());
  refuses("weir:{gate:a}:c", {enter, [&](crowd& c) { g.fetch("a", {}, c.caller()); }});
}

// No caller hears of these errors: the holder renews again, and a lease that cannot be given back
// stays until it would have lapsed.
BOOST_AUTO_TEST_CASE(a_gates_renewals_and_leaves_change_nothing_either) {
  const std::string key = "weir:{gate:a}:c";
  const store s = open();
  const concurrency_limiter brief(s, "gate", {.limit = 2, .lease_duration = 3s});
  const concurrency_limiter lasting(s, "gate", {.limit = 2, .lease_duration = 1h});
  const lease held = weir::test::enter(io, brief, "a");
  lease left = weir::test::enter(io, lasting, "a");
  BOOST_TEST((held.is_held() && left.is_held()));
  const auto members = [&] { return client.must("ZRANGE", key, 0, -1).children.size(); };
  const auto score_of_first = [&] {
    return std::stod(client.must("ZRANGE", key, 0, 0, "WITHSCORES").children.at(1).text);
  };

  const std::string planted = plant(key);
  std::int64_t calls = script_calls();
  left.release();
  poll_until([&] { return script_calls() > calls; });
  BOOST_TEST(dump(key) == planted);

  calls = script_calls();
  poll_until([&] { return script_calls() > calls; });  // the first lease is renewed
  BOOST_TEST(dump(key) == planted);
  BOOST_TEST(client.must("PTTL", key).integer == -1);

  BOOST_TEST(client.must("ZREM", key, later).integer == 1);
  const double end = score_of_first();
  poll_until([&] { return score_of_first() > end; });
  BOOST_TEST(held.is_held());
  BOOST_TEST(members() == 2u);
  BOOST_TEST(client.must("PTTL", key).integer > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace later_version_test

// The common path of checks with several keys, and of reservations: it answers and counts as the
// full kernels do, whatever the keys hold, and writes only what a check changes.
#include <boost/test/data/test_case.hpp>

#include "model/any_keys.hpp"
#include "model/both_paths.hpp"
#include "support/sanitized.hpp"

namespace plain_tiers_test {

using namespace weir;
using namespace weir::test;
using namespace weir::model;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr int lists = test::is_sanitized ? 1'000 : 4'000;

BOOST_FIXTURE_TEST_SUITE(plain_tiers_suite, both_paths)

BOOST_DATA_TEST_CASE(both_paths_find_and_leave_the_same_whatever_the_keys_hold,
                     boost::unit_test::data::make({false, true}), reserves) {
  test::random_source random{test::run_seed(), reserves ? 7110u : 7100u};
  std::int64_t alike = 0, counted = 0;
  for (int n = 0; n < lists; ++n) {
    std::vector<redis::call_tier> tiers;
    const auto width = static_cast<std::size_t>(random.between(1, 3));
    while (tiers.size() < width) tiers.push_back({model::any_kernel(random), 1});
    if (width == 2 && random.one_in(2)) tiers[1].kernel = policies::cool_down();
    for (redis::call_tier& t : tiers) {
      const auto most = std::visit([](const auto& k) { return k.ceiling(); }, t.kernel);
      if (random.one_in(3)) t.cost = random.between(1, std::min<std::int64_t>(most, 3));
    }
    if (!has_common_path(tiers, reserves)) continue;  // queues
    const std::int64_t max_wait = random.one_in(3) ? 0 : random.magnitude(100'000'000);
    // Some checks have their first key in common; those of one limiter and kernel never do.
    const bool may_share = width > 1 && random.one_in(2);
    key_list keys[2];
    number_list counts;
    const std::int64_t checks = random.between(1, 4);
    for (std::int64_t c = 0; c < checks; ++c) {
      for (std::size_t t = 0; t < width; ++t) {
        const bool shared = may_share && t == 0 && random.one_in(2);
        const std::string name = (shared ? "all" : std::to_string(c)) + std::to_string(t);
        keys[0].push_back("a" + name);
        keys[1].push_back("b" + name);
      }
      counts.push_back(random.one_in(2) ? 1 : random.between(reserves ? 1 : 0, 3));
    }
    if (random.one_in(3) && !reserves) counts.assign(random.one_in(2) ? 0 : 1, 1);
    for (std::size_t i = 0; i < keys[0].size(); ++i) {
      model::fill(client, random, t0, keys[0][i], keys[1][i]);
    }
    for (std::int64_t now = t0; now < t0 + 3; ++now) {
      const number_list looks(static_cast<std::size_t>(checks), 0);
      const auto answer = [&](const key_list& of_path, path which) {
        const bool shares = may_share && which == path::common;
        if (reserves) {
          return answers_of_turns(
              tiers, turns(tiers, of_path, now, counts, max_wait, which, shares), counts, max_wait);
        }
        return answers(tiers, check(tiers, of_path, now, counts, which, shares), now, counts);
      };
      const auto before = check(tiers, keys[0], now, looks, path::full);
      const std::string common = answer(keys[0], path::common);
      const std::string full = answer(keys[1], path::full);
      // A fetch by the full kernels tells what is there now.
      const auto left = check(tiers, keys[0], now, looks, path::full);
      const std::string after = answers(tiers, left, now, looks);
      const std::string expected = answers(tiers, check(tiers, keys[1], now, looks, path::full),
                                           now, looks);
      if (common != full || after != expected) {
        throw std::runtime_error("WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " call " +
                                 std::to_string(n) + "\n  common:" + common + "\n  full:" + full +
                                 "\n  after the common:" + after +
                                 "\n  after the full:" + expected);
      }
      ++alike;
      counted += left != before ? 1 : 0;
    }
    client.must("FLUSHALL");
  }
  BOOST_TEST(alike > 2 * lists);
  BOOST_TEST(counted > lists * 3 / 10);
}

BOOST_AUTO_TEST_CASE(checks_read_their_keys_together_and_write_once_what_they_change) {
  const std::string cool_down = std::to_string(t0 + 9'000'000) + "0000000010000000";
  const auto tiers = of({policies::compile(token_bucket{2, every(1ms)}),
                         policies::compile(token_bucket{2, {7, 9ms}}),
                         policies::compile(fixed_window{2, 1h}),
                         policies::compile(sliding_window{2, 1h}), policies::cool_down()});
  const key_list keys{"a1", "a2", "a3", "a4", "ac", "b1", "b2", "b3", "b4", "bc"};
  const auto used = [&](std::int64_t now, bool may_share_keys) {
    commands();
    check(tiers, keys, now, {}, path::common, may_share_keys);
    auto counts = commands();
    // The clock and the TTLs of the test, in front of the real commands.
    for (const char* own : {"hset", "hmget", "hget"}) counts.erase(own);
    return counts;
  };
  using counts = std::map<std::string, int>;
  // New keys, of which one EXISTS tells, and cool-downs, of which another one does.
  auto written = used(t0, false);
  BOOST_TEST(written["mget"] == 1);
  BOOST_TEST(written["exists"] == 2);
  BOOST_TEST(written["get"] == 0);
  const counts admitted{{"mget", 1}, {"exists", 1}, {"incrby", 2}, {"setrange", 6}};
  BOOST_TEST((used(t0 + 1, false) == admitted));
  const counts refused{{"mget", 1}, {"exists", 1}};
  BOOST_TEST((used(t0 + 2, false) == refused));
  const counts one_by_one{{"get", 10}};
  BOOST_TEST((used(t0 + 2, true) == one_by_one));
  // A cool-down refuses its check, and no other.
  client.must("DEL", "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4");
  client.must("SET", "bc", cool_down, "PX", 60'000);
  const auto cooling = used(t0 + 3, false);
  BOOST_TEST(cooling.at("pttl") == 1);
  BOOST_TEST(client.must("EXISTS", "a1", "a2", "a3", "a4").integer == 4);
  BOOST_TEST(client.must("EXISTS", "b1", "b2", "b3", "b4").integer == 0);
}

BOOST_AUTO_TEST_CASE(a_reservation_that_need_not_wait_reads_and_writes_as_a_record_does) {
  const auto tiers = of({policies::compile(token_bucket{2, every(1h)}),
                         policies::compile(fixed_window{9, 2h}), policies::cool_down()});
  const key_list keys{"a1", "a2", "ac", "b1", "b2", "bc"};
  constexpr std::int64_t day = 86'400'000'000;
  std::vector<std::int64_t> said;
  const auto used = [&](std::int64_t now, const number_list& counts) {
    commands();
    said = turns(tiers, keys, now, counts, day, path::common);
    auto sent = commands();
    for (const char* own : {"hset", "hmget", "hget", "pexpire", "script|load"}) sent.erase(own);
    return sent;
  };
  using counts = std::map<std::string, int>;
  used(t0, {});
  const counts at_once{{"mget", 1}, {"exists", 1}, {"incrby", 2}, {"setrange", 2}};
  BOOST_TEST((used(t0 + 1, {}) == at_once));
  BOOST_TEST(said[1] == redis::at_once);
  // The first subject's key has no room for both of two equal ones.
  client.must("DEL", "a1", "a2");
  used(t0 + 2, {});
  client.must("DEL", "b1", "b2");
  auto mixed = used(t0 + 3, {2, 1});
  BOOST_TEST(said[1] == t0 + 3);
  BOOST_TEST(said[1 + 11] == t0 + 3600'000'000 + 2);
  BOOST_TEST(said[1 + 22] == redis::at_once);
  BOOST_TEST(mixed["get"] > 0);
}

// Logs are no strings: each is looked at on its own.
BOOST_AUTO_TEST_CASE(checks_with_a_log_read_its_ends_and_add_to_it) {
  const auto tiers = of({policies::compile(sliding_log{2, 1h}),
                         policies::compile(token_bucket{3, every(1ms)}), policies::cool_down()});
  const key_list keys{"a1", "a2", "ac", "b1", "b2", "bc"};
  const auto used = [&](std::int64_t now) {
    commands();
    check(tiers, keys, now, {}, path::common);
    auto counts = commands();
    // "script" is how Redis 6.2 calls "script|load".
    for (const char* own : {"hset", "hmget", "hget", "pexpire", "script|load", "script"}) {
      counts.erase(own);
    }
    return counts;
  };
  using counts = std::map<std::string, int>;
  const counts fresh{{"exists", 1}, {"lindex", 2}, {"get", 2}, {"rpush", 2}, {"incrby", 2}};
  BOOST_TEST((used(t0) == fresh));
  const counts second{{"exists", 1}, {"lindex", 4}, {"get", 2}, {"rpush", 2}, {"incrby", 2}};
  BOOST_TEST((used(t0 + 1) == second));
  const counts refused{{"exists", 1}, {"lindex", 4}, {"get", 2}};
  BOOST_TEST((used(t0 + 2) == refused));
  // A cool-down refuses its check, and the log's answer is there all the same.
  client.must("SET", "bc", std::to_string(t0 + 9'000'000) + "0000000010000000", "PX", 60'000);
  const auto found = check(tiers, keys, t0 + 3, {}, path::common);
  BOOST_TEST(found[0][0] == 2);
  BOOST_TEST(found[1][0] == 2);
  BOOST_TEST(found[1][11] == t0 + 9'000'000);
}

// The first check is left to the full kernels, because one of its keys has a reservation ahead, and
// takes the last unit of the key that both have.
BOOST_AUTO_TEST_CASE(checks_that_share_a_key_are_answered_in_order_on_either_path) {
  const auto tiers = of(
      {policies::compile(fixed_window{1, 1h}), policies::compile(token_bucket{3, per_hour(3)})});
  client.must(
      "SET", "one",
      std::to_string(t0) + "/0@" + std::to_string(t0 - 1) + ">" + std::to_string(t0) + "-0+0");
  const key_list keys{"total", "one", "total", "two"};
  const auto found = check(tiers, keys, t0, {}, path::common, true);
  BOOST_TEST(found[0][1] == 0);  // the count of the window before
  BOOST_TEST(found[1][1] == 1);  // which the first check has taken
  BOOST_TEST(client.must("EXISTS", "two").integer == 0);
  BOOST_TEST(client.must("GET", "one").text != std::to_string(t0));
}

BOOST_AUTO_TEST_CASE(a_key_of_another_type_lets_nothing_be_counted_beside_it) {
  const auto tiers = of({policies::compile(fixed_window{1, 1h}),
                         policies::compile(token_bucket{3, per_hour(3)}), policies::cool_down()});
  for (const std::string other : {"a", "b", "c"}) {
    for (const path which : {path::common, path::full}) {
      client.must("FLUSHALL");
      client.must("SADD", other, "member");
      const auto found = check(tiers, {"a", "b", "c", "d", "e", "f"}, t0, {}, which);
      const std::size_t first_field = other == "a" ? 0 : other == "b" ? 3 : 8;
      BOOST_TEST(found[0][first_field] == policies::foreign);
      for (const char* key : {"a", "b", "c"}) {
        BOOST_TEST(client.must("EXISTS", key).integer == (key == other));
      }
      BOOST_TEST(client.must("EXISTS", "d", "e").integer == 2);
    }
  }
}

// Without MGET, keys looked new; and a failed INCRBY must not look like a number.
BOOST_AUTO_TEST_CASE(a_command_that_is_denied_ends_the_call_with_its_error) {
  const policies::kernel bucket = policies::compile(token_bucket{3, per_hour(3)});
  for (const auto& tiers : {of({bucket, policies::cool_down()}),
                            of({bucket, policies::compile(fixed_window{3, 1h})})}) {
    for (const std::string command : {"mget", "incrby"}) {
      client.must("FLUSHALL");
      client.must("ACL", "SETUSER", "default", "-" + command);
      BOOST_CHECK_EXCEPTION(check(tiers, {"a", "b", "c", "d"}, t0, {}, path::common),
                            std::runtime_error, [&](const std::runtime_error& e) {
                              // Not Lua's own error, such as that a table is no number.
                              const std::string_view text(e.what());
                              return text.find("attempt to") == text.npos;
                            });
      client.must("ACL", "SETUSER", "default", "+" + command);
      BOOST_TEST(client.must("EXISTS", "a", "b", "c", "d").integer == 0);
    }
  }
}

// Its head's base and its newest total had the same fraction, so the sum was a whole number.
BOOST_AUTO_TEST_CASE(a_log_whose_base_is_no_whole_number_is_something_else) {
  const auto tiers = of(
      {policies::compile(sliding_log{3, 1h}), policies::compile(token_bucket{3, every(1h)})});
  const double time = t0 - 9, line = t0 / 16'000'000 * 16e6 + 4000e6;
  client.must("RPUSH", "a", test::doubles({0, 0.5, time, 1.5, line}), test::doubles({time, 1.5}),
              test::doubles({time + 1, 2.5}));
  BOOST_TEST(check(tiers, {"a", "b"}, t0, {}, path::common)[0][0] == policies::foreign);
  BOOST_TEST(client.must("LLEN", "a").integer == 3);
  BOOST_TEST(client.must("EXISTS", "b").integer == 0);
}

// The script of the test's clock refuses a TTL below 1 ms; a server deletes the key.
BOOST_AUTO_TEST_CASE(a_refused_reservation_gives_an_ended_state_no_ttl_of_the_past) {
  const auto tiers = of(
      {policies::compile(fixed_window{1, 1h}), policies::compile(token_bucket{3, every(1ms)})});
  check({tiers[0]}, {"full"}, t0, {}, path::full);
  client.must("SET", "ended", std::to_string(t0 - 60'000'000));  // and no TTL: after a restore
  for (const path which : {path::common, path::full}) {
    const auto said = turns(tiers, {"full", "ended"}, t0 + 1, {}, 0, which);
    BOOST_TEST(said[1] > t0 + 1);
  }
  BOOST_TEST(client.must("PTTL", "ended").integer > 0);
}

// From the year 2112 on, a text of another length passed for a time that a large bucket may have.
BOOST_AUTO_TEST_CASE(a_text_that_is_no_number_is_no_time_however_late_it_is) {
  const auto tiers = of({policies::compile(token_bucket{151'169'228'688, every(12'688us)}),
                         policies::compile(fixed_window{3, 1h})});
  client.must("SET", "a", std::string(24, 'x'));
  const auto found = check(tiers, {"a", "b", "c", "d"}, 6'756'294'357'637'297, {}, path::common);
  BOOST_TEST(found[0][0] == policies::foreign);
  BOOST_TEST(client.must("EXISTS", "b").integer == 0);
  BOOST_TEST(client.must("EXISTS", "c", "d").integer == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace plain_tiers_test

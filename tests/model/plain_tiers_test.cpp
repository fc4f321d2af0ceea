// The common path of checks with several keys, and that of checks that a cool-down may refuse: they
// answer and count as the full kernels do, whatever the keys hold, and write only what a check
// changes.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "model/any_keys.hpp"
#include "model/own_script.hpp"
#include "policy/tier_set.hpp"
#include "redis/joint_call.hpp"
#include "redis/record_reply.hpp"
#include "support/random_source.hpp"
#include "support/text.hpp"

namespace plain_tiers_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;
using key_list = std::vector<std::string>;
using number_list = std::vector<std::int64_t>;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

enum class path { common, full };

struct fixture : model::script_fixture {
  test::script_harness script{client, redis::scripts()[redis::all_or_nothing].text};
  std::deque<test::script_harness> beside_cool_downs;  // by kernel

  fixture() {
    for (std::size_t i = redis::with_cool_downs; i < redis::script_count; ++i) {
      beside_cool_downs.emplace_back(client, redis::scripts()[i].text);
    }
  }

  /// What the script finds, by check; `keys` has one per tier for each. Empty after an error.
  std::vector<number_list> check(const std::vector<redis::call_tier>& tiers, const key_list& keys,
                                 std::int64_t now, const number_list& counts, path which) {
    script.set_clock(now);
    const std::size_t own = redis::script_of(tiers);
    const bool is_beside = which == path::common && own >= redis::with_cool_downs;
    if (is_beside) {
      key_list by_tier, arguments;
      for (std::size_t t = 0; t < 2; ++t) {
        for (std::size_t i = t; i < keys.size(); i += 2) by_tier.push_back(keys[i]);
      }
      std::string scratch;
      redis::each_argument(tiers, scratch, [&]<class T>(const T& argument) {
        if constexpr (std::is_integral_v<T>) {
          arguments.push_back(std::to_string(argument));
        } else {
          arguments.emplace_back(argument);
        }
      });
      beside_cool_downs[own - redis::with_cool_downs].send_run(by_tier, arguments, counts);
    } else if (which == path::common) {
      BOOST_TEST_REQUIRE(redis::takes_common_path(tiers));
      key_list packed(1);
      redis::pack_constants(packed[0], tiers);
      script.send_run(keys, packed, counts);
    } else {
      number_list arguments{static_cast<std::int64_t>(tiers.size())};
      for (const redis::call_tier& t : tiers) {
        arguments.push_back(redis::number_of(t.kernel));
        const auto own = std::visit([&](const auto& k) { return k.arguments(t.cost); }, t.kernel);
        arguments.insert(arguments.end(), own.values().begin(), own.values().end());
      }
      script.send_run(keys, arguments, counts);
    }
    std::size_t width = 0;
    for (const redis::call_tier& t : tiers) {
      width += std::visit([]<class K>(const K&) { return K::reply_width; }, t.kernel);
    }
    const std::size_t checks = keys.size() / tiers.size();
    number_list numbers(1 + checks * width);
    const redis::reply_view& reply = client.read_view();
    const auto read_plain = [&](std::string_view& text, std::span<std::int64_t> fields) {
      if (!is_beside) return redis::read_plain_tiers(tiers, text, fields);
      if (reply.root().type != redis::reply_type::bulk_string) {
        return redis::read_beside_cool_down(tiers, text, fields);
      }
      std::ranges::fill(fields, 0);
      return redis::read_plain_tiers(std::span(tiers).first(1), text, fields);
    };
    if (!redis::read_found(reply, width, numbers, read_plain)) {
      throw std::runtime_error("the script answers " + std::string(reply.root().text));
    }
    BOOST_TEST(numbers[0] == now);
    std::vector<number_list> found;
    for (auto at = numbers.begin() + 1; at != numbers.end(); at += static_cast<long>(width)) {
      found.emplace_back(at, at + static_cast<long>(width));
    }
    return found;
  }
};

std::vector<redis::call_tier> of(std::initializer_list<policies::kernel> kernels) {
  std::vector<redis::call_tier> tiers;
  for (const policies::kernel& k : kernels) tiers.push_back({k, 1});
  return tiers;
}

/// What becomes of the checks, by what the script found of each.
std::string answers(const std::vector<redis::call_tier>& tiers,
                    const std::vector<number_list>& found, std::int64_t now,
                    const number_list& counts) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::vector<policies::any_replay> states(tiers.size());
    std::vector<policies::tier<policies::any_replay>> asked;
    std::span<const std::int64_t> fields(found[i]);
    bool is_ours = true;
    for (std::size_t t = 0; t < tiers.size(); ++t) {
      std::visit(
          [&]<class K>(const K&) {
            auto& state = states[t].emplace<typename K::replay>();
            is_ours = K::restore(fields.first(K::reply_width), state) && is_ours;
            fields = fields.subspan(K::reply_width);
          },
          tiers[t].kernel);
      asked.push_back({&tiers[t].kernel, &states[t], tiers[t].cost});
    }
    text += "\n    check " + std::to_string(i) + ": ";
    if (!is_ours) text += "something else";
    const std::span<const policies::tier<policies::any_replay>> all(asked);
    const std::int64_t count = i < counts.size() ? counts[i] : 1;
    if (is_ours && count == 0) text += test::text_of(policies::fetch_all(all, now));
    for (std::int64_t n = 0; is_ours && n < count; ++n) {
      text += test::text_of(policies::record_all(all, now)) + "; ";
    }
  }
  return text;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(plain_tiers_suite, fixture)

BOOST_AUTO_TEST_CASE(both_paths_find_and_leave_the_same_whatever_the_keys_hold) {
  test::random_source random{test::run_seed(), 7100};
  std::int64_t alike = 0, counted = 0;
  for (int n = 0; n < 4'000; ++n) {
    std::vector<redis::call_tier> tiers;
    const auto width = static_cast<std::size_t>(random.between(1, 3));
    while (tiers.size() < width) tiers.push_back({model::any_kernel(random), 1});
    if (width == 2 && random.one_in(2)) tiers[1].kernel = policies::cool_down();
    for (redis::call_tier& t : tiers) {
      const auto most = std::visit([](const auto& k) { return k.ceiling(); }, t.kernel);
      if (random.one_in(3)) t.cost = random.between(1, std::min<std::int64_t>(most, 3));
    }
    if (!redis::takes_common_path(tiers)) continue;  // several queues
    // Some checks have their first key in common, but no two of one limiter.
    const bool may_share = redis::script_of(tiers) == redis::all_or_nothing;
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
      counts.push_back(random.one_in(2) ? 1 : random.between(0, 3));
    }
    if (random.one_in(3)) counts.assign(random.one_in(2) ? 0 : 1, 1);
    for (std::size_t i = 0; i < keys[0].size(); ++i) {
      model::fill(client, random, t0, keys[0][i], keys[1][i]);
    }
    for (std::int64_t now = t0; now < t0 + 3; ++now) {
      const number_list looks(counts.size(), 0);
      const auto found = check(tiers, keys[0], now, counts, path::common);
      const std::string common = answers(tiers, found, now, counts);
      const std::string full = answers(tiers, check(tiers, keys[1], now, counts, path::full), now,
                                       counts);
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
      counted += left != found ? 1 : 0;
    }
    client.must("FLUSHALL");
  }
  BOOST_TEST(alike > 10'000);
  BOOST_TEST(counted > 2'000);
}

BOOST_AUTO_TEST_CASE(a_check_reads_each_key_and_writes_once_what_it_changes) {
  const auto tiers = of({policies::compile(token_bucket{2, every(1ms)}),
                         policies::compile(fixed_window{2, 1h}),
                         policies::compile(sliding_window{2, 1h}), policies::cool_down()});
  const key_list keys{"a", "b", "c", "d"};
  check(tiers, keys, t0, {}, path::common);
  commands();
  check(tiers, keys, t0 + 1, {}, path::common);
  auto counts = commands();
  // The clock and the TTLs of the test, in front of the real commands.
  for (const char* own : {"hset", "hmget"}) counts.erase(own);
  const std::map<std::string, int> admitted{{"get", 4}, {"incrby", 1}, {"setrange", 2}};
  BOOST_TEST((counts == admitted));
  check(tiers, keys, t0 + 2, {}, path::common);
  counts = commands();
  for (const char* own : {"hset", "hmget"}) counts.erase(own);
  const std::map<std::string, int> refused{{"get", 4}};
  BOOST_TEST((counts == refused));
}

// EXISTS tells it of all cool-downs of a call.
BOOST_AUTO_TEST_CASE(checks_only_ask_whether_one_of_their_cool_downs_is_there) {
  const std::string cool_down = std::to_string(t0 + 9'000'000) + "0000000010000000";
  for (const policy& p : {policy(token_bucket{2, every(1ms)}), policy(token_bucket{2, {7, 9ms}}),
                          policy(fixed_window{2, 1h}), policy(sliding_window{2, 1h})}) {
    client.must("FLUSHALL");
    const auto tiers = of({policies::compile(p), policies::cool_down()});
    BOOST_TEST_REQUIRE(redis::script_of(tiers) >= redis::with_cool_downs);
    const key_list keys{"a", "ac", "b", "bc", "c", "cc"};
    const auto used = [&] {
      auto counts = commands();
      for (const char* own : {"hset", "hmget", "hget"}) counts.erase(own);
      return counts;
    };
    check(tiers, keys, t0, {}, path::common);
    used();
    check(tiers, keys, t0 + 1, {}, path::common);
    const char* const write = std::holds_alternative<token_bucket>(p) &&
                                      std::get<token_bucket>(p).refill.count == 1
                                  ? "incrby"
                                  : "setrange";
    const std::map<std::string, int> admitted{{"mget", 1}, {"exists", 1}, {write, 3}};
    BOOST_TEST((used() == admitted), test::text_of(p));
    check(tiers, keys, t0 + 2, {}, path::common);
    const std::map<std::string, int> refused{{"mget", 1}, {"exists", 1}};
    BOOST_TEST((used() == refused), test::text_of(p));
    // Only the check whose cool-down is there takes the common path of several keys.
    client.must("SET", "bc", cool_down, "PX", 60'000);
    client.must("DEL", "a", "b", "c");
    used();
    check(tiers, keys, t0 + 3, {}, path::common);
    auto beside = used();
    const std::map<std::string, int> cooling{{"mget", 2}, {"exists", 1}, {"get", 1}, {"pttl", 1}};
    for (const auto& [name, count] : cooling) BOOST_TEST(beside[name] == count, name);
    BOOST_TEST(client.must("EXISTS", "a", "c").integer == 2);
    BOOST_TEST(client.must("EXISTS", "b").integer == 0);
  }
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
  const auto found = check(tiers, keys, t0, {}, path::common);
  BOOST_TEST(found[0][1] == 0);  // the count of the window before
  BOOST_TEST(found[1][1] == 1);  // which the first check has taken
  BOOST_TEST(client.must("EXISTS", "two").integer == 0);
  BOOST_TEST(client.must("GET", "one").text != std::to_string(t0));
}

BOOST_AUTO_TEST_CASE(a_key_of_another_type_lets_nothing_be_counted_beside_it) {
  const auto tiers = of({policies::compile(fixed_window{1, 1h}),
                         policies::compile(token_bucket{3, per_hour(3)}), policies::cool_down()});
  for (const std::string other : {"a", "b", "c"}) {
    client.must("FLUSHALL");
    client.must("SADD", other, "member");
    const auto found = check(tiers, {"a", "b", "c", "d", "e", "f"}, t0, {}, path::common);
    const std::size_t first_field = other == "a" ? 0 : other == "b" ? 3 : 8;
    BOOST_TEST(found[0][first_field] == policies::foreign);
    for (const char* key : {"a", "b", "c"}) {
      BOOST_TEST(client.must("EXISTS", key).integer == (key == other));
    }
    BOOST_TEST(client.must("EXISTS", "d", "e").integer == 2);
  }
}

BOOST_AUTO_TEST_CASE(a_key_of_another_type_is_told_beside_a_cool_down) {
  const auto tiers = of({policies::compile(token_bucket{3, per_hour(3)}), policies::cool_down()});
  for (const std::string other : {"a", "ac"}) {
    client.must("FLUSHALL");
    client.must("SADD", other, "member");
    // Also while another one's cool-down is there.
    for (const bool cools : {false, true}) {
      if (cools) {
        client.must("SET", "bc", std::to_string(t0 + 9) + "0000000000000010", "PX", 60'000);
      }
      const auto found = check(tiers, {"a", "ac", "b", "bc", "c", "cc"}, t0, {}, path::common);
      BOOST_TEST(found[0][other == "a" ? 0 : 5] == policies::foreign);
      BOOST_TEST(found[1][5] == (cools ? t0 + 9 : 0));
      for (const char* key : {"a", "ac"}) {
        BOOST_TEST(client.must("EXISTS", key).integer == (key == other));
      }
      BOOST_TEST(client.must("EXISTS", "b", "c").integer == 2);
    }
  }
}

// Without MGET, keys looked new; and a failed INCRBY must not look like a number.
BOOST_AUTO_TEST_CASE(a_command_that_is_denied_ends_the_call_with_its_error) {
  const policies::kernel bucket = policies::compile(token_bucket{3, per_hour(3)});
  for (const auto& tiers : {of({bucket, policies::cool_down()}),
                            of({bucket, policies::compile(fixed_window{3, 1h})})}) {
    const bool is_beside = redis::script_of(tiers) != redis::all_or_nothing;
    for (const std::string command : {is_beside ? "mget" : "get", "incrby"}) {
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

BOOST_AUTO_TEST_CASE(policies_without_a_part_take_the_full_kernels) {
  const policies::kernel bucket = policies::compile(token_bucket{3, per_hour(3)});
  const policies::kernel queue = policies::compile(leaky_bucket{3, per_hour(3)});
  BOOST_TEST(redis::takes_common_path(of({bucket, queue})));
  BOOST_TEST(!redis::takes_common_path(of({queue, queue})));
  for (const policy& p :
       {policy(sliding_log{3, 1h}), policy(fixed_window{.limit = unlimited, .window = 1h}),
        policy(sliding_window{.limit = unlimited, .window = 1h})}) {
    BOOST_TEST(!redis::takes_common_path(of({bucket, policies::compile(p)})), test::text_of(p));
  }
  BOOST_TEST(!redis::takes_common_path(of({bucket, policies::cool_down(1'000'000)})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace plain_tiers_test

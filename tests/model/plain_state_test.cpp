// The common path of a record: what it writes, what it leaves alone, and that other writers of the
// same keys keep to the same rule of TTLs.
#include "model/own_script.hpp"
#include "model/policy_shapes.hpp"
#include "redis/resp/error_reply.hpp"
#include "support/text.hpp"

namespace plain_state_test {

using namespace weir;
using namespace weir::test;
using model::own_script;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

std::vector<std::string> names(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back("key " + std::to_string(i));
  return keys;
}

using command_counts = std::map<std::string, int>;

std::string text_of(const command_counts& all) {
  std::string text;
  for (const auto& [name, count] : all) text += name + "=" + std::to_string(count) + " ";
  return text;
}

/// What each policy does with keys that take two requests in an hour.
struct shape {
  policy of;
  const char* look;         // the command that reads one key
  const char* look_at_all;  // and several; null for a list
  const char* write;
};
const shape shapes[] = {
    {token_bucket{2, per_hour(2)}, "get", "mget", "incrby"},
    {gcra{per_hour(2), 2}, "get", "mget", "incrby"},
    {token_bucket{2, {7, 4h}}, "get", "mget", "setrange"},
    {fixed_window{2, 1h}, "get", "mget", "setrange"},
    {fixed_window{2, 1h, anchor::epoch, 7s}, "get", "mget", "setrange"},
    {sliding_window{2, 1h}, "get", "mget", "setrange"},
    {sliding_log{2, 1h}, nullptr, nullptr, "rpush"},
    {sliding_log{2, 1h, 1min}, nullptr, nullptr, "lset"},
};

BOOST_FIXTURE_TEST_SUITE(plain_state_suite, model::script_fixture)

BOOST_AUTO_TEST_CASE(a_refused_check_reads_and_writes_nothing) {
  for (const shape& s : shapes) {
    for (const int count : {1, 64}) {
      BOOST_TEST_CONTEXT(test::text_of(s.of) << ", " << count << " keys") {
        client.must("FLUSHALL");
        own_script script(client, s.of);
        client.must("SCRIPT", "LOAD", script.text());
        const auto keys = names(count);
        call(script, keys);
        const std::string state = client.must("DUMP", keys[0]).text;
        call(script, keys);
        BOOST_TEST((state != client.must("DUMP", keys[0]).text));
        const auto changes = [&] {
          const std::string info = client.must("INFO", "persistence").text;
          return std::stoi(info.substr(info.find("rdb_changes_since_last_save:") + 28));
        };
        const int before = changes();
        commands();
        call(script, keys);
        const command_counts all = commands();
        const char* look = count == 1 ? s.look : s.look_at_all;
        if (look != nullptr) BOOST_TEST((all == command_counts{{look, 1}}), text_of(all));
        BOOST_TEST(changes() == before);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_admitted_check_of_a_busy_key_writes_once_and_leaves_the_ttl) {
  for (const shape& s : shapes) {
    BOOST_TEST_CONTEXT(test::text_of(s.of)) {
      client.must("FLUSHALL");
      own_script script(client, s.of);
      std::int64_t first = t0 / policies::grid * policies::grid + 1;
      for (const std::string& key : names(64)) script.record({key}, first);
      commands();
      // The TATs of 2 an hour grow by 30 minutes: they cross a line each time.
      script.record(names(64), first + 1);
      command_counts all = commands();
      BOOST_TEST(all[s.write] == 64, text_of(all));
      if (s.look_at_all != nullptr) BOOST_TEST(all[s.look_at_all] == 1, text_of(all));
      BOOST_TEST(all["set"] == 0, text_of(all));
    }
  }
  // At 1000 per second, one unit takes a millisecond.
  own_script script(client, token_bucket{1000, per_second(1000)});
  const std::int64_t line = (t0 / policies::grid + 1) * policies::grid;
  script.record({"k"}, line);
  commands();
  for (int i = 0; i < 500; ++i) script.record({"k"}, line + i);
  command_counts all = commands();
  BOOST_TEST(all["incrby"] == 500);
  BOOST_TEST(all["pexpire"] == 0);
  // One that comes a cell later renews the TTL, and once.
  for (int i = 0; i < 5; ++i) script.record({"k"}, line + policies::grid + i);
  all = commands();
  BOOST_TEST(all["incrby"] == 5);
  BOOST_TEST(all["pexpire"] == 1);
}

// The full kernel answered all checks of such rates, for more than the usual script's instructions.
BOOST_AUTO_TEST_CASE(a_rate_in_parts_of_a_microsecond_takes_a_common_path_of_its_own) {
  own_script script(client, token_bucket{1000, per_second(300)});  // a unit takes 3,333 1/3 us
  const std::int64_t line = (t0 / policies::grid + 1) * policies::grid;
  const auto keys = names(64);
  commands();
  script.record(keys, line);
  command_counts all = commands();
  const command_counts of_new{{"mget", 1}, {"set", 64}, {"pexpire", 64}};
  for (const auto& [name, count] : of_new) BOOST_TEST(all[name] == count, text_of(all));
  BOOST_TEST(client.must("GET", keys[0]).text == std::to_string(line + 3333) + "/1");

  script.record(keys, line + 1);
  all = commands();
  BOOST_TEST(all["setrange"] == 64, text_of(all));
  BOOST_TEST(all["pexpire"] == 0);
  // Whole microseconds are a shorter text.
  script.record(keys, line + 2);
  all = commands();
  BOOST_TEST(all["set"] == 64, text_of(all));
  BOOST_TEST(all["pexpire"] == 0);
  BOOST_TEST(client.must("GET", keys[0]).text == std::to_string(line + 10'000));
  commands();

  // Several checks of a key are one write; a TTL is renewed behind a line, and once.
  for (int i = 0; i < 3; ++i) {
    const auto answers = script.record(keys, line + policies::grid + i,
                                       std::vector<std::int64_t>(64, 2));
    BOOST_TEST(answers[0]->used == 2 * i + 2);
  }
  all = commands();
  BOOST_TEST(all["set"] + all["setrange"] == 3 * 64, text_of(all));
  BOOST_TEST(all["pexpire"] == 64, text_of(all));
  BOOST_TEST(all["get"] == 0, text_of(all));

  // A server without memory refuses the write, and says so.
  script.record(keys, line + policies::grid + 10);
  const std::string state = client.must("GET", keys[0]).text;
  client.must("SCRIPT", "LOAD", script.text());
  client.must("CONFIG", "SET", "maxmemory", "1");
  for (const auto& some : {std::vector{keys[0]}, keys, {"a new one"}}) {
    send(script, some);
    const test::reply refused = client.read();
    BOOST_TEST(refused.is_error());
    BOOST_TEST((weir::redis::classify_error(refused.text) == error::out_of_memory), refused.text);
  }
  client.must("CONFIG", "SET", "maxmemory", "0");
  BOOST_TEST(client.must("GET", keys[0]).text == state);
}

BOOST_AUTO_TEST_CASE(buckets_that_are_full_again_all_get_the_same_text) {
  own_script script(client, token_bucket{1, every(1us)});
  client.must("SCRIPT", "LOAD", script.text());
  const auto keys = names(64);
  call(script, keys);
  commands();
  call(script, keys);
  command_counts counts = commands();
  counts.erase("pexpireat");  // runs if the call passes a line of the grid
  BOOST_TEST(text_of(counts) == text_of({{"mget", 1}, {"setrange", 64}}));
  const std::string state = client.must("GET", keys[0]).text;
  BOOST_TEST(state.size() == 16u);
  for (const std::string& key : keys) BOOST_TEST(client.must("GET", key).text == state);

  // The client never asks for more than the bucket holds. If one did, nothing would be counted.
  send(script, keys, 2);
  BOOST_TEST(!client.read().is_error());
  for (const std::string& key : keys) BOOST_TEST(client.must("GET", key).text == state);

  // A server without memory refuses the write, and says so.
  client.must("CONFIG", "SET", "maxmemory", "1");
  send(script, keys);
  const test::reply refused = client.read();
  client.must("CONFIG", "SET", "maxmemory", "0");
  BOOST_TEST(refused.is_error());
  BOOST_TEST((weir::redis::classify_error(refused.text) == error::out_of_memory), refused.text);
  for (const std::string& key : keys) BOOST_TEST(client.must("GET", key).text == state);
}

// The full kernel looked for the entry, for three times the usual script's instructions.
BOOST_AUTO_TEST_CASE(a_refused_check_of_a_log_finds_the_entry_that_has_to_leave_in_few_steps) {
  const sliding_log log{1000, 1h};
  own_script script(client, log);
  for (int i = 0; i < 40; ++i) script.record(t0 + i, 25);
  commands();
  // Twenty of the forty have to leave: the last of them came 19 us after the first.
  BOOST_TEST((script.record(t0 + 100, 500).retry_after == 1h - 81us));
  command_counts all = commands();
  BOOST_TEST(all["lindex"] == 4, text_of(all));
  for (const char* of_the_full_kernel : {"lrange", "pttl", "rpush", "lset"}) {
    BOOST_TEST(all[of_the_full_kernel] == 0, text_of(all));
  }

  test::random_source random(test::run_seed(), 1220);
  for (int round = 0; round < 30; ++round) {
    client.must("DEL", "k");
    std::vector<std::int64_t> costs;
    std::int64_t room = log.limit, now = t0;
    while (room > 0) {
      costs.push_back(std::min(room, random.magnitude(100)));
      BOOST_TEST_REQUIRE(script.record(now++, costs.back()).allowed);
      room -= costs.back();
    }
    for (int i = 0; i < 10; ++i) {
      const std::int64_t cost = random.between(1, log.limit);
      std::int64_t left = 0, entries = 0;
      while (left < cost) left += costs[static_cast<std::size_t>(entries++)];
      commands();
      const decision d = script.record(now, cost);
      BOOST_TEST_CONTEXT("cost " << cost << ", WEIR_TEST_SEED=" << test::run_seed()) {
        BOOST_TEST(d.retry_after.count() == t0 + entries - 1 + 3'600'000'000 - now);
        all = commands();
        BOOST_TEST(all["lindex"] <= 14, text_of(all));
        BOOST_TEST(all["lrange"] == 0, text_of(all));
      }
    }
  }
}

// The full kernel looked at each entry that was dropped: 6 s for a million of them.
BOOST_AUTO_TEST_CASE(a_refused_request_that_counts_drops_many_entries_in_few_steps) {
  const sliding_log log{.limit = 600, .window = 24h, .count_refused = true};
  own_script script(client, log);
  const auto kernel = std::get<policies::sliding_log>(policies::compile(log));
  policies::sliding_log::state state;
  std::int64_t now = t0;
  const auto check = [&](std::int64_t cost) {
    const decision there = script.record(++now, cost);
    BOOST_TEST_REQUIRE((there == kernel.record(state, now, cost)), test::text_of(there));
  };
  for (const std::int64_t cost : {600, 1, 300, 5, 600}) {
    for (int i = 0; i < 600; ++i) check(1);
    commands();
    check(cost);
    command_counts all = commands();
    BOOST_TEST(all["lindex"] < 50, text_of(all));
  }
}

// A larger plan's writes cross lines that a smaller plan's writes do not reach, and the other way
// round.
BOOST_AUTO_TEST_CASE(plans_that_share_a_key_keep_it_as_long_as_the_state_matters_to_the_writer) {
  test::random_source random(test::run_seed(), 1200);
  const std::vector<std::vector<policy>> plans{
      {token_bucket{3, per_second(10)}, token_bucket{1'000'000, per_second(10)},
       gcra{per_minute(1), 7}, token_bucket{50, {7, 3s}}, leaky_bucket{9, per_second(2)}},
      {fixed_window{3, 1s}, fixed_window{20, 1min}, fixed_window{100, 1h, anchor::epoch},
       fixed_window{.limit = 8, .window = 10s, .count_refused = true}, fixed_window{unlimited, 5s}},
      {sliding_window{3, 1s}, sliding_window{20, 1min}, sliding_window{100, 1h},
       sliding_window{.limit = 8, .window = 10s, .count_refused = true},
       sliding_window{unlimited, 5s}},
      {sliding_log{3, 1s}, sliding_log{20, 1min}, sliding_log{100, 1h}, sliding_log{9, 10s, 1s},
       sliding_log{.limit = 8, .window = 10s, .count_refused = true}, sliding_log{unlimited, 5s}},
  };
  for (const auto& same_key : plans) {
    std::vector<own_script> scripts;
    for (const policy& p : same_key) scripts.emplace_back(client, p);
    for (int round = 0; round < 40; ++round) {
      client.must("DEL", "k", "test:ttl");
      std::int64_t now = t0 + random.between(0, policies::grid);
      int admitted = 0;
      for (int i = 0; i < 60; ++i) {
        const auto who = static_cast<std::size_t>(
            random.between(0, static_cast<std::int64_t>(scripts.size()) - 1));
        const decision d = scripts[who].record(now, random.one_in(3) ? 2 : 1);
        admitted += d.allowed;
        if (d.allowed) {
          const std::int64_t ends = (d.decided_at + d.reset_after).time_since_epoch().count();
          BOOST_TEST_CONTEXT(test::text_of(same_key[who])
                             << ", WEIR_TEST_SEED=" << test::run_seed()) {
            BOOST_TEST_REQUIRE(ttl_end("k") >= ends + policies::grace);
          }
        }
        now += random.magnitude(2 * policies::grid);
      }
      BOOST_TEST(admitted > 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace plain_state_test

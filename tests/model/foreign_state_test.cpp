// What the scripts make of state that they find: a foreign key, a foreign entry in a log, and state
// written under another policy.
#include <numeric>

#include "model/script_state.hpp"

namespace foreign_state_test {

using namespace weir;
using namespace weir::model::script_state;

BOOST_FIXTURE_TEST_SUITE(foreign_state_suite, script_fixture)

BOOST_AUTO_TEST_CASE(a_foreign_key_is_reported_and_unchanged_and_other_keys_are_answered) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::string ahead = std::to_string(t0 + 1000);
  const std::string foreign_strings[] = {
      "", "hello", "12.5", "-5", "nan", "inf", "1e300", "1/", "/1", "1/2/3", "x/1", "1/-1", "0.5",
      "007", "1e15", "0x10", "-0", " 5", "c19cfde3e601c7453e5df6f61447ab9a",
      "2026-11-22T21:06:26.123Z", std::string(24, '\xff'), "99999999999999999999",
      "99999999999999999999/1", "abcdefghijklmnop", "abcdefghijklmnopqrstuvwx",
      std::string(16, ' '),
      // Numbers that Redis adds to and Lua reads, but that no bucket has written, and the reverse.
      "0", "-1", "0" + ahead, " " + ahead, ahead + " ", "+" + ahead, " 1.7900000002e15",
      "1.7900000002e15 ", "1.79000000020e15", "+179000000012345", ahead + ".0", "0x1p50",
      "1790000000124e3", ahead + "/", ahead + "/1 ", ahead + "/-1", ahead + "/1/1", ahead + ".0/1",
      ahead.substr(1) + ".",
      // As texts, between the times that a bucket's key may hold.
      "1700000000e00000", "1700000000000.00", "1700000000 00000", "1700000000-00000",
      "1700000000a00000", "1700000000bcdefg", "1789999999      x", "-700000000000000",
      "+700000000000000", "-1              ", "              -1", "0000000000000017",
      "17" + std::string(14, '\0'), "-1" + std::string(14, '\0'),
      // As long as our states, but not times and counts.
      doubles({nan, 1}), doubles({inf, 1}), doubles({1e16, 1}), doubles({0.5, 1}), doubles({-1, 1}),
      doubles({1, nan}), doubles({1, -1}), doubles({1, 0.5}), doubles({nan, 1, 1}),
      doubles({inf, 1, 1}), doubles({1e16, 0, 0}), doubles({0.5, 1, 1}), doubles({1, nan, 1}),
      doubles({1, 1, -3}), doubles({nan, 1, 1, 1, 1}), doubles({1, 1, 1, inf, 1}),
      doubles({1, 1, 1, 1, -1}), doubles({1, 1, 5}), doubles({1, 1, 1, 5}), doubles({1, 1, 1, nan}),
      doubles({1, nan, 1, 16e6}), doubles({1, nan, 16e6})};
  const std::vector<std::string> foreign_lists[] = {
      {"a"},
      {"a", "b"},
      {"abcdefghijklmnop"},
      {"abcdefghijklmnop", "abcdefghijklmnop"},
      {doubles({1, 0}), doubles({1, 1}), "short"},
      {std::string(16, '\0'), std::string(16, '\0'), "odd"},
      {doubles({1, 0}), doubles({nan, 1})},
      {doubles({inf, 0}), doubles({1, 1}), doubles({inf, 1})},
      {doubles({1, 0}), doubles({1, -1})},
      {doubles({0, nan, 1, 1, 16e6}), doubles({1, 1})},
      {doubles({0, 0.5, 1, 1, 16e6}), doubles({1, 1})},
      // What was given back far inside a log, as an earlier version wrote it.
      {doubles({0, 0, 0, 0, 0, 1, 1, 0}), doubles({1, 2})}};

  for (const policy& p : all_policies) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      own_script subject(client, p);
      int tried = 0;
      const auto try_it = [&](const std::string& what) {
        BOOST_TEST_CONTEXT(what) {
          client.must("DEL", "before", "after");
          const std::string was = dump("k");
          BOOST_TEST(!was.empty());
          for (const std::int64_t count : {0, 1, 2}) {
            if (count == 2 && policies::counts_refused(policies::compile(p))) continue;
            const auto answers = subject.check({"before", "k", "after"}, t0, count);
            BOOST_TEST(!answers[1].has_value());
            BOOST_TEST((answers[0] && answers[0]->allowed && answers[0]->used == count));
            BOOST_TEST((answers[2] && answers[2]->allowed && answers[2]->used == count));
            client.must("DEL", "before", "after");
          }
          // Alone, and at a cost that does not fit if the text is taken for a time.
          for (const std::int64_t cost : {1, 3}) {
            for (const std::int64_t count : {0, 1}) {
              BOOST_TEST(!subject.check({"k"}, t0, count, cost).front().has_value());
              BOOST_TEST(!subject.check({"before", "k"}, t0, count, cost).back().has_value());
            }
            client.must("DEL", "before");
          }
          BOOST_TEST((dump("k") == was));
          BOOST_TEST(client.must("PTTL", "k").integer == -1);
          ++tried;
        }
      };
      for (const std::string& value : foreign_strings) {
        client.must("SET", "k", value);
        try_it("string of " + std::to_string(value.size()) + " bytes: " + value);
      }
      for (const auto& list : foreign_lists) {
        client.must("DEL", "k");
        for (const std::string& element : list) client.must("RPUSH", "k", element);
        try_it("list of " + std::to_string(list.size()));
      }
      client.must("DEL", "k");
      client.must("HSET", "k", "field", "1");
      try_it("hash");
      client.must("DEL", "k");
      client.must("ZADD", "k", "1", "member");
      try_it("sorted set");
      client.must("DEL", "k");
      client.must("SADD", "k", "1");
      try_it("set");
      client.must("DEL", "k");
      client.must("XADD", "k", "*", "field", "1");
      try_it("stream");
      BOOST_TEST(tried > 40);
    }
  }
}

// Reading it ended the script with an error: what the keys before it had counted was an error to
// their callers.
BOOST_AUTO_TEST_CASE(a_foreign_entry_inside_a_log_fails_its_own_key_only) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string foreign_entries[] = {"",
                                         "text",
                                         "abcdefghijklmnop",
                                         doubles({nan, 1}),
                                         doubles({1, nan}),
                                         doubles({1e300, 1}),
                                         doubles({-1, 0.5})};
  const policy logs[] = {sliding_log{30, 5ms}, sliding_log{15, 5ms}, sliding_log{30, 5ms, 300us},
                         sliding_log{.limit = 15, .window = 5ms, .count_refused = true}};
  std::vector<std::string> keys;
  for (int i = 0; i < 64; ++i) keys.push_back("key " + std::to_string(i));
  constexpr std::size_t bad = 40;
  for (const policy& p : logs) {
    own_script subject(client, p);
    int told = 0;
    for (const std::string& entry : foreign_entries) {
      for (int place = 0; place < 21; ++place) {
        // At some of these times entries have left, at others there is no room.
        for (const std::int64_t after : {0, 2500, 5500, 9000}) {
          BOOST_TEST_CONTEXT(test::text_of(p) << ", " << entry.size() << " bytes at " << place
                                              << ", " << after << " us later") {
            client.must("FLUSHALL");
            for (int i = 0; i < 20; ++i) subject.check({keys[bad]}, t0 + 300 * i, 1);
            if (client.must("LLEN", keys[bad]).integer <= place) continue;
            client.must("LSET", keys[bad], std::to_string(place), entry);
            const auto answers = subject.check(keys, t0 + 5700 + after, 1);
            for (std::size_t i = 0; i < keys.size(); ++i) {
              if (i == bad) continue;
              BOOST_TEST((answers[i] && answers[i]->allowed && answers[i]->used == 1));
            }
            told += answers[bad] ? 0 : 1;
          }
        }
      }
    }
    // The common path looks at the first, at the last, and at those that may have left.
    BOOST_TEST(told > 80);
  }
}

// The common paths look at an open window or log as a whole. What they found in one key was then no
// reply of theirs to the client, which gave the connection up: all callers met an error.
BOOST_AUTO_TEST_CASE(a_state_with_wrong_numbers_fails_its_own_key_only) {
  const policy windows[] = {fixed_window{9, 5s}, sliding_window{9, 5s}, sliding_log{9, 5s}};
  const double wrong[] = {0.5, -0.5, -3, -1e7, 1e300, -1e300};
  for (const policy& p : windows) {
    own_script subject(client, p);
    int told = 0;
    const auto ask = [&](const std::string& what) {
      for (const std::int64_t cost : {1, 9}) {
        BOOST_TEST_CONTEXT(test::text_of(p) << ", " << what << ", cost " << cost) {
          client.must("DEL", "before", "after");
          client.must("COPY", "made", "k", "REPLACE");
          const auto answers = subject.check({"before", "k", "after"}, t0 + 3, 1, cost);
          told += answers[1] ? 0 : 1;
          BOOST_TEST((answers[0] && answers[0]->allowed && answers[0]->used == cost));
          BOOST_TEST((answers[2] && answers[2]->allowed && answers[2]->used == cost));
        }
      }
    };
    client.must("FLUSHALL");
    for (int i = 0; i < 3; ++i) subject.check({"own"}, t0 + i, 1);
    const bool is_list = client.must("TYPE", "own").text == "list";
    const std::vector<std::string> places = is_list ? std::vector<std::string>{"0", "1", "-1"}
                                                    : std::vector<std::string>{"0"};
    for (const std::string& place : places) {
      const std::string was = is_list ? client.must("LINDEX", "own", place).text
                                      : client.must("GET", "own").text;
      const std::size_t numbers = was.size() / sizeof(double);
      BOOST_TEST(numbers >= 2u);
      // One number is wrong, or two that are wrong by the same.
      for (std::size_t i = 0; i < numbers * numbers; ++i) {
        for (const double by : wrong) {
          std::string text = was;
          for (const std::size_t at : {i / numbers, i % numbers}) {
            double number = 0;
            std::memcpy(&number, was.data() + at * sizeof number, sizeof number);
            number += by;
            std::memcpy(text.data() + at * sizeof number, &number, sizeof number);
          }
          client.must("COPY", "own", "made", "REPLACE");
          is_list ? client.must("LSET", "made", place, text) : client.must("SET", "made", text);
          ask("numbers " + std::to_string(i / numbers) + " and " + std::to_string(i % numbers) +
              " of " + place + " are wrong by " + std::to_string(by));
        }
      }
    }
    BOOST_TEST(told > 20);
  }
}

// A meter takes any whole number for its own, but adds to what Redis can add to only.
BOOST_AUTO_TEST_CASE(a_number_that_redis_cannot_add_to_is_reported_and_unchanged) {
  own_script subject(client, token_bucket{3, per_second(1000)});
  client.must("SET", "k", std::to_string(t0 + 1000) + ".0");
  const std::string was = dump("k");
  const auto answers = subject.check({"k", "after"}, t0, 1);
  BOOST_TEST(!answers[0].has_value());
  BOOST_TEST((answers[1] && answers[1]->allowed));
  BOOST_TEST((dump("k") == was));
  BOOST_TEST(client.must("PTTL", "k").integer == -1);
}

// A limit was changed while there is state: the clock must stay where it is, and what is over must
// end no later than under the longer of the two policies.
BOOST_AUTO_TEST_CASE(state_written_under_another_window_is_read_as_of_now_and_ends_in_time) {
  struct change {
    policy from, to;
    std::chrono::microseconds over_after;
  };
  const change changes[] = {
      {fixed_window{10, 10s}, fixed_window{10, 11s}, 11s},
      {fixed_window{10, 10s}, fixed_window{10, 1s}, 1s},
      {fixed_window{10, 10s}, fixed_window{5, 24h, anchor::epoch}, 24h},
      {fixed_window{10, 10s, anchor::epoch}, fixed_window{5, 1ms}, 1ms},
      {sliding_window{10, 10s}, sliding_window{10, 11s}, 22s},
      {sliding_window{10, 1s}, sliding_window{10, 24h}, 48h},
      {sliding_window{10, 24h}, sliding_window{10, 1s}, 2s},
      {sliding_window{unlimited, 1s}, sliding_window{10, 24h}, 48h},
      {sliding_log{10, 10s}, sliding_log{10, 60s}, 60s},
      {sliding_log{10, 60s}, sliding_log{3, 1s}, 1s},
      {sliding_log{10, 60s}, sliding_log{3, 60s, 1s}, 62s},
      {sliding_log{10, 60s, 7s}, sliding_log{3, 60s, 7s}, 67s},
  };
  for (const change& c : changes) {
    BOOST_TEST_CONTEXT(test::text_of(c.from) << " to " << test::text_of(c.to)) {
      client.must("FLUSHALL");
      own_script old_one(client, c.from), new_one(client, c.to);
      for (int i = 0; i < 10; ++i) BOOST_TEST(old_one.record(t0 + i).allowed);
      const std::int64_t now = t0 + 10;
      const std::int64_t kept = old_one.requested_ttl("k").value();
      const decision looked = new_one.fetch(now);
      BOOST_TEST(looked.decided_at.time_since_epoch().count() == now);
      BOOST_TEST(looked.used <= 10);
      BOOST_TEST(looked.reset_after.count() <= c.over_after.count());
      const decision d = new_one.record(now);
      BOOST_TEST(d.allowed == looked.allowed);
      BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
      if (d.allowed) {
        // Under a shorter window, a key may stay as long as the longer one wanted it to.
        BOOST_TEST(new_one.requested_ttl("k").value() <=
                   std::max((c.over_after.count() + policies::grace + most_longer(c.to)) / 1000 + 1,
                            kept));
      }
      const decision later = new_one.record(now + c.over_after.count());
      BOOST_TEST(later.allowed);
      BOOST_TEST(later.used == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(state_written_under_another_rate_is_read_to_the_microsecond) {
  const rate rates[] = {{7, 3s}, {10, 1s}, {3, 1us}, {999'983, 24h}, {1, 1us}, {1'000'003, 1s}};
  for (const rate& from : rates) {
    for (const rate& to : rates) {
      // So large that the old state fits in: three units of 3/7 s at the most.
      const policy first = gcra{from, 10},
                   second = gcra{to, 2'000'000 * to.count / to.period.count() + 5};
      BOOST_TEST_CONTEXT(test::text_of(first) << " to " << test::text_of(second)) {
        client.must("FLUSHALL");
        own_script old_one(client, first), new_one(client, second);
        decision before;
        for (int i = 0; i < 3; ++i) before = old_one.record(t0);
        BOOST_TEST(before.allowed);
        // How long the bucket stays in use is what the state says, whatever a unit is worth.
        const decision d = new_one.fetch(t0);
        BOOST_TEST(d.decided_at.time_since_epoch().count() == t0);
        BOOST_TEST(d.reset_after.count() >= before.reset_after.count());
        BOOST_TEST(d.reset_after.count() <= before.reset_after.count() + 1);
        BOOST_TEST(new_one.record(t0).allowed);
        BOOST_TEST(new_one.fetch(t0).reset_after > d.reset_after - 1us);
        // The fraction is kept in the new rate's parts.
        const std::string stored = client.must("GET", "k").text;
        const std::size_t slash = stored.find('/');
        if (slash != stored.npos) {
          const std::int64_t parts = to.count / std::gcd(to.count, to.period.count());
          BOOST_TEST(std::stoll(stored.substr(slash + 1)) < parts);
        }
        BOOST_TEST(old_one.check({"k"}, t0, 1).front().has_value());  // and back
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace foreign_state_test

// What the scripts leave in the server, and what they make of what they find there: TTLs, keys
// without one, keys of somebody else, state written under another policy.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "model/differential.hpp"
#include "model/tier_script.hpp"
#include "policy/kernel.hpp"
#include "redis/record_reply.hpp"
#include "redis/scripts.hpp"
#include "support/redis_server.hpp"
#include "support/script_harness.hpp"
#include "support/text.hpp"

namespace {

using namespace weir;
using namespace std::chrono_literals;

constexpr std::int64_t t0 = 1'790'000'000'123'456;

/// One of each kind, each refusing the fourth request; windows and refills of a few milliseconds,
/// and below one.
const policy all_policies[] = {
    fixed_window{3, 5ms},
    fixed_window{3, 700us, anchor::epoch, 99us},
    fixed_window{.limit = 3, .window = 5ms, .count_refused = true},
    sliding_log{3, 5ms},
    sliding_log{3, 5ms, 300us},
    sliding_log{.limit = 3, .window = 700us, .count_refused = true},
    sliding_window{3, 5ms},
    sliding_window{.limit = 3, .window = 700us, .count_refused = true},
    token_bucket{3, per_second(1000)},
    token_bucket{3, {7, 3s}},
    gcra{{3, 70us}, 3},
    leaky_bucket{3, per_day(999'983)},
};

/// How much longer than its state a key may stay, in microseconds, beyond the grace.
std::int64_t most_longer(const policy& p) {
  return std::visit(
      []<class Kernel>(const Kernel&) { return Kernel::has_common_path ? policies::grid : 0; },
      policies::compile(p));
}

struct server_fixture {
  test::redis_server server{{.unix_socket = true}};
  test::redis_client client{server};

  std::string dump(const std::string& key) {
    const test::reply r = client.must("DUMP", key);
    return r.is_null() ? "" : r.text;
  }
};

/// One policy's script in a real server.
class script_subject {
 public:
  script_subject(server_fixture& in, const policy& p)
      : in_(in),
        kernel_(policies::compile(p)),
        harness_(in.client, redis::scripts()[kernel_.index()].text) {}

  /// Empty if restore() finds the key to hold something else.
  std::vector<std::optional<decision>> check(const std::vector<std::string>& keys, std::int64_t now,
                                             std::int64_t count, std::int64_t cost = 1) {
    return std::visit([&](const auto& k) { return check_with(k, keys, now, count, cost); },
                      kernel_);
  }
  decision record(const std::string& key, std::int64_t now, std::int64_t cost = 1) {
    return check({key}, now, 1, cost).front().value();
  }
  decision fetch(const std::string& key, std::int64_t now, std::int64_t cost = 1) {
    return check({key}, now, 0, cost).front().value();
  }
  /// One request in each microsecond from `from` to before `to`; nobody hears what became of them.
  void fill(const std::string& key, std::int64_t from, std::int64_t to) {
    const auto constants = std::visit([](const auto& k) { return redis::record_arguments(k, 1); },
                                      kernel_);
    const std::string keys[] = {key};
    const std::int64_t counts[] = {1};
    for (std::int64_t sent = from, read = from; read < to; ++read) {
      for (; sent < std::min(read + 500, to); ++sent) {
        harness_.send_clock(sent);
        harness_.send_run(keys, constants.values(), counts);
      }
      for (int replies = 0; replies < 2; ++replies) {
        const test::reply r = in_.client.read();
        if (r.is_error()) throw std::runtime_error(r.text);
      }
    }
  }
  std::optional<std::int64_t> requested_ttl(const std::string& key) {
    return harness_.requested_ttl(key);
  }
  void forget_ttl(const std::string& key) { harness_.forget_ttl(key); }

 private:
  template <class Kernel>
  std::vector<std::optional<decision>> check_with(const Kernel& kernel,
                                                  const std::vector<std::string>& keys,
                                                  std::int64_t now, std::int64_t count,
                                                  std::int64_t cost) {
    harness_.set_clock(now);
    const std::vector<std::int64_t> counts(keys.size(), count);
    const auto constants = redis::record_arguments(kernel, cost);
    harness_.send_run(keys, constants.values(), counts);
    const redis::reply_view& reply = in_.client.read_view();
    std::vector<std::int64_t> numbers(1 + keys.size() * Kernel::reply_width);
    if (!redis::read_found(kernel, reply, numbers)) {
      throw std::runtime_error("the script answers " + std::string(reply.root().text));
    }
    std::vector<std::optional<decision>> answers;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::span<const std::int64_t> all = numbers;
      typename Kernel::replay state;
      std::optional<decision>& answer = answers.emplace_back();
      if (!Kernel::restore(all.subspan(1 + i * Kernel::reply_width, Kernel::reply_width), state)) {
        continue;
      }
      answer = count == 0 ? kernel.fetch(state, now, cost) : kernel.record(state, now, cost);
      for (std::int64_t more = 1; more < count; ++more) answer = kernel.record(state, now, cost);
    }
    return answers;
  }

  server_fixture& in_;
  policies::kernel kernel_;
  test::script_harness harness_;
};

std::string doubles(std::initializer_list<double> values) {
  std::string out;
  for (const double value : values) {
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    out.append(bytes, sizeof(value));
  }
  return out;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(script_state, server_fixture)

BOOST_AUTO_TEST_CASE(a_write_leaves_a_ttl_that_ends_with_the_state) {
  for (const policy& p : all_policies) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      script_subject subject(*this, p);
      std::int64_t now = t0;
      for (int i = 0; i < 60; ++i) {
        const decision d = subject.record("k", now);
        if (d.allowed) {
          // Nothing is in use after reset_after; a sliding window's state ends later only by its
          // own windows.
          const std::int64_t ttl = subject.requested_ttl("k").value();
          const std::int64_t needed = (d.decided_at + d.reset_after).time_since_epoch().count() -
                                      now;
          BOOST_TEST(ttl >= 1);
          BOOST_TEST(ttl * 1000 >= needed + policies::grace);
          BOOST_TEST(ttl * 1000 < needed + policies::grace + most_longer(p) + 2000);
        }
        BOOST_TEST(client.must("PTTL", "k").integer > 0);
        now += 1 + i * 37 % 900;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_key_without_a_ttl_is_repaired_by_the_next_check_admitted_or_refused) {
  for (const policy& p : all_policies) {
    if (most_longer(p) > 0) continue;  // the next test is about these
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      script_subject subject(*this, p);
      for (int i = 1; i <= 5; ++i) {
        const decision d = subject.record("k", t0);
        BOOST_TEST(d.allowed == (i <= 3));
        BOOST_TEST(client.must("PERSIST", "k").integer == 1);
        subject.forget_ttl("k");
        subject.fetch("k", t0);  // changes nothing, not even this
        BOOST_TEST(client.must("PTTL", "k").integer == -1);

        const decision next = subject.record("k", t0 + 1);
        BOOST_TEST(client.must("PTTL", "k").integer > 0);
        const std::int64_t ttl = subject.requested_ttl("k").value();
        BOOST_TEST(ttl * 1000 >= next.reset_after.count() + policies::grace);
        BOOST_TEST(ttl * 1000 < next.reset_after.count() + policies::grace + 2000);
        if (i < 3) {  // undo the second request
          client.must("DEL", "k");
          for (int j = 0; j < i; ++j) subject.record("k", t0);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_key_without_a_ttl_is_repaired_when_its_end_crosses_a_line_of_the_grid) {
  for (const policy& p : all_policies) {
    if (most_longer(p) == 0) continue;
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      script_subject subject(*this, p);
      const std::int64_t line = t0 / policies::grid * policies::grid;
      BOOST_TEST(subject.record("k", line + 1).allowed);
      BOOST_TEST(client.must("PERSIST", "k").integer == 1);
      subject.forget_ttl("k");
      for (const std::int64_t now : {line + 2, line + 3, line + policies::grid}) {
        const std::int64_t before = client.must("PTTL", "k").integer;
        subject.fetch("k", now);  // changes nothing, not even this
        BOOST_TEST((before == -1) == (client.must("PTTL", "k").integer == -1));
        subject.record("k", now);
      }
      BOOST_TEST(client.must("PTTL", "k").integer > 0);
      BOOST_TEST(subject.requested_ttl("k").value() * 1000 >= policies::grace);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_refused_check_and_a_fetch_change_nothing) {
  for (const policy& p : all_policies) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      script_subject subject(*this, p);
      subject.fetch("k", t0);
      subject.check({"k"}, t0, 0, 3);
      BOOST_TEST(dump("k").empty());  // and no empty key is made

      for (int i = 0; i < 3; ++i) BOOST_TEST(subject.record("k", t0).allowed);
      const std::string before = dump("k");
      const auto unchanged = [&] { return dump("k") == before && !subject.requested_ttl("k"); };
      BOOST_TEST(!before.empty());
      subject.forget_ttl("k");

      for (const std::int64_t later : {0, 1, 20}) {
        BOOST_TEST(!subject.fetch("k", t0 + later, 3).allowed);
        BOOST_TEST(unchanged());
        if (policies::counts_refused(policies::compile(p))) continue;
        BOOST_TEST(!subject.record("k", t0 + later, 3).allowed);
        BOOST_TEST(unchanged());
      }
      BOOST_TEST(subject.fetch("k", t0 + 3'000'000).allowed);  // when it is all over
      BOOST_TEST(unchanged());
      if (policies::counts_refused(policies::compile(p))) {
        BOOST_TEST(!subject.record("k", t0).allowed);
        BOOST_TEST(!unchanged());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(somebody_elses_key_is_told_and_left_alone_and_its_neighbours_are_answered) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::string foreign_strings[] = {
      "", "hello", "12.5", "-5", "nan", "inf", "1e300", "1/", "/1", "1/2/3", "x/1", "1/-1",
      "99999999999999999999", "99999999999999999999/1", "abcdefghijklmnop",
      "abcdefghijklmnopqrstuvwx", std::string(16, ' '),
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
      {doubles({1, 0}), doubles({nan, 1})},
      {doubles({inf, 0}), doubles({1, 1}), doubles({inf, 1})},
      {doubles({1, 0}), doubles({1, -1})}};

  for (const policy& p : all_policies) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      script_subject subject(*this, p);
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
    script_subject subject(*this, p);
    int told = 0;
    for (const std::string& entry : foreign_entries) {
      for (int place = 0; place < 21; ++place) {
        // At some of these times entries have left, at others there is no room.
        for (const std::int64_t after : {0, 2500, 5500, 9000}) {
          BOOST_TEST_CONTEXT(test::text_of(p) << ", " << entry.size() << " bytes at " << place
                                              << ", " << after << " us later") {
            client.must("FLUSHALL");
            for (int i = 0; i < 20; ++i) subject.record(keys[bad], t0 + 300 * i);
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
    BOOST_TEST(told > 100);
  }
}

// A meter takes any whole number for its own, but adds to what Redis can add to only.
BOOST_AUTO_TEST_CASE(a_number_that_redis_does_not_add_to_is_told_and_left_alone) {
  script_subject subject(*this, token_bucket{3, per_second(1000)});
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
      script_subject old_one(*this, c.from), new_one(*this, c.to);
      for (int i = 0; i < 10; ++i) BOOST_TEST(old_one.record("k", t0 + i).allowed);
      const std::int64_t now = t0 + 10;
      const std::int64_t kept = old_one.requested_ttl("k").value();
      const decision looked = new_one.fetch("k", now);
      BOOST_TEST(looked.decided_at.time_since_epoch().count() == now);
      BOOST_TEST(looked.used <= 10);
      BOOST_TEST(looked.reset_after.count() <= c.over_after.count());
      const decision d = new_one.record("k", now);
      BOOST_TEST(d.allowed == looked.allowed);
      BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
      if (d.allowed) {
        // Under a shorter window, a key may stay as long as the longer one wanted it to.
        BOOST_TEST(new_one.requested_ttl("k").value() <=
                   std::max((c.over_after.count() + policies::grace + most_longer(c.to)) / 1000 + 1,
                            kept));
      }
      const decision later = new_one.record("k", now + c.over_after.count());
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
        script_subject old_one(*this, first), new_one(*this, second);
        decision before;
        for (int i = 0; i < 3; ++i) before = old_one.record("k", t0);
        BOOST_TEST(before.allowed);
        // How long the bucket stays in use is what the state says, whatever a unit is worth.
        const decision d = new_one.fetch("k", t0);
        BOOST_TEST(d.decided_at.time_since_epoch().count() == t0);
        BOOST_TEST(d.reset_after.count() >= before.reset_after.count());
        BOOST_TEST(d.reset_after.count() <= before.reset_after.count() + 1);
        BOOST_TEST(new_one.record("k", t0).allowed);
        BOOST_TEST(new_one.fetch("k", t0).reset_after > d.reset_after - 1us);
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

// More entries than Lua could unpack at once: 8,000.
BOOST_AUTO_TEST_CASE(a_log_of_ten_thousand_is_dropped_in_one_record) {
  for (const bool count_refused : {false, true}) {
    const policy p{sliding_log{.limit = 20'000, .window = 1s, .count_refused = count_refused}};
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      script_subject subject(*this, p);
      subject.fill("k", t0, t0 + 10'000);
      BOOST_TEST(client.must("LLEN", "k").integer == 10'001);
      BOOST_TEST(client.must("COPY", "k", "most").integer == 1);

      const decision most = subject.record("most", t0 + 1'000'000 + 8'999);
      BOOST_TEST(most.allowed);
      BOOST_TEST(most.used == 1'001);
      BOOST_TEST(client.must("LLEN", "most").integer == 1'002);

      const decision all = subject.record("k", t0 + 1'000'000 + 9'999);
      BOOST_TEST(all.allowed);
      BOOST_TEST(all.used == 1);
      BOOST_TEST(client.must("LLEN", "k").integer == 2);
    }
  }
}

// A refund with more than a thousand entries behind it gave nothing back.
BOOST_AUTO_TEST_CASE(a_refund_in_a_log_of_ten_thousand_takes_out_its_own_entry) {
  const policy p = sliding_log{20'000, 1s};
  script_subject subject(*this, p);
  std::map<std::int64_t, decision> said;
  std::int64_t next = 0;
  for (const std::int64_t i : {0, 1, 5'000, 8'999, 9'000, 9'500}) {
    subject.fill("k", t0 + next, t0 + i);
    said[i] = subject.record("k", t0 + i);
    next = i + 1;
  }
  subject.fill("k", t0 + next, t0 + 10'000);

  test::script_harness settlements(client, redis::scripts()[redis::settlement].text);
  const std::int64_t now = t0 + 10'000;
  const auto refund = [&](std::int64_t i) {
    model::tier_script sent{{policies::compile(p)}, {1}, {"k"}};
    const policies::tickets known = policies::tickets_of(said.at(i));
    const auto arguments = sent.settlement(now + 1'000'000, known);
    sent.keys.push_back("settled" + std::to_string(i));
    settlements.set_clock(now);
    return sent.run(client, settlements, arguments, 1, 2 + sent.width())[1];
  };
  std::int64_t left = 10'000;
  for (const std::int64_t i : {5'000, 0, 8'999, 1, 9'000, 9'500}) {
    BOOST_TEST(refund(i) == 1);
    BOOST_TEST(subject.fetch("k", now).used == --left);
    BOOST_TEST(client.must("LLEN", "k").integer == left + 1);
  }
  BOOST_TEST(refund(9'000) == 0);
  BOOST_TEST(subject.fetch("k", now).used == left);

  // Each of the others leaves when its own time has come.
  const auto used_after = [&](std::int64_t left) {
    return subject.fetch("k", t0 + 1'000'000 + left).used;
  };
  BOOST_TEST(used_after(1) == 9'994);
  BOOST_TEST(used_after(2) == 9'993);
  BOOST_TEST(used_after(4'999) == 4'996);
  BOOST_TEST(used_after(5'000) == 4'996);
  BOOST_TEST(used_after(8'998) == 998);
  BOOST_TEST(used_after(8'999) == 998);
  BOOST_TEST(used_after(9'000) == 998);
  BOOST_TEST(used_after(9'499) == 499);
  BOOST_TEST(used_after(9'500) == 499);
  BOOST_TEST(used_after(9'501) == 498);
  BOOST_TEST(used_after(9'999) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

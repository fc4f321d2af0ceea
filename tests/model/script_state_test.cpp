// What the scripts leave in the server: TTLs, nothing after a refusal, and logs of any length.
#include "model/script_state.hpp"
#include "model/tier_script.hpp"

namespace script_state_test {

using namespace weir;
using namespace weir::model::script_state;

BOOST_FIXTURE_TEST_SUITE(script_state_suite, script_fixture)

BOOST_AUTO_TEST_CASE(a_write_leaves_a_ttl_that_ends_with_the_state) {
  for (const policy& p : all_policies) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      own_script subject(client, p);
      std::int64_t now = t0;
      for (int i = 0; i < 60; ++i) {
        const decision d = subject.record(now);
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
      own_script subject(client, p);
      for (int i = 1; i <= 5; ++i) {
        const decision d = subject.record(t0);
        BOOST_TEST(d.allowed == (i <= 3));
        BOOST_TEST(client.must("PERSIST", "k").integer == 1);
        subject.forget_ttl("k");
        subject.fetch(t0);  // changes nothing, not even this
        BOOST_TEST(client.must("PTTL", "k").integer == -1);

        const decision next = subject.record(t0 + 1);
        BOOST_TEST(client.must("PTTL", "k").integer > 0);
        const std::int64_t ttl = subject.requested_ttl("k").value();
        BOOST_TEST(ttl * 1000 >= next.reset_after.count() + policies::grace);
        BOOST_TEST(ttl * 1000 < next.reset_after.count() + policies::grace + 2000);
        if (i < 3) {  // undo the second request
          client.must("DEL", "k");
          for (int j = 0; j < i; ++j) subject.record(t0);
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
      own_script subject(client, p);
      const std::int64_t line = t0 / policies::grid * policies::grid;
      BOOST_TEST(subject.record(line + 1).allowed);
      BOOST_TEST(client.must("PERSIST", "k").integer == 1);
      subject.forget_ttl("k");
      for (const std::int64_t now : {line + 2, line + 3, line + policies::grid}) {
        const std::int64_t before = client.must("PTTL", "k").integer;
        subject.fetch(now);  // changes nothing, not even this
        BOOST_TEST((before == -1) == (client.must("PTTL", "k").integer == -1));
        subject.record(now);
      }
      BOOST_TEST(client.must("PTTL", "k").integer > 0);
      BOOST_TEST(subject.requested_ttl("k").value() * 1000 >= policies::grace);
    }
  }
}

// The full kernel set a shorter TTL than the head promised, so the common path did not renew it.
BOOST_AUTO_TEST_CASE(a_log_that_lost_its_ttl_stays_as_long_as_its_later_entries_matter) {
  own_script subject(client, sliding_log{1, 10s});
  const std::int64_t t = (t0 / policies::grid + 1) * policies::grid + 6'100'000;
  BOOST_TEST(subject.record(t).allowed);
  BOOST_TEST(client.must("PERSIST", "k").integer == 1);
  subject.forget_ttl("k");
  // The full kernel answers, because the clock is behind.
  BOOST_TEST(!subject.record(t - 1).allowed);
  BOOST_TEST(client.must("PTTL", "k").integer > 0);
  BOOST_TEST(subject.record(t + 10'000'000).allowed);
  BOOST_TEST(subject.requested_ttl("k").value() * 1000 >= 10'000'000 + policies::grace);
}

BOOST_AUTO_TEST_CASE(a_refused_check_and_a_fetch_change_nothing) {
  for (const policy& p : all_policies) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      client.must("FLUSHALL");
      own_script subject(client, p);
      subject.fetch(t0);
      subject.check({"k"}, t0, 0, 3);
      BOOST_TEST(dump("k").empty());  // and no empty key is made

      for (int i = 0; i < 3; ++i) BOOST_TEST(subject.record(t0).allowed);
      const std::string before = dump("k");
      const auto unchanged = [&] { return dump("k") == before && !subject.requested_ttl("k"); };
      BOOST_TEST(!before.empty());
      subject.forget_ttl("k");

      for (const std::int64_t later : {0, 1, 20}) {
        BOOST_TEST(!subject.fetch(t0 + later, 3).allowed);
        BOOST_TEST(unchanged());
        if (policies::counts_refused(policies::compile(p))) continue;
        BOOST_TEST(!subject.record(t0 + later, 3).allowed);
        BOOST_TEST(unchanged());
      }
      BOOST_TEST(subject.fetch(t0 + 3'000'000).allowed);  // when it is all over
      BOOST_TEST(unchanged());
      if (policies::counts_refused(policies::compile(p))) {
        BOOST_TEST(!subject.record(t0).allowed);
        BOOST_TEST(!unchanged());
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
      own_script subject(client, p);
      subject.fill(t0, t0 + 10'000);
      BOOST_TEST(client.must("LLEN", "k").integer == 10'001);
      BOOST_TEST(client.must("COPY", "k", "most").integer == 1);

      const decision most = subject.check({"most"}, t0 + 1'000'000 + 8'999, 1).front().value();
      BOOST_TEST(most.allowed);
      BOOST_TEST(most.used == 1'001);
      BOOST_TEST(client.must("LLEN", "most").integer == 1'002);

      const decision all = subject.record(t0 + 1'000'000 + 9'999);
      BOOST_TEST(all.allowed);
      BOOST_TEST(all.used == 1);
      BOOST_TEST(client.must("LLEN", "k").integer == 2);
    }
  }
}

// Only entries with at most 128 newer ones: the script writes these again.
BOOST_AUTO_TEST_CASE(a_refund_in_a_log_of_ten_thousand_takes_out_its_own_entry_if_it_is_new) {
  const policy p = sliding_log{20'000, 1s};
  own_script subject(client, p);
  std::map<std::int64_t, decision> said;
  std::int64_t next = 0;
  for (const std::int64_t i : {0, 5'000, 9'870, 9'871, 9'950, 9'999}) {
    subject.fill(t0 + next, t0 + i);
    said[i] = subject.record(t0 + i);
    next = i + 1;
  }
  subject.fill(t0 + next, t0 + 10'000);

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
  for (const std::int64_t i : {0, 5'000, 9'870, 9'871, 9'999, 9'950}) {
    BOOST_TEST(refund(i) == 1);
    if (i > 9'870) --left;
    BOOST_TEST(subject.fetch(now).used == left);
    BOOST_TEST(client.must("LLEN", "k").integer == left + 1);
  }
  BOOST_TEST(refund(9'950) == 0);
  BOOST_TEST(subject.fetch(now).used == left);

  // Each of the others leaves when its own time has come.
  const auto used_after = [&](std::int64_t left) {
    return subject.fetch(t0 + 1'000'000 + left).used;
  };
  BOOST_TEST(used_after(0) == 9'996);
  BOOST_TEST(used_after(4'999) == 4'997);
  BOOST_TEST(used_after(5'000) == 4'996);
  BOOST_TEST(used_after(9'869) == 127);
  BOOST_TEST(used_after(9'870) == 126);
  BOOST_TEST(used_after(9'871) == 126);
  BOOST_TEST(used_after(9'949) == 48);
  BOOST_TEST(used_after(9'950) == 48);
  BOOST_TEST(used_after(9'997) == 1);
  BOOST_TEST(used_after(9'998) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace script_state_test

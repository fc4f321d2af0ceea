// Plans of different lengths that share a key: no write of one shortens the TTL that another needs,
// whether it counts now or reserves.
#include "model/kernel_subject.hpp"
#include "model/tier_script.hpp"
#include "support/redis_server.hpp"
#include "support/text.hpp"

namespace shared_key_test {

using namespace weir;
using namespace weir::test;
using policies::any_replay;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t hour = 3'600'000'000;

struct fixture : model::script_server {
  fixture() : script_server(1210) {}

  static model::tier_script asked(const policy& p) { return {{policies::compile(p)}, {1}, {"k"}}; }

  decision record(const policy& p, std::int64_t now, std::int64_t checks = 1) {
    const model::tier_script sent = asked(p);
    auto found = found_by(sent, now, checks);
    if (checks == 0) return policies::fetch_all<any_replay>(sent.tiers(found), now);
    return policies::record_all<any_replay>(sent.tiers(found), now);
  }
  using script_server::give_back;
  using script_server::reserve;
  decision reserve(const policy& p, std::int64_t now, std::int64_t max_wait) {
    return reserve(asked(p), now, 1, max_wait)[0].said;
  }
  void give_back(const policy& p, std::int64_t now, const decision& said) {
    give_back(asked(p), now, policies::tickets_of(said));
  }

  /// In microseconds.
  std::int64_t ttl_end() {
    const test::reply end = client.must("HGET", "test:ttl", "k");
    BOOST_TEST_REQUIRE(!end.is_null());
    return std::stoll(end.text);
  }
};

struct pair {
  policy shorter, longer;
};
const pair pairs[] = {
    {fixed_window{2, 1s}, fixed_window{100, 1h}},
    {fixed_window{2, 1s, anchor::epoch}, fixed_window{100, 1h, anchor::epoch}},
    {sliding_window{2, 1s}, sliding_window{100, 1h}},
    {sliding_log{2, 1s}, sliding_log{100, 1h}},
    {sliding_log{.limit = 2, .window = 1s, .count_refused = true}, sliding_log{100, 1h}},
    {sliding_log{2, 1s, 50ms}, sliding_log{100, 1h, 50ms}},
};

BOOST_FIXTURE_TEST_SUITE(shared_key_suite, fixture)

// The second reservation cut the TTL from an hour to the shorter plan's seconds: then the key was
// gone, and the longer plan let all of its limit pass again.
BOOST_AUTO_TEST_CASE(reservations_of_a_shorter_plan_keep_the_ttl_that_a_longer_plan_set) {
  for (const auto& [shorter, longer] : pairs) {
    BOOST_TEST_CONTEXT(test::text_of(shorter) << " beside " << test::text_of(longer)) {
      client.must("FLUSHALL");
      const std::int64_t ends = t0 / hour * hour + hour;
      std::int64_t now = ends - hour / 2;
      BOOST_TEST(record(longer, now).allowed);
      BOOST_TEST(ttl_end() >= ends);
      decision last;
      for (int i = 0; i < 5; ++i) {
        last = reserve(shorter, ++now, hour / 10);
        BOOST_TEST(last.allowed);
        BOOST_TEST(ttl_end() >= ends);
      }
      give_back(shorter, ++now, last);
      record(shorter, ++now);
      BOOST_TEST(ttl_end() >= ends);
      BOOST_TEST(record(longer, now, 0).used > 0);
    }
  }
}

// What was reserved under the larger limit weighs more than the smaller one. The check that is
// refused counts, drops what can no longer matter, and looked for its entry behind the log's end:
// the caller was told that its key holds something else.
BOOST_AUTO_TEST_CASE(
    a_refused_check_that_counts_finds_its_entry_behind_reservations_of_another_plan) {
  const policy smaller = sliding_log{.limit = 2, .window = 1s, .count_refused = true};
  const policy larger = sliding_log{100, 1h};
  std::int64_t now = t0;
  for (int i = 0; i < 3; ++i) BOOST_TEST(reserve(smaller, ++now, hour).allowed);
  for (int i = 0; i < 4; ++i) BOOST_TEST(reserve(larger, ++now, hour).allowed);
  for (int i = 0; i < 3; ++i) {
    const decision d = record(smaller, ++now);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.retry_after > 0us);
  }
}

// The move wrote the shorter plan's TTL of seconds: the longer plan's count was gone with it.
BOOST_AUTO_TEST_CASE(a_state_that_moves_when_the_clock_is_set_back_keeps_the_ttl_of_a_longer_plan) {
  for (const auto& [shorter, longer] : pairs) {
    for (const bool is_ahead : {false, true}) {
      for (int round = 0; round < 20; ++round) {
        BOOST_TEST_CONTEXT(test::text_of(shorter)
                           << " beside " << test::text_of(longer) << (is_ahead ? ", ahead" : "")
                           << ", WEIR_TEST_SEED=" << test::run_seed()) {
          client.must("FLUSHALL");
          std::int64_t now = t0 + random.between(0, hour);
          // At the end of the longer window, its line of the grid is that of the shorter one, too,
          // and the script takes it for that.
          if (hour - now % hour < 2 * policies::grid) now -= 2 * policies::grid;
          BOOST_TEST(record(longer, now).allowed);
          const std::int64_t set = ttl_end();
          if (is_ahead) {
            for (int i = 0; i < 3; ++i) BOOST_TEST(reserve(shorter, now, hour).allowed);
          }
          const std::int64_t earlier = now - random.between(5'000'000, hour - 5'000'000);
          record(shorter, earlier);
          const decision seen = record(longer, earlier, 0);
          BOOST_TEST(seen.used > 0);
          // As long as that plan has set it, in milliseconds, or as the moved state matters to it.
          const std::int64_t ends = (seen.decided_at + seen.reset_after).time_since_epoch().count();
          BOOST_TEST(ttl_end() >= std::min(ends + policies::grace, set - 1000));
        }
      }
    }
  }
}

// A sliding window that was over for the shorter plan was deleted: the longer plan's count was
// gone.
BOOST_AUTO_TEST_CASE(a_late_refund_of_a_shorter_plan_keeps_what_a_longer_plan_counts) {
  for (const auto& [shorter, longer] : pairs) {
    if (policies::counts_refused(policies::compile(shorter))) continue;
    BOOST_TEST_CONTEXT(test::text_of(shorter) << " beside " << test::text_of(longer)) {
      client.must("FLUSHALL");
      std::int64_t now = t0 / hour * hour + hour + 1;  // windows of both begin together
      const std::int64_t ends = now - 1 + hour;
      BOOST_TEST(record(longer, now).allowed);
      const decision late = record(shorter, ++now);
      BOOST_TEST(late.allowed);
      give_back(shorter, now += 5'000'000, late);
      BOOST_TEST(ttl_end() >= ends);
      BOOST_TEST(record(longer, now + 5'000'000, 0).used > 0);
    }
  }
}

// A log gave back what had left the shorter plan's window, as long as the longer one kept its
// entry. The settlement's marker may be gone by then: what was given back twice was another
// request's.
BOOST_AUTO_TEST_CASE(a_shorter_plan_gives_nothing_back_of_what_has_left_its_window) {
  for (const auto& [shorter, longer] : pairs) {
    if (policies::counts_refused(policies::compile(shorter))) continue;
    BOOST_TEST_CONTEXT(test::text_of(shorter) << " beside " << test::text_of(longer)) {
      client.must("FLUSHALL");
      model::kernel_subject here(longer);
      std::int64_t now = t0 / hour * hour + hour + 1;  // windows of both begin together
      BOOST_TEST(record(longer, now).allowed);
      BOOST_TEST(here.record(now).allowed);
      here.become(shorter);
      const decision one = record(shorter, now);
      const model::kernel_subject::turn one_here = here.book(now, 0);
      BOOST_TEST((one.allowed && one_here.said.allowed));
      for (const std::int64_t later : {1'000, 61'000'000}) {
        now += later;
        give_back(shorter, now, one);
        here.give_back(now, one_here);
        BOOST_TEST(record(longer, now, 0).used == 1);
      }
      here.become(longer);
      BOOST_TEST(here.fetch(now).used == 1);
    }
  }
}

// A second tier makes the shorter plan reserve far ahead. When the reservations were given back,
// the window found before them was over for that plan: it was deleted, and the longer plan's count
// was gone.
BOOST_AUTO_TEST_CASE(reservations_ahead_that_a_shorter_plan_gives_back_leave_a_longer_plans_count) {
  const policy minute = fixed_window{1, 1min};
  const std::vector<std::size_t> orders[] = {{0}, {1, 0}, {2, 1, 0}};
  for (const auto& [shorter, longer] : pairs) {
    if (policies::counts_refused(policies::compile(shorter))) continue;
    const model::tier_script both{
        {policies::compile(shorter), policies::compile(minute)}, {1, 1}, {"k", "minute"}};
    for (const auto& order : orders) {
      BOOST_TEST_CONTEXT(test::text_of(shorter) << " beside " << test::text_of(longer) << ", "
                                                << order.size() << " ahead") {
        client.must("FLUSHALL");
        std::int64_t now = t0 / hour * hour + hour + 1;  // windows of both begin together
        found_by({{policies::compile(minute)}, {1}, {"minute"}}, now);
        record(longer, now, 3);
        std::vector<model::tier_script::reserved> ahead;
        for (std::size_t i = 0; i < order.size(); ++i) {
          ahead.push_back(reserve(both, ++now, 1, hour)[0]);
          BOOST_TEST(ahead.back().said.allowed);
          BOOST_TEST(ahead.back().said.delay > 50s);
        }
        now += 5'000'000;
        for (const std::size_t i : order) {
          give_back(both, ++now, policies::tickets_of(ahead[i].said, ahead[i].found));
        }
        BOOST_TEST(record(longer, now, 0).used == 3);
        BOOST_TEST(ttl_end() >= t0 / hour * hour + 2 * hour);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_count_of_a_plan_shortens_the_ttl_of_another) {
  for (const auto& [shorter, longer] : pairs) {
    int ahead = 0;  // in one round there may be none
    for (int round = 0; round < 30; ++round) {
      client.must("DEL", "k", "test:ttl");
      std::int64_t now = t0 + random.between(0, policies::grid), end = 0;
      for (int step = 0; step < 40; ++step) {
        const policy& p = random.one_in(4) ? longer : shorter;
        const decision d = random.one_in(3) ? reserve(p, now, 2'000'000) : record(p, now);
        if (d.allowed) {
          BOOST_TEST_CONTEXT(test::text_of(p)
                             << ", step " << step << ", WEIR_TEST_SEED=" << test::run_seed()) {
            // Milliseconds that were left are rounded down.
            BOOST_TEST_REQUIRE(ttl_end() >= end - 1000 * step);
          }
          end = std::max(end, ttl_end());
          ahead += d.delay > 0us;
        }
        now += random.magnitude(2'000'000);
      }
      BOOST_TEST(end > 0);
    }
    BOOST_TEST(ahead > 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace shared_key_test

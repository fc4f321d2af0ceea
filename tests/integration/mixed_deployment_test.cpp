// A limit is raised or lowered while its keys live, and for a time old and new processes run side
// by side.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "support/limiter_fixture.hpp"
#include "weir/weir.hpp"

namespace mixed_deployment_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::decision;
using weir::limiter;
using weir::test::crowd;

/// A policy that is changed with three turns ahead. The times are in hours.
struct change_ahead {
  const char* name;
  weir::policy before;
  std::int64_t taken;  // at once, before any turn is reserved
  weir::policy after;
  std::vector<std::chrono::microseconds> turns;  // three by the old policy
  std::vector<std::chrono::microseconds> later;  // three by the new one
};

constexpr weir::fixed_window window_of(std::int64_t limit, std::chrono::microseconds length) {
  return {.limit = limit, .window = length};
}
constexpr weir::sliding_log log_of(std::int64_t limit, std::chrono::microseconds length) {
  return {.limit = limit, .window = length};
}
constexpr weir::token_bucket tokens(std::int64_t capacity, std::chrono::microseconds each) {
  return {.capacity = capacity, .refill = {1, each}};
}
constexpr weir::leaky_bucket leaky(std::int64_t capacity, std::chrono::microseconds each) {
  return {.capacity = capacity, .leak = {1, each}};
}

// The larger limit is never exceeded, but for the slower token_bucket: what was taken is kept as a
// time, and that is fewer of its units.
const std::vector<change_ahead> changes_ahead = {
    {"fixed_window, limit raised",
     window_of(2, 24h),
     2,
     window_of(4, 24h),
     {24h, 24h, 48h},
     {48h, 48h, 48h}},
    {"fixed_window, limit lowered",
     window_of(4, 24h),
     4,
     window_of(2, 24h),
     {24h, 24h, 24h},
     {48h, 48h, 72h}},
    {"fixed_window, shorter",
     window_of(2, 24h),
     2,
     window_of(2, 12h),
     {24h, 24h, 48h},
     {48h, 60h, 60h}},
    {"fixed_window, longer",
     window_of(2, 24h),
     2,
     window_of(2, 48h),
     {24h, 24h, 48h},
     {48h, 96h, 96h}},
    {"sliding_log, limit raised",
     log_of(2, 24h),
     2,
     log_of(4, 24h),
     {24h, 24h, 48h},
     {48h, 48h, 48h}},
    {"sliding_log, limit lowered",
     log_of(4, 24h),
     4,
     log_of(2, 24h),
     {24h, 24h, 24h},
     {48h, 48h, 72h}},
    {"sliding_log, shorter", log_of(2, 24h), 2, log_of(2, 12h), {24h, 24h, 48h}, {48h, 60h, 60h}},
    {"sliding_log, longer", log_of(2, 24h), 2, log_of(2, 48h), {24h, 24h, 48h}, {72h, 96h, 120h}},
    {"token_bucket, larger", tokens(2, 12h), 2, tokens(4, 12h), {12h, 24h, 36h}, {24h, 36h, 48h}},
    {"token_bucket, smaller", tokens(4, 12h), 4, tokens(2, 12h), {12h, 24h, 36h}, {72h, 84h, 96h}},
    {"token_bucket, faster", tokens(2, 12h), 2, tokens(2, 6h), {12h, 24h, 36h}, {54h, 60h, 66h}},
    {"token_bucket, slower", tokens(2, 12h), 2, tokens(2, 24h), {12h, 24h, 36h}, {36h, 60h, 84h}},
    {"leaky_bucket, larger", leaky(2, 12h), 2, leaky(4, 12h), {24h, 36h, 48h}, {60h, 72h, 84h}},
    {"leaky_bucket, smaller", leaky(4, 12h), 4, leaky(2, 12h), {48h, 60h, 72h}, {84h, 96h, 108h}},
    {"leaky_bucket, faster", leaky(2, 12h), 2, leaky(2, 6h), {24h, 36h, 48h}, {60h, 66h, 72h}},
    {"leaky_bucket, slower", leaky(2, 12h), 2, leaky(2, 24h), {24h, 36h, 48h}, {60h, 84h, 108h}},
};

/// One of each kind with that limit; nothing comes back within a test.
std::vector<weir::policy> with_limit(std::int64_t limit) {
  return {weir::fixed_window{.limit = limit, .window = 24000h},
          weir::sliding_window{.limit = limit, .window = 24000h},
          weir::sliding_log{.limit = limit, .window = 24000h},
          weir::token_bucket{.capacity = limit, .refill = {1, 24000h}},
          weir::leaky_bucket{.capacity = limit, .leak = {1, 24000h}}};
}

struct fixture : weir::test::server_fixture {
  /// Calls f(before, after) for each kind of policy in each store: two processes' limiters on the
  /// same counts.
  template <class F>
  void change(std::int64_t from, std::int64_t to, F&& f) {
    on_both([&](const weir::store& store) {
      const auto before = with_limit(from), after = with_limit(to);
      for (std::size_t i = 0; i < before.size(); ++i) {
        BOOST_TEST_CONTEXT("policy " << before[i].index()) {
          const std::string name = "r" + std::to_string(before[i].index());
          f(limiter(store, name, before[i]), limiter(store, name, after[i]));
        }
      }
    });
  }
  decision record(const limiter& l, std::int64_t cost = 1) {
    crowd c;
    l.record("a", {.cost = cost}, c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    return c[0].d;
  }
  /// When the next would have its turn; nothing is reserved.
  weir::time_point next_turn(const limiter& l) {
    crowd c;
    l.acquire("a", {.max_wait = 0s}, c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    BOOST_TEST(!c[0].d.allowed);
    return c[0].d.decided_at + c[0].d.retry_after;
  }
  /// Reserves turns, whose callers then sleep; when each of them is, counted from a time.
  std::vector<std::chrono::microseconds> book(const limiter& l, int turns, weir::time_point since,
                                              crowd& sleepers) {
    std::vector<std::chrono::microseconds> reserved;
    for (int i = 0; i < turns; ++i) {
      reserved.push_back(next_turn(l) - since);
      l.acquire("a", {.max_wait = 31 * 24h}, sleepers.caller());
    }
    return reserved;
  }
  /// How many pass, asked in turn through both.
  std::int64_t alternate(const limiter& a, const limiter& b, int times) {
    std::int64_t passed = 0;
    for (int i = 0; i < times; ++i) passed += record(i % 2 == 0 ? a : b).allowed ? 1 : 0;
    return passed;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mixed_deployment_suite, fixture)

BOOST_AUTO_TEST_CASE(a_raised_limit_holds_at_once_and_what_was_used_stays_used) {
  change(10, 15, [&](const limiter& before, const limiter& after) {
    BOOST_TEST(record(before, 10).remaining == 0);
    BOOST_TEST(record(after).remaining == 4);
    BOOST_TEST(!record(before).allowed);
    BOOST_TEST(record(after, 4).remaining == 0);
    BOOST_TEST(!record(after).allowed);
  });
}

// Kept in proportion, 8 of 10 would be 4 of 5, and one more would pass: the ninth, where 5 are
// allowed.
BOOST_AUTO_TEST_CASE(a_lowered_limit_lets_nobody_in_until_enough_has_left) {
  change(10, 5, [&](const limiter& before, const limiter& after) {
    BOOST_TEST(record(before, 8).remaining == 2);
    const decision d = record(after);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.remaining == 0);
    BOOST_TEST(record(before, 2).remaining == 0);
  });
}

BOOST_AUTO_TEST_CASE(old_and_new_together_never_let_more_pass_than_the_larger_limit) {
  for (const auto& [from, to] : {std::pair<int, int>{10, 15}, {15, 10}, {10, 10}}) {
    change(from, to, [&, most = std::max(from, to)](const limiter& before, const limiter& after) {
      BOOST_TEST(alternate(before, after, 60) == most);
    });
  }
}

BOOST_AUTO_TEST_CASE(
    turns_booked_ahead_stand_and_whoever_comes_with_new_numbers_is_counted_behind) {
  on_both([&](const weir::store& store) {
    for (const change_ahead& c : changes_ahead) {
      BOOST_TEST_CONTEXT(c.name) {
        const limiter before(store, c.name, c.before), after(store, c.name, c.after);
        crowd sleepers;
        const weir::time_point start = record(before, c.taken).decided_at;
        BOOST_TEST((book(before, 3, start, sleepers) == c.turns));
        BOOST_TEST(!record(after).allowed);
        BOOST_TEST((book(after, 3, start, sleepers) == c.later));
        BOOST_TEST(!record(before).allowed);
        BOOST_TEST(sleepers.answered() == 0);
      }
    }
  });
}

// They fitted into one unit of the slower rate, as if no request stood behind it.
BOOST_AUTO_TEST_CASE(a_reservation_of_a_slower_rate_takes_none_of_a_faster_one_with_it) {
  on_both([&](const weir::store& store) {
    const limiter slow(store, "r", tokens(1, 10h)), fast(store, "r", tokens(1, 1h));
    const weir::time_point start = record(slow).decided_at;
    asio::cancellation_signal leave;
    crowd leaver, sleepers;
    slow.acquire("a", {.max_wait = 31 * 24h},
                 asio::bind_cancellation_slot(leave.slot(), leaver.caller()));
    const std::vector<std::chrono::microseconds> turns{20h, 21h, 22h, 23h, 24h};
    BOOST_TEST((book(fast, 5, start, sleepers) == turns));
    leave.emit(asio::cancellation_type::terminal);
    weir::test::run_until_complete(io, leaver);
    BOOST_TEST((next_turn(fast) - start == 25h));
    BOOST_TEST(sleepers.answered() == 0);
  });
}

// What a faster rate let through at once, behind a turn of a slower one, had no turns of its own.
BOOST_AUTO_TEST_CASE(a_reservation_of_a_slower_rate_takes_no_records_of_a_faster_one_with_it) {
  const auto leaks = [](std::int64_t capacity, std::chrono::microseconds each) {
    return weir::leaky_bucket{.capacity = capacity, .leak = {1, each}};
  };
  struct change {
    const char* name;
    weir::policy slow, fast;
    std::chrono::hours left;  // until it is empty, once the turn is cancelled
  };
  const change changes[] = {{"tokens", tokens(1, 10h), tokens(100, 1h), 19h},
                            {"leaks", leaks(5, 10h), leaks(50, 1h), 29h}};  // behind it they wait
  on_both([&](const weir::store& store) {
    for (const change& c : changes) {
      BOOST_TEST_CONTEXT(c.name) {
        const limiter slow(store, c.name, c.slow), fast(store, c.name, c.fast);
        const weir::time_point start = record(slow).decided_at;
        asio::cancellation_signal leave;
        crowd leaver;
        slow.acquire("a", {.max_wait = 31 * 24h},
                     asio::bind_cancellation_slot(leave.slot(), leaver.caller()));
        for (int i = 0; i < 9; ++i) BOOST_TEST(record(fast).allowed);
        leave.emit(asio::cancellation_type::terminal);
        weir::test::run_until_complete(io, leaver);
        const decision after = record(fast);
        BOOST_TEST((after.decided_at + after.reset_after - start == c.left + 1h));
      }
    }
  });
}

// The times are of the clock: if a bucket ends while the stores are asked, they are asked again.
BOOST_AUTO_TEST_CASE(both_stores_book_alike_when_the_resolution_changes) {
  const auto of = [](std::chrono::microseconds resolution) {
    return weir::sliding_log{.limit = 2, .window = 24h, .resolution = resolution};
  };
  const std::pair<std::chrono::microseconds, std::chrono::microseconds> changes[] = {
      {1h, 0us}, {1h, 25min}, {25min, 1h}, {1h, 7min}};
  int rounds = 0;
  for (const auto& [from, to] : changes) {
    BOOST_TEST_CONTEXT(from.count() << " us to " << to.count() << " us") {
      std::vector<std::vector<std::chrono::microseconds>> turns;
      for (int attempt = 0; attempt < 3; ++attempt) {
        turns.clear();
        on_both([&](const weir::store& store) {
          // A name of its own: the last caller of the round before may only be on its way.
          const std::string name = "round" + std::to_string(++rounds);
          const limiter before(store, name, of(from)), after(store, name, of(to));
          crowd sleepers;
          record(before, 2);
          turns.push_back(book(before, 3, {}, sleepers));
          BOOST_TEST(!record(after).allowed);
          for (const auto turn : book(after, 4, {}, sleepers)) turns.back().push_back(turn);
        });
        if (turns[0] == turns[1]) break;
      }
      BOOST_TEST((turns[0] == turns[1]));
      BOOST_TEST(std::is_sorted(turns[0].begin(), turns[0].end()));
      for (std::size_t i = 2; i < turns[0].size(); ++i) {
        BOOST_TEST((turns[0][i] - turns[0][i - 2] >= 24h));
      }
    }
  }
}

// Within what the larger one holds: that is how many may pass at once.
BOOST_AUTO_TEST_CASE(a_much_larger_bucket_has_room_before_the_reservations_ahead) {
  on_both([&](const weir::store& store) {
    const limiter before(store, "r", tokens(2, 12h)), after(store, "r", tokens(10, 12h));
    crowd sleepers;
    const weir::time_point start = record(before, 2).decided_at;
    book(before, 3, start, sleepers);  // 5 in use
    BOOST_TEST(record(after, 5).remaining == 0);
    BOOST_TEST(!record(after).allowed);
    BOOST_TEST(sleepers.answered() == 0);
  });
}

BOOST_AUTO_TEST_CASE(a_sleeper_has_the_reservation_that_was_booked) {
  const std::pair<weir::policy, weir::policy> changes[] = {
      {log_of(1, 30ms), log_of(2, 30ms)}, {log_of(2, 30ms), log_of(1, 30ms)},
      {tokens(1, 15ms), tokens(2, 15ms)}, {tokens(2, 15ms), tokens(1, 15ms)},
      {leaky(1, 15ms), leaky(2, 15ms)},   {leaky(2, 15ms), leaky(1, 15ms)}};
  on_both([&](const weir::store& store) {
    for (std::size_t i = 0; i < std::size(changes); ++i) {
      BOOST_TEST_CONTEXT("change " << i) {
        const std::string name = "sleeps" + std::to_string(i);
        const limiter before(store, name, changes[i].first), after(store, name, changes[i].second);
        crowd c;
        for (int n = 0; n < 4; ++n) before.acquire("a", c.caller());
        for (int n = 0; n < 4; ++n) after.acquire("a", c.caller());
        weir::test::run_until_complete(io, c);
        BOOST_TEST(c.allowed() == 8u);
        std::vector<weir::time_point> turns;
        for (const auto& o : c) turns.push_back(o.d.decided_at + o.d.delay);
        std::sort(turns.begin(), turns.end());
        // By the larger numbers: in less than 30 ms a log of two lets two pass, and a bucket of
        // two, at 15 ms each, three.
        const bool is_log = std::holds_alternative<weir::sliding_log>(changes[i].first);
        const std::size_t most = is_log ? 2 : 3;
        for (std::size_t n = most; n < turns.size(); ++n) {
          BOOST_TEST((turns[n] - turns[n - most] >= 30ms));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace mixed_deployment_test

// A limit is raised or lowered while its keys live, and for a time old and new processes run side
// by side.
#include "support/limiter_fixture.hpp"
#include "support/text.hpp"

namespace mixed_deployment_test {

using namespace weir;
using namespace weir::test;

/// A policy that is changed with three turns ahead. The times are in hours.
struct change_ahead {
  policy before;
  std::int64_t taken;  // at once, before any turn is reserved
  policy after;
  std::vector<std::chrono::microseconds> turns;  // three by the old policy
  std::vector<std::chrono::microseconds> later;  // three by the new one
};

constexpr fixed_window window_of(std::int64_t limit, std::chrono::microseconds length) {
  return {.limit = limit, .window = length};
}
constexpr sliding_log log_of(std::int64_t limit, std::chrono::microseconds length) {
  return {.limit = limit, .window = length};
}
constexpr token_bucket tokens(std::int64_t capacity, std::chrono::microseconds each) {
  return {.capacity = capacity, .refill = {1, each}};
}
constexpr leaky_bucket leaky(std::int64_t capacity, std::chrono::microseconds each) {
  return {.capacity = capacity, .leak = {1, each}};
}

// The larger limit is never exceeded, but for the slower token_bucket: what was taken is kept as a
// time, and that is fewer of its units.
const std::vector<change_ahead> changes_ahead = {
    {window_of(2, 24h), 2, window_of(4, 24h), {24h, 24h, 48h}, {48h, 48h, 48h}},
    {window_of(4, 24h), 4, window_of(2, 24h), {24h, 24h, 24h}, {48h, 48h, 72h}},
    {window_of(2, 24h), 2, window_of(2, 12h), {24h, 24h, 48h}, {48h, 60h, 60h}},
    {window_of(2, 24h), 2, window_of(2, 48h), {24h, 24h, 48h}, {48h, 96h, 96h}},
    {log_of(2, 24h), 2, log_of(4, 24h), {24h, 24h, 48h}, {48h, 48h, 48h}},
    {log_of(4, 24h), 4, log_of(2, 24h), {24h, 24h, 24h}, {48h, 48h, 72h}},
    {log_of(2, 24h), 2, log_of(2, 12h), {24h, 24h, 48h}, {48h, 60h, 60h}},
    {log_of(2, 24h), 2, log_of(2, 48h), {24h, 24h, 48h}, {72h, 96h, 120h}},
    {tokens(2, 12h), 2, tokens(4, 12h), {12h, 24h, 36h}, {24h, 36h, 48h}},
    {tokens(4, 12h), 4, tokens(2, 12h), {12h, 24h, 36h}, {72h, 84h, 96h}},
    {tokens(2, 12h), 2, tokens(2, 6h), {12h, 24h, 36h}, {54h, 60h, 66h}},
    {tokens(2, 12h), 2, tokens(2, 24h), {12h, 24h, 36h}, {36h, 60h, 84h}},
    {leaky(2, 12h), 2, leaky(4, 12h), {24h, 36h, 48h}, {60h, 72h, 84h}},
    {leaky(4, 12h), 4, leaky(2, 12h), {48h, 60h, 72h}, {84h, 96h, 108h}},
    {leaky(2, 12h), 2, leaky(2, 6h), {24h, 36h, 48h}, {60h, 66h, 72h}},
    {leaky(2, 12h), 2, leaky(2, 24h), {24h, 36h, 48h}, {60h, 84h, 108h}},
};

/// One of each kind with that limit; nothing comes back within a test.
std::vector<policy> with_limit(std::int64_t limit) {
  return {fixed_window{.limit = limit, .window = 24000h},
          sliding_window{.limit = limit, .window = 24000h},
          sliding_log{.limit = limit, .window = 24000h},
          token_bucket{.capacity = limit, .refill = {1, 24000h}},
          leaky_bucket{.capacity = limit, .leak = {1, 24000h}}};
}

struct fixture : server_fixture {
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
    run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    return c[0].d;
  }
  /// When the next would have its turn; nothing is reserved.
  time_point next_turn(const limiter& l) {
    crowd c;
    l.acquire("a", {.max_wait = 0s}, c.caller());
    run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    BOOST_TEST(!c[0].d.allowed);
    return c[0].d.decided_at + c[0].d.retry_after;
  }
  /// Reserves turns, whose callers then sleep; when each of them is, counted from a time.
  std::vector<std::chrono::microseconds> book(const limiter& l, int turns, time_point since,
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
    int resources = 0;
    for (const change_ahead& c : changes_ahead) {
      BOOST_TEST_CONTEXT(text_of(c.before) << " to " << text_of(c.after)) {
        const std::string name = "r" + std::to_string(++resources);
        const limiter before(store, name, c.before), after(store, name, c.after);
        crowd sleepers;
        const time_point start = record(before, c.taken).decided_at;
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
    const time_point start = record(slow).decided_at;
    asio::cancellation_signal leave;
    crowd leaver, sleepers;
    slow.acquire("a", {.max_wait = 31 * 24h},
                 asio::bind_cancellation_slot(leave.slot(), leaver.caller()));
    const std::vector<std::chrono::microseconds> turns{20h, 21h, 22h, 23h, 24h};
    BOOST_TEST((book(fast, 5, start, sleepers) == turns));
    leave.emit(asio::cancellation_type::terminal);
    run_until_complete(io, leaver);
    BOOST_TEST((next_turn(fast) - start == 25h));
    BOOST_TEST(sleepers.answered() == 0);
  });
}

// What a faster rate let through at once, behind a turn of a slower one, had no turns of its own.
BOOST_AUTO_TEST_CASE(a_reservation_of_a_slower_rate_takes_no_records_of_a_faster_one_with_it) {
  const auto leaks = [](std::int64_t capacity, std::chrono::microseconds each) {
    return leaky_bucket{.capacity = capacity, .leak = {1, each}};
  };
  struct change {
    const char* name;
    policy slow, fast;
    std::chrono::hours left;  // until it is empty, once the turn is cancelled
  };
  const change changes[] = {{"tokens", tokens(1, 10h), tokens(100, 1h), 19h},
                            {"leaks", leaks(5, 10h), leaks(50, 1h), 29h}};  // behind it they wait
  on_both([&](const weir::store& store) {
    for (const change& c : changes) {
      BOOST_TEST_CONTEXT(c.name) {
        const limiter slow(store, c.name, c.slow), fast(store, c.name, c.fast);
        const time_point start = record(slow).decided_at;
        asio::cancellation_signal leave;
        crowd leaver;
        slow.acquire("a", {.max_wait = 31 * 24h},
                     asio::bind_cancellation_slot(leave.slot(), leaver.caller()));
        for (int i = 0; i < 9; ++i) BOOST_TEST(record(fast).allowed);
        leave.emit(asio::cancellation_type::terminal);
        run_until_complete(io, leaver);
        const decision after = record(fast);
        BOOST_TEST((after.decided_at + after.reset_after - start == c.left + 1h));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_sleeper_has_the_reservation_that_was_booked) {
  const std::pair<policy, policy> changes[] = {
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
        run_until_complete(io, c);
        BOOST_TEST(c.allowed() == 8u);
        std::vector<time_point> turns;
        for (const auto& o : c) turns.push_back(o.d.decided_at + o.d.delay);
        std::sort(turns.begin(), turns.end());
        // By the larger numbers: in less than 30 ms a log of two lets two pass, and a bucket of
        // two, at 15 ms each, three.
        const bool is_log = std::holds_alternative<sliding_log>(changes[i].first);
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

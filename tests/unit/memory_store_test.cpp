// The store in this process: its bound, its forgetting, its clock, and many threads at once.
#include "weir/memory_store.hpp"

#include <array>
#include <atomic>
#include <barrier>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <thread>

#include "support/run.hpp"
#include "weir/limiter.hpp"

namespace memory_store_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::error;
using weir::test::crowd;
using weir::test::outcome;

struct fixture {
  asio::io_context io;
  std::chrono::microseconds now = 1'000'000s;

  weir::store store(std::size_t max_subjects = 1'000'000, std::size_t shards = 16) {
    return weir::make_memory_store(
        io.get_executor(), {.max_subjects = max_subjects, .shards = shards, .clock = [this] {
                              return weir::time_point(now);
                            }});
  }

  outcome record(const weir::limiter& l, std::string_view subject, std::int64_t cost = 1) {
    crowd c;
    l.record(subject, {.cost = cost}, c.caller());
    weir::test::run_until_complete(io, c);
    return c[0];
  }
  outcome fetch(const weir::limiter& l, std::string_view subject) {
    crowd c;
    l.fetch(subject, c.caller());
    weir::test::run_until_complete(io, c);
    return c[0];
  }
  outcome refund(const weir::limiter& l, std::string_view subject, const weir::decision& d) {
    return charge(l, subject, d, 0);
  }
  outcome charge(const weir::limiter& l, std::string_view subject, const weir::decision& d,
                 std::int64_t actual) {
    crowd c;
    l.settle(subject, d, actual, c.caller());
    weir::test::run_until_complete(io, c);
    return c[0];
  }
  weir::error_code reset(const weir::limiter& l, std::string_view subject) {
    crowd c;
    l.reset(subject, c.caller());
    weir::test::run_until_complete(io, c);
    return c[0].ec;
  }
};

const weir::fixed_window three_per_10s{.limit = 3, .window = 10s};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memory_store_suite, fixture)

BOOST_AUTO_TEST_CASE(counts_by_the_injected_clock) {
  const weir::limiter l(store(), "r", three_per_10s);
  BOOST_TEST(record(l, "a").d.remaining == 2);
  now += 1s;
  BOOST_TEST(record(l, "a").d.remaining == 1);
  const auto third = record(l, "a");
  BOOST_TEST(third.d.allowed);
  BOOST_TEST((third.d.decided_at == weir::time_point(now)));
  const auto fourth = record(l, "a");
  BOOST_TEST(!fourth.ec.failed());
  BOOST_TEST(!fourth.d.allowed);
  BOOST_TEST((fourth.d.retry_after == 9s));
  now += 9s - 1us;
  BOOST_TEST(!record(l, "a").d.allowed);
  now += 1us;
  BOOST_TEST(record(l, "a").d.remaining == 2);
}

BOOST_AUTO_TEST_CASE(a_full_store_refuses_new_subjects_and_serves_the_known_ones) {
  const weir::limiter l(store(2), "r", three_per_10s);
  BOOST_TEST(record(l, "a").d.allowed);
  BOOST_TEST(record(l, "b").d.allowed);
  const auto third = record(l, "c");
  WEIR_TEST_ERROR(third.ec, error::store_full);
  BOOST_CHECK(third.ec == weir::condition::not_counted);
  BOOST_TEST(!third.d.allowed);
  // What still counts was not forgotten to make room.
  BOOST_TEST(record(l, "a").d.remaining == 1);
  BOOST_TEST(record(l, "b").d.remaining == 1);
  // Looking takes no room.
  BOOST_TEST(fetch(l, "c").d.remaining == 3);
}

BOOST_AUTO_TEST_CASE(there_is_room_again_once_subjects_expire) {
  const weir::limiter l(store(2), "r", three_per_10s);
  record(l, "a");
  now += 5s;
  record(l, "b");
  WEIR_TEST_ERROR(record(l, "c").ec, error::store_full);
  now += 5s - 1us;
  WEIR_TEST_ERROR(record(l, "c").ec, error::store_full);
  now += 2s + 1ms;  // a's window and the grace are over; b's are not
  BOOST_TEST(record(l, "c").d.remaining == 2);
  BOOST_TEST(record(l, "b").d.remaining == 1);
  WEIR_TEST_ERROR(record(l, "d").ec, error::store_full);
}

// Making room for the second tier dropped the first one, which was then used.
BOOST_AUTO_TEST_CASE(tiers_find_room_for_all_or_take_none) {
  const weir::tiers two{three_per_10s,
                        weir::token_bucket{.capacity = 2, .refill = weir::per_day(1)}};
  const weir::limiter tiered(store(1, 1), "r", two);
  WEIR_TEST_ERROR(record(tiered, "a").ec, error::store_full);

  const auto s = store(3, 1);
  const weir::limiter single(s, "one", three_per_10s);
  const weir::limiter both(s, "both", two);
  record(single, "x");
  now += 5s;
  record(single, "y");
  WEIR_TEST_ERROR(record(both, "a").ec, error::store_full);
  BOOST_TEST(record(single, "z").d.allowed);  // the attempt has taken no room
  now += 7s;                                  // x is over
  WEIR_TEST_ERROR(record(both, "a").ec, error::store_full);
  now += 5s;  // y and z too
  BOOST_TEST(record(both, "a").d.remaining == 1);
  BOOST_TEST(record(both, "a").d.remaining == 0);
  WEIR_TEST_ERROR(record(both, "b").ec, error::store_full);
  // Its own first tier no longer matters when the second needs room.
  now += 12s;
  const auto d = record(both, "a").d;
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.tier == 1);
}

// Times were read before the lock: a check that came second could be told a place too many, as if
// its time were before.
BOOST_AUTO_TEST_CASE(threads_get_their_places_in_the_order_of_their_times) {
  asio::thread_pool pool(4);
  std::atomic<std::int64_t> ticks{1'000'000'000};
  const weir::limiter l(
      weir::make_memory_store(pool.get_executor(), {.clock =
                                                        [&] {
                                                          const weir::time_point read(
                                                              1us * ticks.fetch_add(1));
                                                          // So that another may come in between
                                                          std::this_thread::yield();
                                                          return read;
                                                        }}),
      "r", weir::token_bucket{.capacity = 25'000, .refill = weir::per_day(1)});
  constexpr std::int64_t subjects = 1000;
  std::atomic<std::int64_t> used{0};
  std::barrier together(4);
  for (int t = 0; t < 4; ++t) {
    asio::post(pool, [&] {
      for (std::int64_t i = 0; i < subjects; ++i) {
        const std::string subject = std::to_string(i);
        together.arrive_and_wait();
        l.record(subject, [&](weir::error_code, weir::decision d) { used.fetch_add(d.used); });
      }
    });
  }
  pool.join();
  BOOST_TEST(used == subjects * (1 + 2 + 3 + 4));
}

BOOST_AUTO_TEST_CASE(a_reset_makes_room_and_forgets) {
  const weir::limiter l(store(1), "r", three_per_10s);
  for (int i = 0; i < 4; ++i) record(l, "a");
  BOOST_TEST(!record(l, "a").d.allowed);
  BOOST_TEST(!reset(l, "a").failed());
  BOOST_TEST(!reset(l, "never seen").failed());
  BOOST_TEST(record(l, "b").d.remaining == 2);
}

// A refund raised the count though its entry had left long ago: 15 passed in 30 s at 10 a minute.
BOOST_AUTO_TEST_CASE(a_refund_gives_nothing_back_once_its_window_is_over) {
  const auto s = store();
  const weir::policy policies[] = {
      three_per_10s,
      weir::fixed_window{.limit = 3, .window = 10s, .anchor = weir::anchor::epoch},
      weir::sliding_log{.limit = 3, .window = 10s},
      weir::sliding_log{.limit = 3, .window = 10s, .resolution = 1s},
      weir::sliding_window{.limit = 3, .window = 10s},
      weir::token_bucket{.capacity = 3, .refill = {3, 10s}},
      weir::gcra{.rate = {3, 10s}, .burst = 3}};
  for (std::size_t i = 0; i < std::size(policies); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      const weir::limiter l(s, "r" + std::to_string(i), policies[i]);
      const auto old = record(l, "a", 3).d;
      BOOST_TEST(old.allowed);
      now += 21s;  // of a sliding_window, the one after is over, too
      BOOST_TEST(record(l, "a", 2).d.used == 2);
      BOOST_TEST(refund(l, "a", old).d.allowed);
      BOOST_TEST(fetch(l, "a").d.used == 2);
      BOOST_TEST(record(l, "a").d.allowed);
      BOOST_TEST(!record(l, "a").d.allowed);
    }
  }
}

// Each settled decision took the room of a subject, in the subject's own shard: number 62,498
// failed, and so did new subjects of other limiters there.
BOOST_AUTO_TEST_CASE(settled_decisions_take_no_subjects_room) {
  const auto s = store(3, 1);
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 100, .window = 10s});
  const weir::limiter other(s, "other", three_per_10s);
  for (int i = 0; i < 50; ++i) {
    const auto o = refund(l, "a", record(l, "a").d);
    BOOST_TEST(!o.ec.failed(), o.ec.message());
    BOOST_TEST(o.d.allowed);
  }
  BOOST_TEST(record(other, "b").d.allowed);
  BOOST_TEST(record(other, "c").d.allowed);
  BOOST_TEST(fetch(l, "a").d.used == 0);
}

BOOST_AUTO_TEST_CASE(one_subject_may_settle_as_often_as_the_store_remembers) {
  const auto s = store();
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 100, .window = 10s});
  crowd c;
  for (int i = 0; i < 70'000; ++i) {
    l.record("a", [&](weir::error_code, weir::decision d) { l.refund("a", d, c.caller()); });
    io.restart();
    io.poll();
  }
  BOOST_TEST(c.allowed() == 70'000u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_remembered_is_not_settled) {
  const auto s = weir::make_memory_store(
      io.get_executor(), {.max_settled = 3, .clock = [this] { return weir::time_point(now); }});
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 100, .window = 1h});
  const weir::limiter other(s, "other", weir::fixed_window{.limit = 100, .window = 10s});
  const auto kept = record(l, "a").d;
  const auto first = record(other, "a").d;
  BOOST_TEST(refund(other, "a", first).d.allowed);
  BOOST_TEST(refund(l, "a", record(l, "a").d).d.allowed);
  BOOST_TEST(refund(l, "b", record(l, "b").d).d.allowed);
  const auto full = refund(l, "a", kept);
  WEIR_TEST_ERROR(full.ec, error::settlements_full);
  BOOST_CHECK(full.ec == weir::condition::not_counted);
  WEIR_TEST_ERROR(charge(l, "a", kept, 5).ec, error::settlements_full);
  BOOST_TEST(fetch(l, "a").d.used == 1);
  // A settlement that is remembered is still reported as done.
  const auto again = refund(other, "a", first);
  BOOST_TEST(!again.ec.failed());
  BOOST_TEST(!again.d.allowed);
  // None is forgotten early, and after a minute there is room for one.
  now += 60s - 1us;
  WEIR_TEST_ERROR(refund(l, "a", kept).ec, error::settlements_full);
  now += 1us;
  BOOST_TEST(refund(l, "a", kept).d.allowed);
  BOOST_TEST(fetch(l, "a").d.used == 0);
  WEIR_TEST_ERROR(refund(l, "c", record(l, "c").d).ec, error::settlements_full);
}

// Every subject is used once, then idle: if they stayed, the store would be full long before the
// end.
BOOST_AUTO_TEST_CASE(idle_subjects_are_dropped_under_way) {
  const weir::limiter l(store(1000), "r", three_per_10s);
  crowd c;
  for (int i = 0; i < 100'000; ++i) {
    now += 14ms;
    l.record("subject-" + std::to_string(i), c.caller());
  }
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == c.size());
}

BOOST_AUTO_TEST_CASE(a_clock_that_steps_back_mints_nothing_and_frees_nothing) {
  const auto s = store();
  const weir::policy policies[] = {
      three_per_10s,
      weir::fixed_window{.limit = 3, .window = 10s, .anchor = weir::anchor::epoch},
      weir::sliding_log{.limit = 3, .window = 10s},
      weir::sliding_log{.limit = 3, .window = 10s, .resolution = 1s},
      weir::sliding_window{.limit = 3, .window = 10s},
      weir::token_bucket{.capacity = 3, .refill = weir::per_hour(1)},
      weir::gcra{.rate = weir::per_hour(1), .burst = 3},
      weir::leaky_bucket{.capacity = 3, .leak = weir::per_hour(1)}};
  const auto start = now;
  for (std::size_t i = 0; i < std::size(policies); ++i) {
    BOOST_TEST_CONTEXT("policy " << i) {
      now = start;
      const weir::limiter l(s, "r" + std::to_string(i), policies[i]);
      for (int n = 0; n < 3; ++n) BOOST_TEST(record(l, "a").d.allowed);
      for (const auto back : {1us, std::chrono::microseconds(5s), start}) {
        now = start - back;
        const auto o = record(l, "a");
        BOOST_TEST(!o.ec.failed());
        BOOST_TEST(!o.d.allowed);
        BOOST_TEST(o.d.retry_after.count() > 0);
      }
    }
  }
}

// It gave ten in an hour of five.
BOOST_AUTO_TEST_CASE(a_state_that_has_ended_is_there_when_the_clock_steps_back_a_second) {
  const weir::store s = store(10'000, 1);
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 5, .window = 1h});
  const weir::limiter others(s, "others", three_per_10s);
  BOOST_TEST(record(l, "a", 5).d.allowed);
  now += 1h;
  for (int i = 0; i < 2000; ++i) record(others, std::to_string(i));
  now -= 1s;
  BOOST_TEST(!record(l, "a").d.allowed);
  now += 1s;
  BOOST_TEST(record(l, "a").d.allowed);
}

BOOST_AUTO_TEST_CASE(a_clock_before_1970_is_read_as_1970) {
  const weir::limiter l(store(), "r", three_per_10s);
  now = -5s;
  const auto o = record(l, "a");
  BOOST_TEST(o.d.allowed);
  BOOST_TEST((o.d.decided_at == weir::time_point{}));
}

BOOST_AUTO_TEST_CASE(kinds_of_policies_and_resources_do_not_share_counts) {
  const auto s = store();
  const weir::limiter window(s, "r", three_per_10s);
  const weir::limiter log(s, "r", weir::sliding_log{.limit = 3, .window = 10s});
  const weir::limiter sliding(s, "r", weir::sliding_window{.limit = 3, .window = 10s});
  const weir::limiter bucket(s, "r",
                             weir::token_bucket{.capacity = 3, .refill = weir::per_hour(1)});
  const weir::limiter other(s, "other", three_per_10s);
  const weir::limiter same(s, "r", three_per_10s);
  for (int i = 0; i < 3; ++i) record(window, "a");
  BOOST_TEST(record(log, "a").d.remaining == 2);
  BOOST_TEST(record(sliding, "a").d.remaining == 2);
  BOOST_TEST(record(bucket, "a").d.remaining == 2);
  BOOST_TEST(record(other, "a").d.remaining == 2);
  BOOST_TEST(record(window, "b").d.remaining == 2);
  BOOST_TEST(!record(same, "a").d.allowed);
}

BOOST_AUTO_TEST_CASE(two_stores_share_nothing) {
  const weir::limiter one(store(), "r", three_per_10s);
  const weir::limiter two(store(), "r", three_per_10s);
  for (int i = 0; i < 3; ++i) record(one, "a");
  BOOST_TEST(record(two, "a").d.remaining == 2);
}

BOOST_AUTO_TEST_CASE(a_closed_store_refuses_what_comes_later) {
  auto s = store();
  const weir::limiter l(s, "r", three_per_10s);
  s.close();
  s.close();
  WEIR_TEST_ERROR(record(l, "a").ec, error::store_closed);
  WEIR_TEST_ERROR(reset(l, "a"), error::store_closed);
}

// Subjects and limits are random; each subject's allowed calls are exact whichever thread they come
// from.
BOOST_AUTO_TEST_CASE(many_threads_get_exactly_what_is_allowed) {
  const auto seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  BOOST_TEST_CONTEXT("seed " << seed) {
    constexpr int threads = 4;
    constexpr int calls = 3000;
    constexpr int subjects = 7;
    constexpr std::int64_t limit = 500;
    asio::thread_pool pool(threads);
    const auto s = weir::make_memory_store(pool.get_executor(), {.shards = 2});
    const weir::limiter l(s, "r", weir::sliding_log{.limit = limit, .window = 24h});

    std::array<std::atomic<std::int64_t>, subjects> asked{};
    std::array<std::atomic<std::int64_t>, subjects> allowed{};
    std::atomic<int> errors{0};
    for (int t = 0; t < threads; ++t) {
      asio::post(pool, [&, t] {
        std::minstd_rand random(seed + static_cast<unsigned>(t));
        for (int i = 0; i < calls; ++i) {
          const auto who = random() % subjects;
          asked[who].fetch_add(1, std::memory_order_relaxed);
          l.record(std::to_string(who), [&, who](weir::error_code ec, weir::decision d) {
            if (ec) errors.fetch_add(1, std::memory_order_relaxed);
            if (d.allowed) allowed[who].fetch_add(1, std::memory_order_relaxed);
          });
        }
      });
    }
    pool.join();
    BOOST_TEST(errors == 0);
    for (int who = 0; who < subjects; ++who) {
      BOOST_TEST(allowed[who] == std::min<std::int64_t>(limit, asked[who]));
    }
  }
}

// Sweeps, resets, looks and a close from another thread: for the thread sanitizer.
BOOST_AUTO_TEST_CASE(every_call_completes_while_another_thread_closes) {
  std::atomic<std::int64_t> ticks{1'000'000};
  std::atomic<int> pending{0};
  std::atomic<int> odd{0};
  asio::thread_pool pool(4);
  auto s = weir::make_memory_store(
      pool.get_executor(),
      {.max_subjects = 64, .shards = 4, .clock = [&] {
         return weir::time_point(std::chrono::microseconds(ticks.fetch_add(7)));
       }});
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 2, .window = 1ms});
  const auto note = [&](weir::error_code ec, weir::decision = {}) {
    if (ec && ec != error::store_full && ec != error::store_closed) odd.fetch_add(1);
    pending.fetch_sub(1);
  };
  for (int t = 0; t < 4; ++t) {
    asio::post(pool, [&, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::string subject = std::to_string((i * 7 + t) % 100);
        pending.fetch_add(1);
        if (i % 11 == 0) {
          l.reset(subject, note);
        } else if (i % 5 == 0) {
          l.fetch(subject, note);
        } else {
          l.record(subject, note);
        }
        if (t == 3 && i == 1500) s.close();
      }
    });
  }
  pool.join();
  BOOST_TEST(pending == 0);
  BOOST_TEST(odd == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memory_store_test

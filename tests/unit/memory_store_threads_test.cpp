// The store in this process, used by many threads at once.
#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "memory_store_fixture.hpp"

namespace memory_store_threads_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(memory_store_threads_suite, memory_store_fixture)

// Times were read before the lock: a check that came second could be told a place too many, as if
// its time were before.
BOOST_AUTO_TEST_CASE(threads_get_their_places_in_the_order_of_their_times) {
  asio::thread_pool pool(4);
  std::atomic<std::int64_t> ticks{1'000'000'000};
  const limiter l(
      make_memory_store(pool.get_executor(), {.clock =
                                                  [&] {
                                                    const time_point read(1us * ticks.fetch_add(1));
                                                    // So that another may come in between
                                                    std::this_thread::yield();
                                                    return read;
                                                  }}),
      "r", token_bucket{.capacity = 25'000, .refill = per_day(1)});
  constexpr std::int64_t subjects = 1000;
  std::atomic<std::int64_t> used{0};
  std::barrier together(4);
  for (int t = 0; t < 4; ++t) {
    asio::post(pool, [&] {
      for (std::int64_t i = 0; i < subjects; ++i) {
        const std::string subject = std::to_string(i);
        together.arrive_and_wait();
        l.record(subject, [&](error_code, decision d) { used.fetch_add(d.used); });
      }
    });
  }
  pool.join();
  BOOST_TEST(used == subjects * (1 + 2 + 3 + 4));
}

// The tiers were forgotten one after the other, and a check in between counted in one of them.
BOOST_AUTO_TEST_CASE(a_reset_forgets_all_tiers_at_once) {
  asio::thread_pool pool(1);
  const auto s = make_memory_store(pool.get_executor());
  const policy wide = fixed_window{.limit = 1'000'000, .window = 24h};
  const policy narrow = fixed_window{.limit = 500'000, .window = 24h};
  // The second tier has the least left; the first one's key is that of a limiter with it alone.
  const limiter both(s, "r", tiers{wide, narrow}), first(s, "r", wide);
  constexpr int rounds = 1000;
  std::barrier together(2);
  std::thread other([&] {
    for (int round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      both.reset("a", asio::detached);
      together.arrive_and_wait();
    }
  });
  int unequal = 0;
  for (int round = 0; round < rounds; ++round) {
    together.arrive_and_wait();
    for (int i = 0; i < 20; ++i) both.record("a", asio::detached);
    together.arrive_and_wait();
    const std::int64_t in_first = first.fetch("a", asio::use_future).get().used;
    unequal += both.fetch("a", asio::use_future).get().used != in_first;
  }
  other.join();
  BOOST_TEST(unequal == 0);
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
    const auto s = make_memory_store(pool.get_executor(), {.shards = 2});
    const limiter l(s, "r", sliding_log{.limit = limit, .window = 24h});

    std::array<std::atomic<std::int64_t>, subjects> asked{};
    std::array<std::atomic<std::int64_t>, subjects> allowed{};
    std::atomic<int> errors{0};
    for (int t = 0; t < threads; ++t) {
      asio::post(pool, [&, t] {
        std::minstd_rand random(seed + static_cast<unsigned>(t));
        for (int i = 0; i < calls; ++i) {
          const auto who = random() % subjects;
          asked[who].fetch_add(1, std::memory_order_relaxed);
          l.record(std::to_string(who), [&, who](error_code ec, decision d) {
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
  auto s = make_memory_store(pool.get_executor(),
                             {.max_subjects = 64, .shards = 4, .clock = [&] {
                                return time_point(std::chrono::microseconds(ticks.fetch_add(7)));
                              }});
  const limiter l(s, "r", fixed_window{.limit = 2, .window = 1ms});
  const auto note = [&](error_code ec, decision = {}) {
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

}  // namespace memory_store_threads_test

// Acquire queues over a memory store and a real server: cancelled waiters, stores and contexts that
// end, and several processes and threads at one store.
#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "integration/acquire_queue_fixture.hpp"
#include "limiter/limiter_impl.hpp"
#include "support/random_source.hpp"
#include "waiting/waiting_room.hpp"

namespace weir::test::waiting::leaving_a_queue_test {

BOOST_FIXTURE_TEST_SUITE(leaving_a_queue_suite, fixture)

// ---- leaving

BOOST_AUTO_TEST_CASE(a_waiter_cancelled_in_the_middle_lets_the_others_move_up) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", weir::token_bucket{.capacity = 1, .refill = weir::per_hour(1)});
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    cancellable_crowd waiting;
    for (int i = 0; i < 5; ++i) l.acquire("a", patiently, waiting.caller());
    settle(l);
    waiting.cancel(1);
    weir::test::run_until(io, [&] { return waiting.c.answered() == 1; });
    settle(l);
    // The last of five reservations is free again.
    const decision next = answer([&](auto h) { l.acquire("a", {.max_wait = 0s}, h); });
    BOOST_TEST((next.retry_after > 4h && next.retry_after <= 5h));
    for (const std::size_t i : {0u, 2u, 3u, 4u}) waiting.cancel(i);
    weir::test::run_until_complete(io, waiting.c);
  });
}

BOOST_AUTO_TEST_CASE(a_waiter_cancelled_anywhere_in_the_queue_is_told_so) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", at_least_one_a_day);
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    for (const auto how : {cancellation_type::terminal, cancellation_type::total}) {
      cancellable_crowd waiting;
      for (int i = 0; i < 3; ++i) l.acquire("a", patiently, waiting.caller());
      for (const std::size_t i : {2u, 1u, 0u}) waiting.cancel(i, how);
      settle(l);
      for (const std::size_t i : {0u, 1u, 2u}) {
        // With `total`, a reservation that was made stands.
        if (waiting.c[i].times == 0) BOOST_TEST((how == cancellation_type::total));
        if (waiting.c[i].times == 0) waiting.cancel(i);
      }
      weir::test::run_until_complete(io, waiting.c);
      for (const outcome& o : waiting.c) WEIR_TEST_ERROR(o.ec, aborted);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_context_may_end_while_a_waiter_is_in_the_queue) {
  for (const bool in_memory : {true, false}) {
    for (const weir::policy& policy : {weir::policy(at_least_one_a_day), weir::policy(one_a_day)}) {
      asio::io_context ends;
      const weir::store store = in_memory
                                    ? weir::make_memory_store(ends.get_executor())
                                    : weir::make_redis_store(ends.get_executor(),
                                                             weir::test::patient_options(server));
      const limiter l(store, "ends" + std::to_string(policy.index()), policy);
      crowd c;
      l.acquire("a", c.caller());
      for (int i = 0; i < 4; ++i) l.acquire("a", patiently, c.caller());
      l.fetch("a", c.caller());
      weir::test::run_until(ends, [&] { return c.answered() == 2; });
    }
  }
}

BOOST_AUTO_TEST_CASE(an_idle_limiter_remembers_nobody) {
  memory_clock = [] { return weir::time_point(1'790'000'000s); };  // no bucket fills meanwhile
  const auto store = open(true);
  const auto core = std::make_shared<weir::detail::limiter_impl>(
      store.backend(), "r", weir::tiers(weir::token_bucket{.capacity = 5, .refill = {1, 1ms}}));
  crowd c;
  for (int i = 0; i < 20; ++i) {
    // As limiter::acquire() does.
    weir::detail::check_initiation{core}(
        c.caller(),
        weir::detail::arguments_of<weir::detail::acquire_request>{
            .subject = weir::detail::short_text(std::to_string(i % 2)), .asked = {.max_wait = 1s}});
  }
  BOOST_TEST(core->room->lines() == 2u);
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 20u);
  BOOST_TEST(core->room->lines() == 0u);
}

// ---- processes, threads

BOOST_AUTO_TEST_CASE(queues_of_two_processes_share_a_window_and_exceed_it_nowhere) {
  const sliding_window policy{.limit = 50, .window = 50ms};
  const limiter here(open(false), "r", policy), there(open(false), "r", policy);
  crowd mine, theirs;
  for (int i = 0; i < 200; ++i) {
    here.acquire("a", {.max_wait = 1h}, mine.caller());
    there.acquire("a", {.max_wait = 1h}, theirs.caller());
  }
  weir::test::run_until(io, [&] { return mine.complete() && theirs.complete(); });
  std::vector<weir::time_point> turns;
  for (const crowd* c : {&mine, &theirs}) {
    BOOST_TEST(c->allowed() == 200u);
    for (const outcome& o : *c) turns.push_back(reserved_time_of(o.d));
  }
  check_window(turns, policy);
}

// Each process had a queue of its own, and the first to ask had what became free.
BOOST_AUTO_TEST_CASE(order_of_arrival_holds_across_processes) {
  const std::pair<const char*, weir::policy> policies[] = {
      {"window", sliding_window{.limit = 7, .window = 20ms}},
      {"bucket", weir::token_bucket{.capacity = 5, .refill = {1, 3ms}}},
      {"both", sliding_window{.limit = 9, .window = 20ms}}};
  for (const auto& [name, policy] : policies) {
    BOOST_TEST_CONTEXT(name) {
      const weir::tiers rules = name == std::string("both")
                                    ? weir::tiers(policy, weir::leaky_bucket{5, {1, 2ms}})
                                    : weir::tiers(policy);
      const limiter processes[] = {{open(false), name, rules}, {open(false), name, rules}};
      crowd c;
      for (int i = 0; i < 40; ++i) {
        const limiter& l = processes[i % 2];
        l.acquire("a", {.cost = 1 + i % 5}, c.caller());
        answer([&](auto h) { l.fetch("another", h); });  // it is there before the next one comes
      }
      weir::test::run_until_complete(io, c);
      BOOST_TEST(c.allowed() == 40u);
      BOOST_TEST(std::is_sorted(c.begin(), c.end(), [](const outcome& a, const outcome& b) {
        return reserved_time_of(a.d) < reserved_time_of(b.d);
      }));
    }
  }
}

BOOST_AUTO_TEST_CASE(several_threads_exceed_a_window_nowhere) {
  const sliding_window policy{.limit = 4'000, .window = 100ms};
  asio::thread_pool pool(2);
  auto strand = asio::make_strand(pool.get_executor());
  weir::store store = weir::make_redis_store(pool.get_executor(),
                                             weir::test::patient_options(server));
  const limiter l(store, "r", policy);
  std::vector<weir::time_point> turns;
  std::atomic<int> told{0};
  constexpr int calls = 5'000;
  for (int i = 0; i < calls; ++i) {
    l.acquire("a", {.max_wait = 1h},
              asio::bind_executor(strand, [&](weir::error_code ec, const decision& d) {
                if (!ec && d.allowed) turns.push_back(reserved_time_of(d));
                ++told;
              }));
  }
  while (told < calls) std::this_thread::yield();
  store.close();
  pool.join();
  BOOST_TEST(turns.size() == static_cast<std::size_t>(calls));
  check_window(turns, policy);
}

// No waiter was there to take it, and it counted as used.
BOOST_AUTO_TEST_CASE(what_passes_for_one_that_has_left_goes_back) {
  const weir::limiter_options together{.group = "g"};
  const weir::store store = open(false);
  const sliding_window window{.limit = 5, .window = 24h};
  const limiter alone(store, "alone", window);
  const limiter tiers(store, "tiers", weir::tiers(one_a_day, window));
  const limiter total(store, "total", window, together), each(store, "each", one_a_day, together);
  cancellable_crowd waiting;
  const auto all_used = [&](auto&& before) {
    std::vector<std::int64_t> used;
    crowd c;
    for (const limiter* l : {&alone, &tiers, &total, &each}) l->fetch("a", c.caller());
    before();
    weir::test::run_until_complete(io, c);
    for (const outcome& o : c) used.push_back(o.d.used);
    return used;
  };
  using numbers = std::vector<std::int64_t>;
  BOOST_TEST((all_used([] {}) == numbers{0, 0, 0, 0}));
  server.pause();
  alone.acquire("a", waiting.caller());
  tiers.acquire("a", waiting.caller());
  weir::acquire_all(total.on("a", 2), each.on("a"), waiting.caller());
  while (io.poll() > 0) {
  }
  for (const std::size_t i : {0u, 1u, 2u}) waiting.cancel(i);
  weir::test::run_until_complete(io, waiting.c);
  for (const outcome& o : waiting.c) WEIR_TEST_ERROR(o.ec, aborted);
  BOOST_TEST((all_used([&] { server.resume(); }) == numbers{1, 1, 2, 1}));
  // They are sent when the answers have come, and once more if the script has to be loaded first.
  numbers left;
  for (int i = 0; i < 1'000 && left != numbers{0, 0, 0, 0}; ++i) left = all_used([] {});
  BOOST_TEST((left == numbers{0, 0, 0, 0}));
}

// Each answer of a store that is gone let one more pass, one timeout after the other.
BOOST_AUTO_TEST_CASE(without_a_store_all_pass_together_if_they_may) {
  const limiter l(weir::open_store(io.get_executor(), "redis://127.0.0.1:1?timeout=50ms"), "r",
                  sliding_window{.limit = 10, .window = 24h},
                  {.on_failure = weir::on_failure::open});
  crowd c;
  for (int i = 0; i < 300; ++i) l.acquire("a", patiently, c.caller());
  weir::test::run_until_complete(io, c);
  for (std::size_t i = 0; i < 300; ++i) {
    BOOST_TEST(!c[i].ec.failed());
    BOOST_TEST(c[i].d.allowed);
    BOOST_TEST((c[i].d.source == weir::source::fallback));
  }
}

BOOST_AUTO_TEST_CASE(threads_come_and_leave) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  const weir::token_bucket bucket{.capacity = 5, .refill = {1, 200us}};
  const std::pair<const char*, weir::policy> policies[] = {
      {"window", sliding_window{.limit = 50, .window = 20ms}},
      {"bucket", bucket},
      {"together",
       sliding_window{.limit = 50, .window = 20ms}}};  // with a bucket for each of some accounts
  for (const bool in_memory : {true, false}) {
    for (const auto strategy : {on_overflow::refuse_new, on_overflow::drop_lowest_priority}) {
      for (const auto& [name, policy] : policies) {
        asio::thread_pool pool(3);
        const weir::store store = in_memory
                                      ? weir::make_memory_store(pool.get_executor())
                                      : weir::make_redis_store(pool.get_executor(),
                                                               weir::test::patient_options(server));
        const bool together = name == std::string("together");
        const limiter l(store, name, policy,
                        {.group = "g", .max_waiting = 20, .overflow = strategy});
        const limiter each(store, "each", bucket, {.group = "g"});
        std::atomic<int> told{0}, wrong{0};
        struct caller {
          explicit caller(const asio::any_io_executor& e) : strand(asio::make_strand(e)) {}
          asio::strand<asio::any_io_executor> strand;
          asio::cancellation_signal signal;
        };
        constexpr int threads = 3, calls = 300;
        std::deque<caller> callers;
        for (int i = 0; i < threads * calls; ++i) callers.emplace_back(pool.get_executor());
        std::vector<std::thread> crew;
        for (int t = 0; t < threads; ++t) {
          crew.emplace_back([&, t] {
            weir::test::random_source random(seed, static_cast<std::uint32_t>(960 + t));
            for (int i = 0; i < calls; ++i) {
              caller& c = callers[static_cast<std::size_t>(t * calls + i)];
              const bool leaves = random.one_in(3);
              const acquire_options how{.cost = random.one_in(3) ? 2 : 1,
                                        .max_wait = random.one_in(3) ? 5ms : 10s,
                                        .priority = static_cast<int>(random.between(0, 3))};
              const std::string account(1, static_cast<char>('a' + random.between(0, 6)));
              asio::post(c.strand, [&, how, leaves, account] {
                auto caller = asio::bind_cancellation_slot(
                    c.signal.slot(),
                    asio::bind_executor(c.strand, [&](weir::error_code ec, decision) {
                      if (ec && ec != aborted && ec != error::overloaded) ++wrong;
                      ++told;
                    }));
                if (together) {
                  weir::acquire_all(l.on("a", how.cost), each.on(account),
                                    weir::joint_acquire_options{.max_wait = how.max_wait},
                                    std::move(caller));
                } else {
                  l.acquire("a", how, std::move(caller));
                }
                if (leaves) {
                  asio::post(c.strand, [&] { c.signal.emit(cancellation_type::terminal); });
                }
              });
            }
          });
        }
        for (std::thread& t : crew) t.join();
        // Ends when no caller waits any more, and nothing keeps the connection but the store.
        weir::store last = store;
        while (told < threads * calls) std::this_thread::yield();
        last.close();
        pool.join();
        BOOST_TEST(told == threads * calls);
        BOOST_TEST(wrong == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace weir::test::waiting::leaving_a_queue_test

// Waiting lines, in memory and in front of a real server: what they cost, who goes first, and that no window is exceeded.
#include <algorithm>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "limiter_core.hpp"
#include "lines/waiting_line.hpp"
#include "support/random_source.hpp"
#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::cancellation_type;
using weir::acquire_options;
using weir::decision;
using weir::error;
using weir::limiter;
using weir::on_overflow;
using weir::sliding_window;
using weir::test::crowd;
using weir::test::outcome;

const auto aborted = asio::error::operation_aborted;
constexpr weir::token_bucket one_a_day{.capacity = 1, .refill = weir::per_day(1)};
constexpr sliding_window one_a_fortnight{.limit = 1, .window = 15 * 24h};  // passes within 30 days
constexpr acquire_options patiently{.max_wait = 31 * 24h};

struct fixture {
  weir::test::redis_server server;
  weir::test::redis_client client{server};
  asio::io_context io;

  weir::store open(bool in_memory) {
    return in_memory
               ? weir::make_memory_store(io.get_executor())
               : weir::make_redis_store(io.get_executor(), weir::test::patient_options(server));
  }
  template <class F>
  void on_both(F&& f) {
    for (const bool in_memory : {true, false}) {
      BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis")) { f(open(in_memory)); }
    }
  }
  template <class Start>
  decision answer(Start&& start) {
    crowd c;
    start(c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    return c[0].d;
  }
  /// Lets everything happen that does not need time: the answers of as many fetches have come.
  void settle(const limiter& l) {
    for (int i = 0; i < 3; ++i) answer([&](auto h) { l.fetch("another", h); });
  }
  std::int64_t script_calls() {
    const std::string stats = client.must("INFO", "commandstats").text;
    const auto at = stats.find("cmdstat_evalsha:calls=");
    return at == std::string::npos ? 0 : std::stoll(stats.substr(at + 22));
  }
};

struct cancellable_crowd {
  crowd c;
  std::deque<asio::cancellation_signal> signals;

  auto caller() { return asio::bind_cancellation_slot(signals.emplace_back().slot(), c.caller()); }
  void cancel(std::size_t i, cancellation_type how = cancellation_type::terminal) {
    signals[i].emit(how);
  }
};

/// Whether the grants of a sliding window are ones that its formula allows: the counts of the windows, aligned as in the store.
void check_window(const std::vector<weir::time_point>& grants, const sliding_window& policy) {
  std::map<std::int64_t, std::int64_t> counts;
  const std::int64_t w = policy.window.count();
  std::vector<std::int64_t> times;
  for (const auto& t : grants) times.push_back(t.time_since_epoch().count());
  std::sort(times.begin(), times.end());
  for (const std::int64_t t : times) {
    const std::int64_t number = t / w, left = w - t % w;
    const auto current = ++counts[number];
    const auto before = counts.find(number - 1);
    const std::int64_t previous = before == counts.end() ? 0 : before->second;
    BOOST_REQUIRE(previous * left + current * w <= policy.limit * w);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(line_suite, fixture)

// ---- what it costs

BOOST_AUTO_TEST_CASE(ten_thousand_wait_for_a_sliding_window_with_one_call_for_each_batch) {
  // The borders of windows between the calls do not matter for how many pass: about 4,000 in each.
  const sliding_window policy{.limit = 4'000, .window = 200ms};
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", policy);
    answer([&](auto h) { l.fetch("a", h); });
    const std::int64_t calls_before = script_calls();
    crowd c;
    for (int i = 0; i < 10'000; ++i) l.acquire("a", {.max_wait = 1h}, c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 10'000u);
    std::vector<weir::time_point> grants;
    for (const outcome& o : c) {
      BOOST_TEST((o.d.delay == 0s));
      grants.push_back(o.d.at);
    }
    check_window(grants, policy);
    // All that one script call grants has one time.
    const std::set<weir::time_point> batches(grants.begin(), grants.end());
    const std::int64_t calls = script_calls() - calls_before;
    BOOST_TEST_MESSAGE(batches.size() << " batches, " << calls << " calls");
    // The first call, of the first who came, may have been refused the second of its two; and nobody granted a batch of
    // none but by a timer that woke within the microsecond.
    BOOST_TEST(calls <= static_cast<std::int64_t>(batches.size()) + 2);
  });
}

BOOST_AUTO_TEST_CASE(ten_thousand_turns_of_a_bucket_cost_one_call_for_each_64) {
  const limiter l(open(false), "r", weir::token_bucket{.capacity = 1, .refill = {1, 10us}});
  crowd c;
  for (int i = 0; i < 10'000; ++i) l.acquire("a", {.priority = i % 7}, c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 10'000u);
  std::set<weir::time_point> turns;
  for (const outcome& o : c) turns.insert(o.d.at + o.d.delay);
  BOOST_TEST(turns.size() == 10'000u);
  BOOST_TEST(script_calls() <= 10'000 / 64 + 2);
}

BOOST_AUTO_TEST_CASE(who_waits_outside_costs_nothing) {
  const limiter l(open(false), "r", one_a_day, {.max_waiting = 10, .overflow = on_overflow::block});
  cancellable_crowd waiting;
  for (int i = 0; i < 5'000; ++i) l.acquire("a", patiently, waiting.caller());
  weir::test::run_until(io, [&] { return waiting.c.answered() == 1; });
  settle(l);
  const std::int64_t calls = script_calls();
  // Ten at first, then one in the place of the one who passed, and three fetches.
  BOOST_TEST(calls <= 2 + 3);
  for (std::size_t i = 1; i < 5'000; ++i) waiting.cancel(5'000 - i);
  weir::test::run_until_complete(io, waiting.c);
}

// ---- order

BOOST_AUTO_TEST_CASE(in_a_sliding_window_they_go_as_they_came) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_window{.limit = 20, .window = 100ms});
    std::vector<int> order;
    for (int i = 0; i < 60; ++i) {
      l.acquire("a", [&, i](weir::error_code ec, const decision& d) {
        BOOST_TEST((!ec && d.allowed));
        order.push_back(i);
      });
    }
    weir::test::run_until(io, [&] { return order.size() == 60; });
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
  });
}

BOOST_AUTO_TEST_CASE(larger_priorities_go_first) {
  const std::pair<const char*, weir::policy> policies[] = {
      {"window", sliding_window{.limit = 4, .window = 40ms}},
      {"bucket", weir::token_bucket{.capacity = 1, .refill = {1, 20ms}}}};
  on_both([&](const weir::store& store) {
    for (const auto& [name, policy] : policies) {
      BOOST_TEST_CONTEXT(name) {
        const limiter l(store, name, policy);
        // What is there goes first, so that all of those below have to wait; they have their turns, or are in line, when
        // the store has answered once more.
        while (answer([&](auto h) { l.record("a", h); }).allowed) {
        }
        std::vector<int> order;
        for (int i = 0; i < 12; ++i) {
          l.acquire("a", {.priority = i % 3}, [&, i](weir::error_code ec, const decision& d) {
            BOOST_TEST((!ec && d.allowed));
            order.push_back(i);
          });
        }
        weir::test::run_until(io, [&] { return order.size() == 12; });
        // The first may have been on its way before the others' answers were there.
        const auto rank = [](int i) { return std::pair(-(i % 3), i); };
        const auto from = order.begin() + (rank(order[0]) > rank(order[1]) ? 1 : 0);
        BOOST_TEST(
            std::is_sorted(from, order.end(), [&](int a, int b) { return rank(a) < rank(b); }));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_large_cost_is_not_starved_by_small_ones_behind_it) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_window{.limit = 10, .window = 50ms});
    answer([&](auto h) { l.record("a", {.cost = 10}, h); });
    std::vector<int> order;
    const auto told = [&](int i) {
      return [&, i](weir::error_code ec, const decision& d) {
        BOOST_TEST((!ec && d.allowed));
        order.push_back(i);
      };
    };
    l.acquire("a", {.cost = 10}, told(0));
    for (int i = 1; i <= 5; ++i) l.acquire("a", told(i));
    weir::test::run_until(io, [&] { return order.size() == 6; });
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
  });
}

// ---- bounds

BOOST_AUTO_TEST_CASE(a_full_line_does_what_it_was_told_to) {
  const std::pair<const char*, weir::policy> policies[] = {{"window", one_a_fortnight},
                                                           {"bucket", one_a_day}};
  on_both([&](const weir::store& store) {
    for (const auto& [name, policy] : policies) {
      for (const auto strategy : {on_overflow::refuse_new, on_overflow::drop_oldest,
                                  on_overflow::drop_lowest_priority, on_overflow::block}) {
        BOOST_TEST_CONTEXT(name << ", strategy " << static_cast<int>(strategy)) {
          const limiter l(store, name, policy, {.max_waiting = 3, .overflow = strategy});
          answer([&](auto h) { l.acquire("a", h); });
          cancellable_crowd waiting;
          for (const int priority : {0, 5, 1, 2, 3}) {
            l.acquire("a", {.max_wait = 31 * 24h, .priority = priority}, waiting.caller());
          }
          settle(l);
          std::set<std::size_t> dropped;
          for (std::size_t i = 0; i < 5; ++i) {
            if (waiting.c[i].times > 0) dropped.insert(i);
            if (waiting.c[i].times > 0) WEIR_TEST_ERROR(waiting.c[i].ec, error::overloaded);
          }
          const std::map<on_overflow, std::set<std::size_t>> expected = {
              {on_overflow::refuse_new, {3, 4}},
              {on_overflow::drop_oldest, {0, 1}},
              {on_overflow::drop_lowest_priority, {0, 2}},
              {on_overflow::block, {}}};
          BOOST_TEST((dropped == expected.at(strategy)));
          for (std::size_t i = 5; i-- > 0;) waiting.cancel(i);
          weir::test::run_until_complete(io, waiting.c);
          for (std::size_t i = 0; i < 5; ++i) {
            if (!dropped.contains(i)) WEIR_TEST_ERROR(waiting.c[i].ec, aborted);
          }
          // Nothing is left of them.
          settle(l);
          const decision after = answer([&](auto h) { l.acquire("a", {.max_wait = 0s}, h); });
          BOOST_TEST(!after.allowed);
          if (name == std::string("bucket")) BOOST_TEST((after.retry_after <= 24h));
          crowd forgotten;
          l.reset("a", forgotten.caller());
          weir::test::run_until_complete(io, forgotten);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(outside_patience_ends_with_an_error) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", one_a_day, {.max_waiting = 1, .overflow = on_overflow::block});
    answer([&](auto h) { l.acquire("a", h); });
    cancellable_crowd inside, outside;
    l.acquire("a", patiently, inside.caller());
    l.acquire("a", {.max_wait = 20ms}, outside.caller());
    weir::test::run_until_complete(io, outside.c);
    WEIR_TEST_ERROR(outside.c[0].ec, error::overloaded);
    BOOST_TEST((outside.c[0].ec == weir::condition::not_counted));
    inside.cancel(0);
    weir::test::run_until_complete(io, inside.c);
  });
}

BOOST_AUTO_TEST_CASE(a_failure_policy_does_not_let_in_whom_a_full_line_drops) {
  const limiter l(open(true), "r", one_a_day,
                  {.on_failure = weir::on_failure::open, .max_waiting = 1});
  answer([&](auto h) { l.acquire("a", h); });
  cancellable_crowd waiting;
  l.acquire("a", patiently, waiting.caller());
  l.acquire("a", patiently, waiting.caller());
  weir::test::run_until(io, [&] { return waiting.c.answered() == 1; });
  WEIR_TEST_ERROR(waiting.c[1].ec, error::overloaded);
  waiting.cancel(0);
  weir::test::run_until_complete(io, waiting.c);
}

BOOST_AUTO_TEST_CASE(options_have_bounds) {
  const auto with = [&](const weir::limiter_options& o) {
    return weir::test::error_of([&] { limiter(open(true), "r", one_a_day, o); });
  };
  WEIR_TEST_ERROR(with({.max_waiting = 0}), error::invalid_policy);
  WEIR_TEST_ERROR(with({.ageing = -1us}), error::invalid_policy);
  WEIR_TEST_ERROR(with({.max_waiting = 1, .ageing = 0us}), weir::error_code());
  WEIR_TEST_ERROR(with({.ageing = std::chrono::microseconds::max()}), weir::error_code());
}

// ---- patience

BOOST_AUTO_TEST_CASE(a_sliding_window_refuses_at_once_what_will_not_pass_in_time) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", one_a_fortnight);
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    const decision refused = answer([&](auto h) { l.acquire("a", {.max_wait = 1h}, h); });
    BOOST_TEST((!refused.allowed && refused.retry_after > 1h));
    const decision said = answer([&](auto h) { l.record("a", h); });
    BOOST_TEST((refused.at + refused.retry_after == said.at + said.retry_after));
  });
}

BOOST_AUTO_TEST_CASE(a_pause_is_waited_for_in_line) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_window{.limit = 5, .window = 1h}, {.feedback = true});
    const decision pause = answer([&](auto h) { l.cool_down("a", 30ms, h); });
    crowd c;
    for (int i = 0; i < 5; ++i) l.acquire("a", c.caller());
    weir::test::run_until_complete(io, c);
    for (const outcome& o : c) BOOST_TEST((o.d.allowed && o.d.at >= pause.at + 30ms));
  });
}

// ---- leaving

BOOST_AUTO_TEST_CASE(who_leaves_the_middle_lets_the_others_move_up) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", weir::token_bucket{.capacity = 1, .refill = weir::per_hour(1)});
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    cancellable_crowd waiting;
    for (int i = 0; i < 5; ++i) l.acquire("a", patiently, waiting.caller());
    settle(l);
    waiting.cancel(1);
    weir::test::run_until(io, [&] { return waiting.c.answered() == 1; });
    settle(l);
    // The last of five turns is free again.
    const decision next = answer([&](auto h) { l.acquire("a", {.max_wait = 0s}, h); });
    BOOST_TEST((next.retry_after > 4h && next.retry_after <= 5h));
    for (const std::size_t i : {0u, 2u, 3u, 4u}) waiting.cancel(i);
    weir::test::run_until_complete(io, waiting.c);
  });
}

BOOST_AUTO_TEST_CASE(cancelled_anywhere_in_line_one_is_told_so) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", one_a_fortnight, {.max_waiting = 2, .overflow = on_overflow::block});
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    for (const auto how : {cancellation_type::terminal, cancellation_type::total}) {
      cancellable_crowd waiting;
      for (int i = 0; i < 3; ++i) l.acquire("a", patiently, waiting.caller());
      waiting.cancel(2, how);  // outside
      weir::test::run_until(io, [&] { return waiting.c[2].times == 1; });
      WEIR_TEST_ERROR(waiting.c[2].ec, aborted);
      waiting.cancel(1, how);
      waiting.cancel(0, how);
      weir::test::run_until_complete(io, waiting.c);
      for (const outcome& o : waiting.c) {
        // With `total`, what was sent already is answered: it will not pass in time.
        if (o.ec) WEIR_TEST_ERROR(o.ec, aborted);
        if (!o.ec) BOOST_TEST((how == cancellation_type::total && !o.d.allowed));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_context_may_end_while_somebody_stands_in_line) {
  for (const bool in_memory : {true, false}) {
    for (const weir::policy& policy : {weir::policy(one_a_fortnight), weir::policy(one_a_day)}) {
      asio::io_context ends;
      const weir::store store = in_memory
                                    ? weir::make_memory_store(ends.get_executor())
                                    : weir::make_redis_store(ends.get_executor(),
                                                             weir::test::patient_options(server));
      const limiter l(store, "ends" + std::to_string(policy.index()), policy,
                      {.max_waiting = 2, .overflow = on_overflow::block});
      crowd c;
      l.acquire("a", c.caller());
      for (int i = 0; i < 4; ++i) l.acquire("a", patiently, c.caller());
      l.fetch("a", c.caller());
      weir::test::run_until(ends, [&] { return c.answered() == 2; });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_store_that_is_closed_is_told_to_all_in_line) {
  on_both([&](weir::store store) {
    const limiter l(store, "w", sliding_window{.limit = 1, .window = 100ms},
                    {.max_waiting = 50'000});
    answer([&](auto h) { l.record("a", h); });
    crowd c;
    for (int i = 0; i < 50'000; ++i) l.acquire("a", c.caller());
    store.close();
    // The next time they ask, answers come at once, and lead to the next questions: the stack must bear it.
    weir::test::run_until_complete(io, c);
    BOOST_TEST(c.allowed() + c.failed(error::store_closed) + c.failed(error::outcome_unknown) ==
               50'000u);
    BOOST_TEST(c.failed(error::store_closed) > 49'000u);
  });
}

BOOST_AUTO_TEST_CASE(an_idle_limiter_remembers_nobody) {
  const auto store = open(true);
  const auto core = std::make_shared<weir::detail::limiter_core>(
      store.backend(), "r", weir::tiers(weir::token_bucket{.capacity = 5, .refill = {1, 1ms}}));
  crowd c;
  for (int i = 0; i < 20; ++i) {
    // As limiter::acquire() does.
    weir::detail::check_initiation<true>{core, io.get_executor()}(
        c.caller(), weir::detail::request{.kind = weir::detail::check_kind::acquire,
                                          .subject = weir::detail::short_text(std::to_string(i % 2)),
                                          .further = {},
                                          .max_wait = 1s});
  }
  BOOST_TEST(core->line->subjects() == 2u);
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 20u);
  BOOST_TEST(core->line->subjects() == 0u);
}

// ---- processes, threads

BOOST_AUTO_TEST_CASE(two_processes_lines_share_a_window_and_exceed_it_nowhere) {
  const sliding_window policy{.limit = 50, .window = 50ms};
  const limiter here(open(false), "r", policy), there(open(false), "r", policy);
  crowd mine, theirs;
  for (int i = 0; i < 200; ++i) {
    here.acquire("a", {.max_wait = 1h}, mine.caller());
    there.acquire("a", {.max_wait = 1h}, theirs.caller());
  }
  weir::test::run_until(io, [&] { return mine.complete() && theirs.complete(); });
  std::vector<weir::time_point> grants;
  for (const crowd* c : {&mine, &theirs}) {
    BOOST_TEST(c->allowed() == 200u);
    for (const outcome& o : *c) grants.push_back(o.d.at);
  }
  check_window(grants, policy);
}

BOOST_AUTO_TEST_CASE(with_several_threads_a_batch_is_one_call_too) {
  const sliding_window policy{.limit = 4'000, .window = 100ms};
  asio::thread_pool pool(2);
  auto strand = asio::make_strand(pool.get_executor());
  weir::store store = weir::make_redis_store(pool.get_executor(),
                                             weir::test::patient_options(server));
  const limiter l(store, "r", policy);
  std::vector<weir::time_point> grants;
  std::atomic<int> told{0};
  constexpr int calls = 5'000;
  for (int i = 0; i < calls; ++i) {
    l.acquire("a", {.max_wait = 1h},
              asio::bind_executor(strand, [&](weir::error_code ec, const decision& d) {
                if (!ec && d.allowed) grants.push_back(d.at);
                ++told;
              }));
  }
  while (told < calls) std::this_thread::yield();
  store.close();
  pool.join();
  BOOST_TEST(grants.size() == static_cast<std::size_t>(calls));
  check_window(grants, policy);
  const std::set<weir::time_point> batches(grants.begin(), grants.end());
  BOOST_TEST(script_calls() <= static_cast<std::int64_t>(batches.size()) + 2);
}

// Whoever comes in for one that leaves was booked before that one's turn had gone back.
BOOST_AUTO_TEST_CASE(who_comes_in_for_another_is_booked_when_that_turn_is_back) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", weir::leaky_bucket{.capacity = 9, .leak = weir::per_hour(1)},
                    {.max_waiting = 2, .overflow = on_overflow::block});
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    cancellable_crowd waiting;
    for (int i = 0; i < 10; ++i) l.acquire("a", patiently, waiting.caller());
    settle(l);
    for (std::size_t i = 0; i < 8; ++i) {
      waiting.cancel(i);
      settle(l);
    }
    // Of all these, the first is in the bucket and two wait.
    const decision d = answer([&](auto h) { l.fetch("a", h); });
    BOOST_TEST((d.reset_after <= 3h && d.reset_after > 2h + 50min));
    for (const std::size_t i : {8u, 9u}) waiting.cancel(i);
    weir::test::run_until_complete(io, waiting.c);
  });
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
  // They did so by a few answers: of those that failed together, all have one time.
  std::set<weir::time_point> times;
  for (std::size_t i = 0; i < 300; ++i) times.insert(c[i].d.at);
  BOOST_TEST(times.size() <= 11u);
}

BOOST_AUTO_TEST_CASE(threads_come_and_leave) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  const std::pair<const char*, weir::policy> policies[] = {
      {"window", sliding_window{.limit = 50, .window = 20ms}},
      {"bucket", weir::token_bucket{.capacity = 5, .refill = {1, 200us}}}};
  for (const bool in_memory : {true, false}) {
    for (const auto strategy :
         {on_overflow::drop_oldest, on_overflow::drop_lowest_priority, on_overflow::block}) {
      for (const auto& [name, policy] : policies) {
        asio::thread_pool pool(3);
        const weir::store store = in_memory
                                      ? weir::make_memory_store(pool.get_executor())
                                      : weir::make_redis_store(pool.get_executor(),
                                                               weir::test::patient_options(server));
        const limiter l(store, name, policy, {.max_waiting = 20, .overflow = strategy});
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
              asio::post(c.strand, [&, how, leaves] {
                l.acquire("a", how,
                          asio::bind_cancellation_slot(
                              c.signal.slot(),
                              asio::bind_executor(c.strand, [&](weir::error_code ec, decision) {
                                if (ec && ec != aborted && ec != error::overloaded &&
                                    ec != error::timed_out) {
                                  ++wrong;
                                }
                                ++told;
                              })));
                if (leaves) {
                  asio::post(c.strand, [&] { c.signal.emit(cancellation_type::terminal); });
                }
              });
            }
          });
        }
        for (std::thread& t : crew) t.join();
        // Ends when nobody waits any more, and nothing keeps the connection but the store.
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

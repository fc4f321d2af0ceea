// Acquire queues over a memory store and a real server: what they cost, which waiter goes first,
// and what their bounds are.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "integration/acquire_queue_fixture.hpp"

namespace weir::test::waiting::acquire_queue_test {

BOOST_FIXTURE_TEST_SUITE(acquire_queue_suite, fixture)

// ---- what it costs

BOOST_AUTO_TEST_CASE(ten_thousand_reservations_of_a_bucket_cost_one_call_for_each_12) {
  const limiter l(open(false), "r", weir::token_bucket{.capacity = 1, .refill = {1, 10us}});
  crowd c;
  for (int i = 0; i < 10'000; ++i) l.acquire("a", {.priority = i % 7}, c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 10'000u);
  std::set<weir::time_point> turns;
  for (const outcome& o : c) turns.insert(reserved_time_of(o.d));
  BOOST_TEST(turns.size() == 10'000u);
  BOOST_TEST(script_calls() <= full_calls(10'000, 12));
}

BOOST_AUTO_TEST_CASE(ten_thousand_reservations_of_a_sliding_window_cost_one_call_for_each_8) {
  const sliding_window policy{.limit = 4'000, .window = 200ms};
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", policy);
    answer([&](auto h) { l.fetch("a", h); });
    const std::int64_t calls_before = script_calls();
    crowd c;
    for (int i = 0; i < 10'000; ++i) l.acquire("a", {.max_wait = 1h}, c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 10'000u);
    std::vector<weir::time_point> turns;
    for (const outcome& o : c) turns.push_back(reserved_time_of(o.d));
    check_window(turns, policy);
    BOOST_TEST(script_calls() - calls_before <= full_calls(10'000, 8));
  });
}

// ---- order

BOOST_AUTO_TEST_CASE(in_a_sliding_window_they_go_as_they_came) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_window{.limit = 20, .window = 100ms});
    std::vector<int> order;
    const auto play = [&] {
      order.clear();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 60; ++i) {
        l.acquire("a", [&, i](weir::error_code ec, const decision& d) {
          BOOST_TEST((!ec && d.allowed));
          order.push_back(i);
        });
      }
      const auto took = std::chrono::steady_clock::now() - begin;
      weir::test::run_until(io, [&] { return order.size() == 60; });
      return took;
    };
    // If this process stopped for a window, the first were due before the last had come. Who goes
    // at the same moment goes in any order.
    while (play() >= 50ms) continue;
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
  });
}

BOOST_AUTO_TEST_CASE(larger_priorities_go_first) {
  struct kind {
    const char* name;
    weir::policy policy;
    std::int64_t cost;
  };
  const kind kinds[] = {{"window", sliding_window{.limit = 8, .window = 160ms}, 2},
                        {"bucket", weir::token_bucket{.capacity = 4, .refill = {1, 20ms}}, 4}};
  on_both([&](const weir::store& store) {
    for (const auto& [name, policy, cost] : kinds) {
      BOOST_TEST_CONTEXT(name) {
        const limiter l(store, name, policy);
        // What is there goes first, so that all of those below have to wait; they have their
        // reservations, or are in the queue, when the store has answered once more.
        while (answer([&](auto h) { l.record("a", {.cost = cost}, h); }).allowed) {
        }
        std::vector<int> order;
        for (int i = 0; i < 12; ++i) {
          l.acquire("a", {.cost = cost, .priority = i % 3},
                    [&, i](weir::error_code ec, const decision& d) {
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

BOOST_AUTO_TEST_CASE(a_full_queue_follows_its_overflow_option) {
  const std::pair<const char*, weir::policy> policies[] = {{"window", at_least_one_a_day},
                                                           {"bucket", one_a_day}};
  on_both([&](const weir::store& store) {
    for (const auto& [name, policy] : policies) {
      for (const auto strategy : {on_overflow::refuse_new, on_overflow::drop_lowest_priority}) {
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
              {on_overflow::refuse_new, {3, 4}}, {on_overflow::drop_lowest_priority, {0, 2}}};
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
          BOOST_TEST((after.retry_after <= 24h));
          crowd forgotten;
          l.reset("a", forgotten.caller());
          weir::test::run_until_complete(io, forgotten);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_failure_policy_does_not_let_in_a_waiter_that_a_full_queue_drops) {
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
  WEIR_TEST_ERROR(with({.priority_aging = -1us}), error::invalid_policy);
  WEIR_TEST_ERROR(with({.max_waiting = 1, .priority_aging = 0us}), weir::error_code());
  WEIR_TEST_ERROR(with({.priority_aging = std::chrono::microseconds::max()}), weir::error_code());
}

// ---- max_wait

// It heard when another's question was answered, 12 s later.
BOOST_AUTO_TEST_CASE(a_short_deadline_is_kept_though_others_wait) {
  const limiter l(open(false), "r", sliding_window{.limit = 1, .window = 1h});
  answer([&](auto h) { l.fetch("a", h); });
  server.pause();
  crowd patient, hurried;
  l.acquire("a", {.timeout = 50s}, patient.caller());
  l.acquire("a", {.timeout = 20ms}, hurried.caller());
  weir::test::run_until_complete(io, hurried);
  WEIR_TEST_ERROR(hurried[0].ec, error::no_reply);
  BOOST_TEST(patient.answered() == 0u);
  server.resume();
  weir::test::run_until_complete(io, patient);
  BOOST_TEST(patient.allowed() == 1u);
}

// Costs travelled one by one, and those behind the first two heard that their time was over.
BOOST_AUTO_TEST_CASE(different_costs_pass_at_once_while_there_is_room) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_window{.limit = 52, .window = 1h});
    crowd c;
    for (int cost = 1; cost <= 10; ++cost) {
      l.acquire("a", {.cost = cost, .max_wait = 0s}, c.caller());
    }
    weir::test::run_until_complete(io, c);
    // The sum of the first nine is 45, and ten more is too much.
    BOOST_TEST(c.allowed() == 9u);
    BOOST_TEST((!c[9].ec && !c[9].d.allowed));
  });
}

BOOST_AUTO_TEST_CASE(no_time_out_goes_past_a_fallback) {
  const limiter l(open(false), "r", sliding_window{.limit = 4, .window = 1h},
                  {.on_failure = weir::on_failure::fallback, .process_count = 1});
  server.kill();
  crowd c;
  for (int i = 0; i < 6; ++i) {
    l.acquire("a", {.cost = 1 + i % 2, .max_wait = 1ms, .timeout = 10ms}, c.caller());
  }
  weir::test::run_until_complete(io, c);
  for (const outcome& o : c) {
    BOOST_TEST((!o.ec && o.d.source == weir::source::fallback), o.ec.message());
  }
  // 1 + 2 + 1 units.
  BOOST_TEST(c.allowed() == 3u);
}

BOOST_AUTO_TEST_CASE(a_sliding_window_refuses_at_once_what_will_not_pass_in_time) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", at_least_one_a_day);
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    const decision refused = answer([&](auto h) { l.acquire("a", {.max_wait = 1h}, h); });
    BOOST_TEST((!refused.allowed && refused.retry_after > 11h));
    // An hour before it would pass, it would be reserved.
    const decision said = answer([&](auto h) { l.record("a", h); });
    BOOST_TEST(
        (refused.decided_at + refused.retry_after + 1h == said.decided_at + said.retry_after));
  });
}

BOOST_AUTO_TEST_CASE(a_cool_down_is_waited_for_in_the_queue) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_window{.limit = 5, .window = 1h}, {.cool_downs = true});
    const decision pause = answer([&](auto h) { l.cool_down("a", 30ms, h); });
    crowd c;
    for (int i = 0; i < 5; ++i) l.acquire("a", c.caller());
    weir::test::run_until_complete(io, c);
    for (const outcome& o : c)
      BOOST_TEST((o.d.allowed && reserved_time_of(o.d) >= pause.decided_at + 30ms));
  });
}

// It had the reservation of the one that left, in exchange for its own.
BOOST_AUTO_TEST_CASE(a_caller_that_comes_in_a_cool_down_waits_for_its_end) {
  on_both([&](const weir::store& store) {
    const weir::token_bucket bucket{.capacity = 1, .refill = {1, 150ms}};
    const limiter here(store, "r", bucket, {.cool_downs = true});
    const limiter there(store, "r", bucket, {.cool_downs = true});
    BOOST_TEST(answer([&](auto h) { here.acquire("a", h); }).allowed);
    cancellable_crowd before, after;
    here.acquire("a", before.caller());
    settle(here);
    const auto begin = std::chrono::steady_clock::now();
    answer([&](auto h) { there.cool_down("a", 600ms, h); });
    here.acquire("a", {.priority = 9}, after.caller());
    settle(here);
    if (before.c[0].times == 0) before.cancel(0);
    weir::test::run_until_complete(io, after.c);
    BOOST_TEST(after.c[0].d.allowed);
    BOOST_TEST((std::chrono::steady_clock::now() - begin >= 600ms));
    weir::test::run_until_complete(io, before.c);
  });
}

// All of them went in the moment at which the cool-down ended, with their old reservations.
BOOST_AUTO_TEST_CASE(no_more_go_at_the_end_of_a_cool_down_than_the_policy_allows) {
  on_both([&](const weir::store& store) {
    const weir::sliding_log rule{.limit = 3, .window = 300ms};
    const limiter l(store, "r", rule, {.cool_downs = true});
    crowd c;
    for (int i = 0; i < 12; ++i) l.acquire("a", c.caller());
    settle(l);
    const decision pause = answer([&](auto h) { l.cool_down("a", 750ms, h); });
    std::vector<bool> is_earlier;
    for (const outcome& o : c) is_earlier.push_back(o.times > 0);
    weir::test::run_until_complete(io, c);
    check_pause(c, is_earlier, pause.decided_at + 750ms, rule);
  });
}

BOOST_AUTO_TEST_CASE(a_waiter_that_sleeps_when_a_cool_down_begins_waits_for_its_end) {
  on_both([&](const weir::store& store) {
    const weir::limiter_options options{.group = "g", .cool_downs = true};
    const weir::token_bucket bucket{.capacity = 1, .refill = {1, 100ms}};
    const limiter alone(store, "alone", bucket, options), total(store, "total", bucket, options);
    answer([&](auto h) { alone.acquire("a", h); });
    answer([&](auto h) { total.acquire("a", h); });
    crowd waiting, impatient;
    alone.acquire("a", waiting.caller());
    weir::acquire_all(total.on("a"), waiting.caller());
    alone.acquire("a", {.max_wait = 250ms}, impatient.caller());
    settle(alone);
    const auto begin = std::chrono::steady_clock::now();
    for (const limiter* l : {&alone, &total}) {
      answer([&](auto h) { l->cool_down("a", 400ms, h); });
    }
    const std::size_t in_time = waiting.answered() + impatient.answered();  // on a busy machine
    weir::test::run_until_complete(io, impatient);
    if (in_time == 0) BOOST_TEST((!impatient[0].d.allowed && impatient[0].d.cooling_down));
    weir::test::run_until_complete(io, waiting);
    BOOST_TEST(waiting.allowed() == 2u);
    if (in_time == 0) BOOST_TEST((std::chrono::steady_clock::now() - begin >= 400ms));
  });
}

// The second record went with the first one, before the reset.
BOOST_AUTO_TEST_CASE(a_reset_through_another_limiter_keeps_its_order) {
  on_both([&](const weir::store& store) {
    const weir::fixed_window window{.limit = 10, .window = 24h};
    const limiter one(store, "r", window), another(store, "r", window);
    crowd c;
    one.record("a", c.caller());
    another.reset("a", c.caller());
    one.record("a", c.caller());
    another.record("a", c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(c[0].d.used == 1);
    BOOST_TEST(c[2].d.used == 1);
    BOOST_TEST(c[3].d.used == 2);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace weir::test::waiting::acquire_queue_test

// What store::stats(), limiter::stats() and events tell, with a memory store.
#include "weir/stats.hpp"

#include <atomic>

#include "limiter/met_cool_downs.hpp"
#include "memory_store_fixture.hpp"
#include "weir/event.hpp"

namespace stats_test {

using namespace weir;
using namespace weir::test;

constexpr std::size_t by_store = static_cast<std::size_t>(source::store);
constexpr std::size_t by_deny_cache = static_cast<std::size_t>(source::deny_cache);

const fixed_window hourly{.limit = 3, .window = 1h};

struct fixture : memory_store_fixture {
  std::vector<event> told;

  event_handler noting() {
    return [this](const event& e) { told.push_back(e); };
  }
  std::size_t told_of(event_kind what) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(told, [what](const event& e) { return e.what == what; }));
  }
};

BOOST_FIXTURE_TEST_SUITE(stats_suite, fixture)

BOOST_AUTO_TEST_CASE(a_histogram_tells_times_to_an_eighth) {
  duration_histogram h;
  BOOST_TEST(h.quantile(0.5).count() == 0);
  for (std::int64_t us = 1; us <= 100'000; ++us) h.add(microseconds(us));
  h.add(-5us);                     // counts as none
  h.add(microseconds::max() / 2);  // counts in the last step
  BOOST_TEST(h.count() == 100'002u);
  for (const double q : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto found = static_cast<double>(h.quantile(q).count());
    BOOST_TEST(found >= q * 100'000 - 1);
    BOOST_TEST(found <= q * 100'000 * 1.125 + 2);
  }
  BOOST_TEST(h.quantile(0).count() == 0);
  BOOST_TEST(h.quantile(1).count() > 3'600'000'000);
  BOOST_TEST(h.count_within(7us) == 8u);
  BOOST_TEST(h.count_within(1s) == 100'001u);
  BOOST_TEST(h.count_within(-1us) == 0u);
  // Each time lies within the step to which it is counted.
  for (std::int64_t us = 1; us < 4'000'000'000; us += us / 3 + 1) {
    duration_histogram one;
    one.add(microseconds(us));
    BOOST_TEST(one.quantile(0.5).count() >= us);
    BOOST_TEST(one.quantile(0.5).count() <= us + us / 8);
    BOOST_TEST(one.count_within(microseconds(us)) == 1u);
    BOOST_TEST(one.count_within(microseconds(us - us / 4 - 1)) == 0u);
  }
  duration_histogram twice = h;
  twice += h;
  BOOST_TEST(twice.count() == 200'004u);
  BOOST_TEST((twice.quantile(0.9) == h.quantile(0.9)));
}

BOOST_AUTO_TEST_CASE(calls_count_by_outcome_source_and_error) {
  const weir::store s = store();
  const limiter l(s, "r", hourly, {.deny_cache_subjects = 100});
  for (int i = 0; i < 6; ++i) record(l, "a");
  record(l, "");
  record(l, "b", 4);
  fetch(l, "a");
  reset(l, "b");
  const call_counts counts = l.stats().calls;
  BOOST_TEST(counts.allowed[by_store] == 3u);
  BOOST_TEST(counts.refused[by_store] == 1u);
  BOOST_TEST(counts.refused[by_deny_cache] == 2u);
  BOOST_TEST(counts.other == 2u);
  BOOST_TEST(counts.cancelled == 0u);
  BOOST_TEST_REQUIRE(counts.failed.size() == 2u);
  BOOST_TEST((counts.failed[0] == std::pair{error::invalid_subject, std::uint64_t{1}}));
  BOOST_TEST((counts.failed[1] == std::pair{error::cost_exceeds_limit, std::uint64_t{1}}));
  BOOST_TEST(counts.total() == 10u);
  BOOST_TEST(s.stats().calls.total() == 10u);
  BOOST_TEST(s.stats().connections.empty());
}

BOOST_AUTO_TEST_CASE(errors_that_a_failure_policy_covers_are_counted_apart) {
  const weir::store s = store(1, 1);
  const limiter l(s, "r", hourly, {.on_failure = on_failure::open});
  record(l, "a");
  BOOST_TEST(record(l, "b").d.allowed);  // the store is full
  const call_counts counts = l.stats().calls;
  BOOST_TEST(counts.allowed[by_store] == 1u);
  BOOST_TEST(counts.allowed[static_cast<std::size_t>(source::fallback)] == 1u);
  BOOST_TEST(counts.failed.empty());
  BOOST_TEST_REQUIRE(counts.covered.size() == 1u);
  BOOST_TEST((counts.covered[0] == std::pair{error::store_full, std::uint64_t{1}}));
}

// Every enumerator of error has a place among the counts.
BOOST_AUTO_TEST_CASE(each_error_has_a_count) {
  const weir::store s = store();
  const limiter l(s, "r", hourly);
  const_cast<weir::store&>(s).close();
  record(l, "a");
  const auto failed = l.stats().calls.failed;
  BOOST_TEST_REQUIRE(failed.size() == 1u);
  BOOST_TEST((failed[0].first == error::store_closed));
  BOOST_TEST(static_cast<int>(error::not_memcached) < 64);
}

BOOST_AUTO_TEST_CASE(a_call_of_several_limiters_counts_at_each_and_once_at_the_store) {
  const weir::store s = store();
  const limiter one(s, "one", hourly, {.group = "g"}), two(s, "two", hourly, {.group = "g"});
  for (int i = 0; i < 4; ++i) {
    outcome_of([&](auto handler) {
      const claim claims[] = {one.on("a"), two.on("a")};
      record_all(claims, handler);
    });
  }
  for (const limiter* l : {&one, &two}) {
    BOOST_TEST(l->stats().calls.allowed[by_store] == 3u);
    BOOST_TEST(l->stats().calls.refused[by_store] == 1u);
  }
  BOOST_TEST(s.stats().calls.all_allowed() == 3u);
  BOOST_TEST(s.stats().calls.all_refused() == 1u);
}

BOOST_AUTO_TEST_CASE(a_joint_refusal_counts_at_the_limiter_that_refused) {
  const weir::store s = store();
  const limiter global(s, "global", fixed_window{.limit = 100, .window = 1h},
                       {.group = "g", .most_refused = 5});
  const limiter account(s, "account", tiers{fixed_window{.limit = 9, .window = 1h}, hourly},
                        {.group = "g", .most_refused = 5});
  for (int i = 0; i < 5; ++i) {
    outcome_of([&](auto handler) {
      const claim claims[] = {global.on("all"), account.on("bob")};
      record_all(claims, handler);
    });
  }
  BOOST_TEST(global.stats().most_refused.empty());
  const limiter_stats stats = account.stats();
  BOOST_TEST_REQUIRE(stats.most_refused.size() == 1u);
  BOOST_TEST(stats.most_refused[0].subject == "bob");
  BOOST_TEST(stats.most_refused[0].count == 2u);
  BOOST_TEST(stats.refused_by_tier.at(0) == 0u);
  BOOST_TEST(stats.refused_by_tier.at(1) == 2u);
}

// A decision's tier counts policies, and a cool-down is none.
BOOST_AUTO_TEST_CASE(a_refusal_behind_a_limiter_with_cool_downs_counts_at_its_own) {
  const weir::store s = store();
  const limiter vendor(s, "vendor", fixed_window{.limit = 100, .window = 1h},
                       {.group = "g", .cool_downs = true, .most_refused = 5});
  const limiter account(s, "account", tiers{fixed_window{.limit = 9, .window = 1h}, hourly},
                        {.group = "g", .cool_downs = true, .most_refused = 5});
  const auto ask = [&](std::string_view who) {
    outcome_of([&](auto handler) {
      const claim claims[] = {vendor.on("all"), account.on(who)};
      record_all(claims, handler);
    });
  };
  for (int i = 0; i < 5; ++i) ask("bob");
  BOOST_TEST(vendor.stats().most_refused.empty());
  BOOST_TEST(account.stats().most_refused.at(0).count == 2u);
  BOOST_TEST(account.stats().refused_by_tier.at(1) == 2u);
  answer([&](auto handler) { account.cool_down("ann", 10s, handler); });
  ask("ann");
  BOOST_TEST(account.stats().refused_by_cool_down == 1u);
  BOOST_TEST(vendor.stats().refused_by_cool_down == 0u);
}

BOOST_AUTO_TEST_CASE(a_refusal_without_the_store_is_of_no_tier) {
  const weir::store s = store(1, 1);
  const limiter l(s, "r", tiers{fixed_window{.limit = 2, .window = 1s}, hourly},
                  {.on_failure = on_failure::closed});
  const limiter filler(s, "filler", hourly);
  record(filler, "a");
  BOOST_TEST(!record(l, "b").d.allowed);  // the store is full
  BOOST_TEST((l.stats().refused_by_tier == std::vector<std::uint64_t>{0, 0}));
  BOOST_TEST(l.stats().calls.all_refused() == 1u);
}

BOOST_AUTO_TEST_CASE(a_limiter_that_is_named_twice_counts_a_call_once) {
  const weir::store s = store();
  const limiter one(s, "one", hourly, {.group = "g"});
  outcome_of([&](auto handler) {
    const claim claims[] = {one.on("a"), one.on("b")};
    record_all(claims, handler);
  });
  BOOST_TEST(one.stats().calls.total() == 1u);
  BOOST_TEST(s.stats().calls.total() == 1u);
}

BOOST_AUTO_TEST_CASE(a_call_across_two_stores_counts_at_both) {
  const weir::store s = store(), other = store();
  const limiter one(s, "one", hourly, {.group = "g"}), two(other, "two", hourly, {.group = "g"});
  outcome_of([&](auto handler) {
    const claim claims[] = {one.on("a"), two.on("a")};
    record_all(claims, handler);
  });
  BOOST_TEST(s.stats().calls.all_failed() == 1u);
  BOOST_TEST(other.stats().calls.all_failed() == 1u);
}

BOOST_AUTO_TEST_CASE(callers_that_give_up_several_limiters_count_at_each) {
  const weir::store s = make_memory_store(io.get_executor());
  const token_bucket slow{.capacity = 1, .refill = per_hour(1)};
  const limiter one(s, "one", slow, {.group = "g"}), two(s, "two", slow, {.group = "g"});
  cancellable_crowd callers;
  for (int i = 0; i < 2; ++i) {
    const claim claims[] = {one.on("a"), two.on("a")};
    acquire_all(claims, {.max_wait = 2h}, callers.caller());
  }
  run_ready();
  callers.cancel(1);
  run_until_complete(io, callers.c);
  BOOST_TEST(one.stats().gave_up == 1u);
  BOOST_TEST(two.stats().gave_up == 1u);
  BOOST_TEST(s.stats().calls.cancelled == 1u);
}

BOOST_AUTO_TEST_CASE(the_store_keeps_the_counts_of_limiters_that_are_gone) {
  const weir::store s = store();
  for (int i = 0; i < 5; ++i) {
    const limiter l(s, "r" + std::to_string(i), hourly);
    record(l, "a");
  }
  BOOST_TEST(s.stats().calls.all_allowed() == 5u);
}

BOOST_AUTO_TEST_CASE(refusals_count_by_tier) {
  const weir::store s = store();
  const limiter l(s, "r", tiers{fixed_window{.limit = 2, .window = 1s}, hourly});
  for (int i = 0; i < 3; ++i) record(l, "a");
  now += 1s;
  for (int i = 0; i < 3; ++i) record(l, "a");
  const limiter_stats stats = l.stats();
  BOOST_TEST_REQUIRE(stats.refused_by_tier.size() == 2u);
  BOOST_TEST(stats.refused_by_tier[0] == 1u);
  BOOST_TEST(stats.refused_by_tier[1] == 2u);
  BOOST_TEST(stats.calls.all_refused() == 3u);
}

BOOST_AUTO_TEST_CASE(waiters_count_while_they_wait_and_afterwards) {
  const weir::store s = make_memory_store(io.get_executor());
  const limiter l(s, "r", token_bucket{.capacity = 1, .refill = per_second(100)});
  cancellable_crowd callers;
  for (int i = 0; i < 3; ++i) l.acquire("a", callers.caller());
  run_ready();
  BOOST_TEST(l.stats().waiting == 2u);
  callers.cancel(2);
  run_until_complete(io, callers.c);
  const limiter_stats stats = l.stats();
  BOOST_TEST(stats.waiting == 0u);
  BOOST_TEST(stats.gave_up == 1u);
  BOOST_TEST(stats.calls.cancelled == 1u);
  BOOST_TEST(stats.waited.count() == 1u);
  BOOST_TEST((stats.waited.sum() > 9ms && stats.waited.sum() <= 10ms));
}

BOOST_AUTO_TEST_CASE(a_cool_down_is_told_once) {
  const weir::store s = store();
  const limiter own(s, "r", hourly,
                    {.cool_downs = true, .max_cool_down = 30s, .on_event = noting()});
  const limiter other(s, "r", hourly, {.cool_downs = true, .on_event = noting()});
  const auto cool = [&](const limiter& l, duration length) {
    answer([&](auto handler) { l.cool_down("a", length, handler); });
  };
  cool(own, 10s);
  cool(own, 5s);  // shorter
  run_ready();
  BOOST_TEST_REQUIRE(told.size() == 1u);
  BOOST_TEST((told[0].what == event_kind::cool_down_begun));
  BOOST_TEST((told[0].origin == cool_down_origin::call));
  BOOST_TEST(told[0].resource == "r");
  BOOST_TEST(told[0].subject == "a");
  BOOST_TEST((told[0].until == time_point(now + 10s)));
  told.clear();

  for (int i = 0; i < 3; ++i) record(other, "a");
  run_ready();
  BOOST_TEST_REQUIRE(told.size() == 1u);
  BOOST_TEST((told[0].origin == cool_down_origin::elsewhere));
  told.clear();

  cool(own, 2min);
  answer([&](auto handler) { own.on_response("a", 429, {}, handler); });
  run_ready();
  BOOST_TEST(told_of(event_kind::cool_down_begun) == 1u);
  BOOST_TEST(told_of(event_kind::cool_down_clamped) == 1u);

  const limiter_stats of_own = own.stats(), of_other = other.stats();
  BOOST_TEST(of_own.cool_downs_begun == 2u);
  BOOST_TEST(of_own.cool_downs_joined == 0u);
  BOOST_TEST(of_own.cool_downs_clamped == 1u);
  BOOST_TEST(of_own.cooling_down == 1u);
  BOOST_TEST(of_other.cool_downs_begun == 0u);
  BOOST_TEST(of_other.cool_downs_joined == 1u);
  BOOST_TEST(of_other.refused_by_cool_down == 3u);
  BOOST_TEST(of_other.calls.all_refused() == 3u);
}

BOOST_AUTO_TEST_CASE(a_longer_cool_down_of_another_limiter_is_not_told_as_ones_own) {
  const weir::store s = store();
  const limiter first(s, "r", hourly, {.cool_downs = true});
  const limiter second(s, "r", hourly, {.cool_downs = true, .on_event = noting()});
  answer([&](auto handler) { first.cool_down("a", 60s, handler); });
  answer([&](auto handler) { second.cool_down("a", 1s, handler); });
  run_ready();
  BOOST_TEST_REQUIRE(told.size() == 1u);
  BOOST_TEST((told[0].origin == cool_down_origin::elsewhere));
  BOOST_TEST(second.stats().cool_downs_begun == 0u);
  BOOST_TEST(second.stats().cool_downs_joined == 1u);
}

// The end by the store's clock decides, however late an answer is handled.
BOOST_AUTO_TEST_CASE(a_cool_down_is_news_if_it_ends_later_than_was_told) {
  detail::met_cool_downs met;
  const auto start = std::chrono::steady_clock::now();
  const time_point end(100s);
  BOOST_TEST(met.note("a", end, 30s, start));
  for (int i = 1; i < 10; ++i) BOOST_TEST(!met.note("a", end, 30s, start + i * 150ms));
  BOOST_TEST(met.running(start) == 1u);
  // One that is prolonged all the time is told now and then.
  int news = 0;
  for (int i = 1; i <= 20; ++i) news += met.note("a", end + i * 50ms, 30s, start) ? 1 : 0;
  BOOST_TEST(news == 10);
  // A later one that ends earlier is new after a reset.
  BOOST_TEST(!met.note("a", end - 50s, 1s, start));
  met.forget("a");
  BOOST_TEST(met.note("a", end - 50s, 1s, start));
}

BOOST_AUTO_TEST_CASE(the_store_gets_the_events_of_limiters_without_a_handler) {
  const weir::store s = make_memory_store(
      io.get_executor(), {.clock = [this] { return time_point(now); }, .on_event = noting()});
  const limiter l(s, "r", hourly, {.cool_downs = true});
  answer([&](auto handler) { l.on_response("a", 429, {}, handler); });
  run_ready();
  BOOST_TEST_REQUIRE(told.size() == 1u);
  BOOST_TEST((told[0].origin == cool_down_origin::response));
}

BOOST_AUTO_TEST_CASE(a_lost_lease_is_counted_and_told) {
  const weir::store s = make_memory_store(
      io.get_executor(), {.clock = [this] { return time_point(now); }, .on_event = noting()});
  const concurrency_limiter gate(s, "gate", {.limit = 1, .lease_duration = 300ms});
  lease held;
  bool has_entered = false;
  gate.enter("a", [&](error_code, lease l) {
    held = std::move(l);
    has_entered = true;
  });
  run_until(io, [&] { return has_entered; });
  BOOST_TEST(gate.stats().leases_held == 1u);
  BOOST_TEST(gate.stats().calls.all_allowed() == 1u);
  now += 1h;  // the store forgets it
  run_until(io, [&] { return !told.empty(); });
  BOOST_TEST((told[0].what == event_kind::lease_lost));
  BOOST_TEST(told[0].resource == "gate");
  BOOST_TEST(told[0].subject == "a");
  BOOST_TEST(gate.stats().leases_held == 0u);
  BOOST_TEST(gate.stats().leases_lost == 1u);
}

BOOST_AUTO_TEST_CASE(the_most_refused_subjects_are_named_within_the_bound) {
  const weir::store s = store();
  const limiter l(s, "r", fixed_window{.limit = 0 + 1, .window = 1h}, {.most_refused = 10});
  crowd c;
  // Two subjects with a fifth of all refusals each, among many others.
  for (int i = 0; i < 1000; ++i) {
    l.record("often", c.caller());
    l.record("also often", c.caller());
    for (int n = 0; n < 3; ++n) {
      const std::string rare = "rare " + std::to_string(3 * i % 500 + n);
      l.record(rare, c.caller());
    }
  }
  run_until_complete(io, c);
  const auto most = l.stats().most_refused;
  BOOST_TEST_REQUIRE(most.size() == 10u);
  std::set<std::string> first{most[0].subject, most[1].subject};
  BOOST_TEST(first.contains("often"));
  BOOST_TEST(first.contains("also often"));
  for (const refused_subject& one : {most[0], most[1]}) {
    BOOST_TEST(one.count >= 999u);
    BOOST_TEST(one.count - one.excess <= 999u);
  }
  const std::string long_subject(1000, 'x');
  for (int i = 0; i < 2000; ++i) record(l, long_subject);
  BOOST_TEST(l.stats().most_refused[0].subject.size() == 128u);
}

// Threads count in lines of their own; whoever reads the sums meanwhile sees them grow.
BOOST_AUTO_TEST_CASE(no_call_of_several_threads_is_lost) {
  constexpr int threads = 4, callers = 8, calls = 500;
  asio::thread_pool pool(threads);
  std::atomic<int> events{0};
  const weir::store s = make_memory_store(pool.get_executor(),
                                          {.on_event = [&](const event&) { ++events; }});
  const limiter l(s, "r", fixed_window{.limit = 1000, .window = 24h},
                  {.cool_downs = true, .most_refused = 5});
  std::atomic<int> running{callers}, thrown{0};
  for (int i = 0; i < callers; ++i) {
    asio::co_spawn(
        pool,
        [&l, i]() -> asio::awaitable<void> {
          // No temporaries in co_await: g++ 12 destroys them twice.
          const std::string own = "own " + std::to_string(i), cooled = "cooled " + own;
          for (int n = 0; n < calls; ++n) {
            const std::string_view subject = n % 2 == 0 ? "everyone's" : std::string_view(own);
            co_await l.record(subject);
          }
          co_await l.cool_down(cooled, 1h);
        },
        [&](std::exception_ptr e) {
          if (e) ++thrown;
          --running;
        });
  }
  std::uint64_t last = 0;
  bool always_grew = true;
  while (running > 0) {
    const std::uint64_t total = s.stats().calls.total();
    always_grew = always_grew && total >= last;
    last = total;
    static_cast<void>(l.stats());
  }
  pool.wait();
  BOOST_TEST(thrown == 0);
  BOOST_TEST(always_grew);
  const limiter_stats stats = l.stats();
  BOOST_TEST(stats.calls.all_allowed() == 1000u + callers * calls / 2);
  BOOST_TEST(stats.calls.all_refused() == callers * calls / 2 - 1000u);
  BOOST_TEST(stats.calls.other == static_cast<std::uint64_t>(callers));
  BOOST_TEST(stats.most_refused.at(0).count == stats.calls.all_refused());
  BOOST_TEST(stats.cool_downs_begun == static_cast<std::uint64_t>(callers));
  BOOST_TEST(events == callers);
}

BOOST_AUTO_TEST_CASE(a_memory_store_answers_a_ping) {
  const weir::store s = store();
  error_code result = error::store_full;
  run(io, [&]() -> asio::awaitable<void> {
    co_await s.ping();
    result = {};
  });
  BOOST_TEST(!result.failed());
  BOOST_TEST(s.stats().calls.other == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace stats_test

// Several policies are waited for at once, a sliding_window among them: tiers, and limiters in
// acquire_all.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "integration/acquire_queue_fixture.hpp"

namespace weir::test::waiting::waiting_together_test {

const limiter_options together{.group = "g"};

/// Calls that are all to pass, and their turns in the order in which they came.
struct procession {
  crowd c;
  std::vector<weir::time_point> turns;

  auto caller() { return c.caller(); }
  void run(asio::io_context& io) {
    weir::test::run_until_complete(io, c);
    BOOST_TEST(c.allowed() == c.size());
    for (const outcome& o : c) turns.push_back(reserved_time_of(o.d));
    BOOST_TEST(std::is_sorted(turns.begin(), turns.end()));
  }
  /// No more than `n` in less than that.
  void check_spacing(std::size_t n, std::chrono::microseconds least) const {
    for (std::size_t i = n; i < turns.size(); ++i) {
      BOOST_TEST((turns[i] - turns[i - n] >= least));
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(waiting_together_suite, fixture)

BOOST_AUTO_TEST_CASE(tiers_with_a_sliding_window_keep_them_all) {
  on_both([&](const weir::store& store) {
    const sliding_window window{.limit = 20, .window = 100ms};
    const limiter l(store, "r",
                    weir::tiers(token_bucket{.capacity = 5, .refill = {1, 4ms}}, window));
    procession p;
    for (int i = 0; i < 50; ++i) l.acquire("a", p.caller());
    p.run(io);
    check_window(p.turns, window);
    p.check_spacing(5, 4ms);
  });
}

// A leaky_bucket lets several pass and has them wait; the window would count them before they go.
BOOST_AUTO_TEST_CASE(with_a_leaky_bucket_they_pass_when_it_is_empty) {
  on_both([&](const weir::store& store) {
    const sliding_window window{.limit = 10, .window = 100ms};
    const leaky_bucket bucket{.capacity = 5, .leak = {1, 4ms}};
    const limiter l(store, "r", weir::tiers(window, bucket));
    const limiter windows(store, "windows", window, together),
        buckets(store, "buckets", bucket, together);
    procession of_tiers, of_limiters;
    for (int i = 0; i < 30; ++i) {
      l.acquire("a", of_tiers.caller());
      weir::acquire_all(buckets.on("a"), windows.on("a"), of_limiters.caller());
    }
    // A caller that cannot pass in time is told when it could.
    const decision d = answer([&](auto h) { l.acquire("a", {.max_wait = 0us}, h); });
    BOOST_TEST((!d.allowed && d.retry_after > 0us && d.retry_after <= 1s));
    of_tiers.run(io);
    of_limiters.run(io);
    for (const procession* p : {&of_tiers, &of_limiters}) {
      check_window(p->turns, window);
      p->check_spacing(1, 4ms);
    }
  });
}

// Of reservations at one time, the first went back first. So the bucket kept what it had been moved
// ahead for them: the next caller had to wait for 33 windows, though nobody waited.
BOOST_AUTO_TEST_CASE(reservations_at_one_time_go_back_last_first) {
  on_both([&](const weir::store& store) {
    const weir::sliding_log log{.limit = 50, .window = 1h};
    const token_bucket wide{.capacity = 100'000, .refill = weir::per_second(100'000)};
    const limiter l(store, "r", weir::tiers(log, wide));
    cancellable_crowd mixed;
    for (int i = 0; i < 200; ++i) {
      l.acquire("a", {.cost = 1 + i % 2, .max_wait = 24h}, mixed.caller());
    }
    const limiter logs(store, "logs", log, together), buckets(store, "buckets", wide, together);
    cancellable_crowd joint;
    for (int i = 0; i < 200; ++i) {
      weir::acquire_all(logs.on("a"), buckets.on("a"), weir::joint_acquire_options{.max_wait = 24h},
                        joint.caller());
    }
    weir::test::run_until(io, [&] { return mixed.c.answered() >= 33 && joint.c.answered() == 50; });
    settle(l);
    mixed.cancel_all();
    joint.cancel_all();
    weir::test::run_until_complete(io, mixed.c);
    weir::test::run_until_complete(io, joint.c);
    settle(l);
    for (const limiter& one : {l, buckets}) {
      const decision d = answer([&](auto h) { one.fetch("a", h); });
      BOOST_TEST((d.allowed || d.retry_after <= 1h));
    }
  });
}

BOOST_AUTO_TEST_CASE(acquire_all_with_a_sliding_window_goes_as_it_came) {
  on_both([&](const weir::store& store) {
    const sliding_window window{.limit = 20, .window = 100ms};
    const limiter total(store, "total", window, together);
    const limiter each(store, "each", token_bucket{.capacity = 15, .refill = {3, 4ms}}, together);
    procession p, q;
    for (int i = 0; i < 40; ++i) {
      weir::acquire_all(total.on("all"), each.on("a", 3), p.caller());
      weir::acquire_all(each.on("b", 3), total.on("others"), q.caller());
    }
    p.run(io);
    q.run(io);
    for (const procession* one : {&p, &q}) {
      check_window(one->turns, window);
      one->check_spacing(5, 4ms);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_thousand_cost_one_call_for_each_4) {
  const weir::store store = open(false);
  const limiter total(store, "total", sliding_window{.limit = 400, .window = 200ms}, together);
  // Their numbers are not the window's.
  const limiter each(store, "each", token_bucket{.capacity = 3'000'000, .refill = {1'000'000, 1s}},
                     together);
  const std::int64_t calls_before = script_calls();
  procession p;
  for (int i = 0; i < 1'000; ++i)
    weir::acquire_all(total.on("all"), each.on("a", 1'000), p.caller());
  p.run(io);
  BOOST_TEST(script_calls() - calls_before <= full_calls(1'000, 4));
}

BOOST_AUTO_TEST_CASE(a_refusal_says_which_of_them_refused) {
  on_both([&](const weir::store& store) {
    const limiter total(store, "total", sliding_window{.limit = 100, .window = 1h}, together);
    const limiter each(store, "each", one_a_day, together);
    BOOST_TEST(
        answer([&](auto h) { weir::acquire_all(total.on("all"), each.on("a"), h); }).allowed);
    const decision d = answer([&](auto h) { weir::acquire_all(total.on("all"), each.on("a"), h); });
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.tier == 1);
    BOOST_TEST((d.retry_after > 23h && d.retry_after <= 24h));
  });
}

// It named none, or one that would let it go before.
BOOST_AUTO_TEST_CASE(a_leaky_bucket_that_only_delays_refuses_the_reservation) {
  on_both([&](const weir::store& store) {
    const leaky_bucket bucket{.capacity = 5, .leak = weir::per_hour(1)};
    const sliding_window window{.limit = 100, .window = 240h};
    const token_bucket tokens{.capacity = 1, .refill = {1, 1min}};  // later than now, too
    const limiter waits(store, "waits", weir::tiers(window, bucket));
    const limiter books(store, "books", weir::tiers(tokens, bucket));
    for (const limiter* l : {&waits, &books}) {
      BOOST_TEST(answer([&](auto h) { l->acquire("a", h); }).allowed);
      const decision d = answer([&](auto h) { l->acquire("a", {.max_wait = 1s}, h); });
      BOOST_TEST(!d.allowed);
      BOOST_TEST(d.tier == 1);
      BOOST_TEST((d.limit == 5 && d.retry_after > 59min && d.retry_after <= 1h));
    }
  });
}

// ---- when the store cannot say

BOOST_AUTO_TEST_CASE(the_strictest_failure_policy_decides) {
  const weir::store store = open(false);
  server.kill();
  const auto with = [&](const char* name, on_failure f) {
    return limiter(store, name, sliding_window{.limit = 1, .window = 1h},
                   {.on_failure = f, .process_count = 1, .group = "g"});
  };
  const limiter open_one = with("open", on_failure::open);
  const limiter raising = with("raising", on_failure::raise);
  const limiter local = with("local", on_failure::fallback);
  const auto ask = [&](const limiter& other) {
    crowd c;
    for (int i = 0; i < 3; ++i) {
      weir::acquire_all(open_one.on("a"), other.on("a"),
                        weir::joint_acquire_options{.timeout = 20ms}, c.caller());
    }
    weir::test::run_until_complete(io, c);
    return c;
  };
  BOOST_TEST(ask(with("open, too", on_failure::open)).allowed() == 3u);
  for (const outcome& o : ask(raising)) BOOST_TEST((o.ec == weir::condition::not_counted));
  const crowd counted = ask(local);
  BOOST_TEST(counted.allowed() == 1u);
  BOOST_TEST(counted.refused() == 2u);
}

BOOST_AUTO_TEST_CASE(a_fallback_counts_in_all_of_them) {
  const weir::store store = open(false);
  server.kill();
  const limiter_options local{.on_failure = on_failure::fallback, .process_count = 1, .group = "g"};
  const limiter windows(store, "windows", sliding_window{.limit = 100, .window = 1h}, local);
  const limiter buckets(store, "buckets", leaky_bucket{.capacity = 5, .leak = {1, 20ms}}, local);
  procession p;
  for (int i = 0; i < 4; ++i) {
    weir::acquire_all(windows.on("a"), buckets.on("a"),
                      weir::joint_acquire_options{.timeout = 10ms}, p.caller());
  }
  p.run(io);
  p.check_spacing(1, 20ms);
  BOOST_TEST(answer([&](auto h) { windows.fetch("a", {.timeout = 10ms}, h); }).used == 4);
}

// Every caller of acquire_all whose reservation lay in the cool-down went when it ended.
BOOST_AUTO_TEST_CASE(no_more_of_acquire_all_go_at_the_end_of_a_cool_down_than_the_policy_allows) {
  on_both([&](const weir::store& store) {
    const weir::sliding_log rule{.limit = 3, .window = 300ms};
    const limiter_options cooled{.group = "g", .cool_downs = true};
    const limiter total(store, "total", rule, cooled);
    const limiter own(store, "own", token_bucket{.capacity = 100, .refill = {1, 1ms}}, cooled);
    crowd c;
    for (int i = 0; i < 12; ++i) weir::acquire_all(own.on("a"), total.on("all"), c.caller());
    settle(total);
    const decision pause = answer([&](auto h) { total.cool_down("all", 750ms, h); });
    std::vector<bool> is_earlier;
    for (const outcome& o : c) is_earlier.push_back(o.times > 0);
    weir::test::run_until_complete(io, c);
    check_pause(c, is_earlier, pause.decided_at + 750ms, rule);
    for (std::size_t i = 1; i < c.size(); ++i) {
      BOOST_TEST((reserved_time_of(c[i].d) >= reserved_time_of(c[i - 1].d)));
    }
  });
}

// The caller of acquire_all went inside the cool-down.
BOOST_AUTO_TEST_CASE(an_answer_to_acquire_tells_acquire_all_of_a_cool_down) {
  const weir::store here = open(), there = open();  // two processes
  const limiter_options cooled{.group = "g", .cool_downs = true};
  const token_bucket rule{.capacity = 1, .refill = {1, 1500ms}};
  const limiter own(here, "own", rule, cooled), elsewhere(there, "own", rule, cooled);
  const limiter total(here, "total", token_bucket{.capacity = 100, .refill = {1, 1ms}}, together);
  answer([&](auto h) { own.record("a", h); });
  crowd c;
  weir::acquire_all(own.on("a"), total.on("all"), c.caller());
  settle(total);
  const decision pause = answer([&](auto h) { elsewhere.cool_down("a", 2s, h); });
  own.acquire("a", {.max_wait = 20s}, c.caller());
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 2u);
  for (const outcome& o : c) BOOST_TEST((reserved_time_of(o.d) >= pause.decided_at + 2s));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace weir::test::waiting::waiting_together_test

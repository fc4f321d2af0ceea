// Several policies are waited for at once, one of which cannot book: tiers, and limiters in acquire_all.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "integration/line_fixture.hpp"
#include "support/watched_store.hpp"

namespace {

using namespace weir::test::waiting;
using weir::decision;
using weir::error;
using weir::leaky_bucket;
using weir::limiter;
using weir::limiter_options;
using weir::on_failure;
using weir::sliding_window;
using weir::token_bucket;
using weir::test::crowd;
using weir::test::outcome;

const limiter_options together{.group = "g"};
constexpr weir::joint_options very_patiently{.max_wait = 31 * 24h};

/// Calls that are all to pass, and in which order and when they did.
struct procession {
  std::vector<std::size_t> order;
  std::vector<weir::time_point> grants;
  std::size_t size = 0;

  auto caller() {
    return [this, i = size++](weir::error_code ec, const decision& d) {
      BOOST_TEST((!ec && d.allowed && d.delay == 0s), ec.message());
      order.push_back(i);
      grants.push_back(d.at);
    };
  }
  void run(asio::io_context& io) {
    weir::test::run_until(io, [&] { return order.size() == size; });
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
  }
  /// No more than `n` in less than that.
  void check_spacing(std::size_t n, std::chrono::microseconds least) const {
    for (std::size_t i = n; i < grants.size(); ++i) {
      BOOST_TEST((grants[i] - grants[i - n] >= least));
    }
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(waiting_together, fixture)

BOOST_AUTO_TEST_CASE(tiers_with_a_sliding_window_keep_them_all) {
  on_both([&](const weir::store& store) {
    const sliding_window window{.limit = 20, .window = 100ms};
    const limiter l(store, "r",
                    weir::tiers(token_bucket{.capacity = 5, .refill = {1, 4ms}}, window));
    procession p;
    for (int i = 0; i < 50; ++i) l.acquire("a", p.caller());
    p.run(io);
    check_window(p.grants, window);
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
    of_tiers.run(io);
    of_limiters.run(io);
    for (const procession* p : {&of_tiers, &of_limiters}) {
      check_window(p->grants, window);
      p->check_spacing(1, 4ms);
    }
    // Who cannot pass in time is told when that would be.
    const decision d = answer([&](auto h) { l.acquire("a", {.max_wait = 0us}, h); });
    BOOST_TEST((!d.allowed && d.retry_after > 0us && d.retry_after <= 100ms));
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
      check_window(one->grants, window);
      one->check_spacing(5, 4ms);
    }
  });
}

// All that might pass of a large cost were asked for, and one passed.
BOOST_AUTO_TEST_CASE(a_leaky_bucket_is_asked_for_one_whatever_the_first_cost) {
  const weir::store store = open(false);
  const limiter l(store, "r",
                  weir::tiers(sliding_window{.limit = 10'000, .window = 1min},
                              leaky_bucket{.capacity = 1'000, .leak = {1'000, 1s}}));
  const std::int64_t calls_before = script_calls();
  procession p;
  l.acquire("a", {.cost = 1'000}, p.caller());
  for (int i = 0; i < 300; ++i) l.acquire("a", p.caller());
  p.run(io);
  BOOST_TEST(script_calls() - calls_before <= 2 * 301);
}

BOOST_AUTO_TEST_CASE(a_thousand_cost_one_call_for_each_batch) {
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
  const std::set<weir::time_point> batches(p.grants.begin(), p.grants.end());
  const std::int64_t calls = script_calls() - calls_before;
  BOOST_TEST_MESSAGE(batches.size() << " batches, " << calls << " calls");
  BOOST_TEST(calls <= 2 * static_cast<std::int64_t>(batches.size()) + 2);
}

BOOST_AUTO_TEST_CASE(who_claims_something_else_waits_in_a_line_of_its_own) {
  on_both([&](const weir::store& store) {
    const limiter total(store, "total", sliding_window{.limit = 100, .window = 24h}, together);
    const limiter each(store, "each", one_a_day, together),
        others(store, "others", one_a_day, together);
    answer([&](auto h) { weir::record_all(total.on("all"), each.on("a"), h); });
    cancellable_crowd waiting;
    const auto wait = [&](auto... claims) {
      weir::acquire_all(claims..., very_patiently, waiting.caller());
    };
    wait(total.on("all"), each.on("a"));
    // Another consumer, another limiter, another cost, another subject of the first; and the subject alone.
    wait(total.on("all"), each.on("b"));
    wait(total.on("all"), others.on("a"));
    wait(total.on("all", 2), others.on("c"));
    wait(total.on("some"), each.on("d"));
    total.acquire("all", {.max_wait = 31 * 24h}, waiting.caller());
    weir::test::run_until(io, [&] { return waiting.c.answered() == 5; });
    settle(total);
    BOOST_TEST(waiting.c.allowed() == 5u);
    BOOST_TEST(waiting.c[0].times == 0);
    waiting.cancel(0);
    weir::test::run_until_complete(io, waiting.c);
    WEIR_TEST_ERROR(waiting.c[0].ec, aborted);
    // It has counted nothing.
    const decision d = answer([&](auto h) { total.fetch("all", h); });
    BOOST_TEST(d.used == 1 + 1 + 1 + 2 + 1);
  });
}

// Each had a line of its own, and all of them asked whenever one could pass.
BOOST_AUTO_TEST_CASE(consumers_with_a_total_in_common_do_not_ask_in_vain) {
  constexpr std::size_t consumers = 300;
  const sliding_window window{.limit = 20, .window = 20ms};
  std::size_t asked = 0;
  const weir::store store(std::make_shared<weir::test::watched_store>(
      weir::make_memory_store(io.get_executor()), [&](const auto&) { ++asked; }));
  const limiter total(store, "total", window, together);
  const limiter each(store, "each", token_bucket{.capacity = 5, .refill = {1, 1s}}, together);
  crowd c;
  for (std::size_t i = 0; i < consumers; ++i) {
    weir::acquire_all(total.on("all"), each.on(std::to_string(i)), c.caller());
  }
  weir::test::run_until_complete(io, c);
  BOOST_TEST(c.allowed() == consumers);
  std::vector<weir::time_point> grants;
  for (const outcome& o : c) grants.push_back(o.d.at);
  check_window(grants, window);
  // Once when it comes; once more when it passes; then two others at the most, and the first who is refused.
  BOOST_TEST_MESSAGE(asked << " asked");
  BOOST_TEST(asked <= 6 * consumers);
}

// Whoever was first asked for all of its callers before anybody else was asked for.
BOOST_AUTO_TEST_CASE(a_crowded_account_shares_the_total_with_the_others) {
  on_both([&](const weir::store& store) {
    const limiter total(store, "total", sliding_window{.limit = 40, .window = 40ms}, together);
    const limiter each(store, "each", token_bucket{.capacity = 1'000, .refill = {1, 1s}}, together);
    std::string order;
    const auto wait = [&](const char* account) {
      weir::acquire_all(total.on("all"), each.on(account),
                        [&order, account](weir::error_code ec, const decision& d) {
                          BOOST_TEST((!ec && d.allowed));
                          order += account;
                        });
    };
    for (int i = 0; i < 200; ++i) wait("a");
    for (int i = 0; i < 200; ++i) wait("b");
    weir::test::run_until(io, [&] { return order.size() == 400; });
    // After the first window's worth, which came to one question.
    const auto of_a = std::count(order.begin() + 50, order.begin() + 250, 'a');
    BOOST_TEST_MESSAGE(of_a << " of 200");
    BOOST_TEST((of_a >= 60 && of_a <= 140));
  });
}

// Whoever is first of those refused by the total leaves; or is refused by something else, for good.
BOOST_AUTO_TEST_CASE(nobody_is_forgotten_behind_one_that_leaves) {
  on_both([&](const weir::store& store) {
    const limiter total(store, "total", sliding_window{.limit = 4, .window = 100ms}, together);
    const limiter each(store, "each", one_a_day, together);
    answer([&](auto h) { weir::record_all(total.on("all", 3), each.on("1"), h); });
    answer([&](auto h) { weir::record_all(total.on("all"), each.on("none"), h); });
    cancellable_crowd waiting;
    for (const char* const consumer : {"0", "1", "2", "3", "4", "5"}) {
      weir::acquire_all(total.on("all"), each.on(consumer), very_patiently, waiting.caller());
    }
    settle(total);
    waiting.cancel(0);
    weir::test::run_until(io, [&] { return waiting.c.answered() == 5; });
    WEIR_TEST_ERROR(waiting.c[0].ec, aborted);
    BOOST_TEST(waiting.c.allowed() == 4u);
    BOOST_TEST(waiting.c[1].times == 0);  // its own bucket is empty
    waiting.cancel(1);
    weir::test::run_until_complete(io, waiting.c);
  });
}

BOOST_AUTO_TEST_CASE(the_first_limiter_says_how_many_may_wait) {
  on_both([&](const weir::store& store) {
    const limiter total(store, "total", one_a_fortnight, {.group = "g", .max_waiting = 2});
    const limiter each(store, "each", one_a_day, together);
    answer([&](auto h) { weir::record_all(total.on("all"), each.on("a"), h); });
    cancellable_crowd waiting;
    for (int i = 0; i < 4; ++i) {
      weir::acquire_all(total.on("all"), each.on("a"), very_patiently, waiting.caller());
    }
    weir::test::run_until(io, [&] { return waiting.c.answered() == 2; });
    BOOST_TEST(waiting.c.failed(error::overloaded) == 2u);
    for (const std::size_t i : {0, 1}) {
      BOOST_TEST(waiting.c[i].times == 0);
      waiting.cancel(i);
    }
    weir::test::run_until_complete(io, waiting.c);
  });
}

BOOST_AUTO_TEST_CASE(a_refusal_says_which_of_them_refused) {
  on_both([&](const weir::store& store) {
    const limiter total(store, "total", sliding_window{.limit = 100, .window = 1h}, together);
    const limiter each(store, "each", one_a_day, together);
    BOOST_TEST(answer([&](auto h) { weir::acquire_all(total.on("all"), each.on("a"), h); }).allowed);
    const decision d = answer([&](auto h) { weir::acquire_all(total.on("all"), each.on("a"), h); });
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.tier == 1);
    BOOST_TEST((d.retry_after > 23h && d.retry_after <= 24h));
  });
}

// It named none, or one that would let it go before: those behind were taken to wait for the total, and held back others.
BOOST_AUTO_TEST_CASE(a_leaky_bucket_that_only_delays_refuses_the_turn) {
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
                   {.on_failure = f, .group = "g"});
  };
  const limiter open_one = with("open", on_failure::open);
  const limiter raising = with("raising", on_failure::raise);
  const limiter local = with("local", on_failure::fallback);
  const auto ask = [&](const limiter& other) {
    crowd c;
    for (int i = 0; i < 3; ++i) {
      weir::acquire_all(open_one.on("a"), other.on("a"), weir::joint_options{.timeout = 20ms},
                        c.caller());
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

BOOST_AUTO_TEST_CASE(a_fallback_waits_in_line_too) {
  const weir::store store = open(false);
  server.kill();
  const limiter_options local{.on_failure = on_failure::fallback, .group = "g"};
  const limiter windows(store, "windows", sliding_window{.limit = 100, .window = 1h}, local);
  const limiter buckets(store, "buckets", leaky_bucket{.capacity = 5, .leak = {1, 20ms}}, local);
  procession p;
  for (int i = 0; i < 4; ++i) {
    weir::acquire_all(windows.on("a"), buckets.on("a"), weir::joint_options{.timeout = 10ms},
                      p.caller());
  }
  p.run(io);
  p.check_spacing(1, 20ms);
  // What was refused in between was counted by neither.
  BOOST_TEST(answer([&](auto h) { windows.fetch("a", {.timeout = 10ms}, h); }).used == 4);
}

BOOST_AUTO_TEST_SUITE_END()

// Waiting for a turn, in memory and in a real server.
#include "support/limiter_fixture.hpp"

namespace acquire_test {

using namespace weir;
using namespace weir::test;

constexpr token_bucket one_a_day{.capacity = 1, .refill = per_day(1)};
constexpr acquire_options patiently{.max_wait = 31 * 24h};

time_point reserved_time_of(const decision& d) { return d.decided_at + d.delay; }

struct fixture : server_fixture {
  /// The clock of the memory store stands still, so that calls made at once come at one time, as in
  /// a script.
  fixture() {
    const auto now = std::chrono::time_point_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now());
    memory_clock = [now] { return now; };
  }
};

BOOST_FIXTURE_TEST_SUITE(acquire_suite, fixture)

BOOST_AUTO_TEST_CASE(reservations_are_due_one_by_one_and_never_early) {
  on_both([&](const weir::store& store) {
    open_send_window(io, store);
    const limiter l(store, "r", token_bucket{.capacity = 1, .refill = {1, 5ms}});
    const auto begin = std::chrono::steady_clock::now();
    std::vector<int> order;
    std::vector<decision> said(20);
    for (int i = 0; i < 20; ++i) {
      l.acquire("a", [&, i](error_code ec, decision d) {
        BOOST_TEST(!ec.failed());
        BOOST_TEST(d.allowed);
        // By another clock than the store's, but both count the same microseconds.
        BOOST_TEST((std::chrono::steady_clock::now() - begin >= d.delay));
        order.push_back(i);
        said[static_cast<std::size_t>(i)] = d;
      });
    }
    run_until(io, [&] { return order.size() == 20; });
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
    for (std::size_t i = 1; i < said.size(); ++i) {
      BOOST_TEST((reserved_time_of(said[i]) == reserved_time_of(said[0]) + 5ms * i));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_reservation_too_far_ahead_is_refused_and_not_booked) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", one_a_day);
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    for (int i = 0; i < 3; ++i) {
      const decision d = answer([&](auto h) { l.acquire("a", {.max_wait = 1h}, h); });
      BOOST_TEST(!d.allowed);
      BOOST_TEST((d.retry_after > 22h && d.retry_after <= 23h));
    }
    const decision d = answer([&](auto h) { l.fetch("a", h); });
    BOOST_TEST((d.retry_after > 23h && d.retry_after <= 24h));
  });
}

BOOST_AUTO_TEST_CASE(no_request_overtakes_a_reservation) {
  on_both([&](const weir::store& store) {
    const limiter l(store, "r", sliding_log{.limit = 10, .window = 24h});
    BOOST_TEST(answer([&](auto h) { l.record("a", {.cost = 8}, h); }).allowed);
    cancellable_crowd waiting;
    l.acquire("a", {.cost = 5, .max_wait = 48h}, waiting.caller());
    // There is room for it, but it came later.
    const decision d = answer([&](auto h) { l.record("a", h); });
    BOOST_TEST(!d.allowed);
    BOOST_TEST((d.retry_after > 23h && d.retry_after <= 24h));
    waiting.cancel_all();
    run_until_complete(io, waiting.c);
  });
}

BOOST_AUTO_TEST_CASE(a_crowd_that_leaves_leaves_nothing_behind) {
  on_both([&](const weir::store& store) {
    const std::pair<const char*, weir::policy> policies[] = {
        {"fixed", fixed_window{.limit = 1, .window = 1h}},
        {"bucket", token_bucket{.capacity = 1, .refill = per_hour(1)}},
        {"bucket in parts", token_bucket{.capacity = 1, .refill = {7, 7h + 1us}}},
        {"leaky", leaky_bucket{.capacity = 1, .leak = per_hour(1)}},
        {"leaky in parts", leaky_bucket{.capacity = 1, .leak = {7, 7h + 1us}}},
        {"log", sliding_log{.limit = 1, .window = 1h}},
        {"log with a resolution", sliding_log{.limit = 1, .window = 1h, .resolution = 5min}},
        {"window", sliding_window{.limit = 1, .window = 30min}}};
    for (const auto& [name, policy] : policies) {
      for (const int count : {1, 500}) {
        BOOST_TEST_CONTEXT(name << ", " << count) {
          const limiter l(store, name + std::to_string(count), policy);
          BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
          const auto ask = [&] {
            return answer([&](auto h) { l.acquire("a", {.max_wait = 0s}, h); });
          };
          const decision before = ask();
          cancellable_crowd waiting;
          for (int i = 0; i < count; ++i) l.acquire("a", patiently, waiting.caller());
          BOOST_TEST((ask().retry_after > before.retry_after + 1h * (count / 2)));
          waiting.cancel_all();
          run_until_complete(io, waiting.c);
          BOOST_TEST((waiting.c[0].ec == asio::error::operation_aborted));
          const decision after = ask();
          BOOST_TEST((!after.allowed && after.retry_after <= before.retry_after + 2us));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_last_waiter_to_leave_leaves_the_time_before_as_well) {
  on_both([&](const weir::store& store) {
    const std::pair<const char*, weir::policy> policies[] = {
        {"fixed_window", fixed_window{.limit = 10, .window = 24h}},
        {"fixed_window of the epoch",
         fixed_window{.limit = 10, .window = 240h, .anchor = anchor::epoch}},
        {"sliding_log", sliding_log{.limit = 10, .window = 24h}},
        {"sliding_window", sliding_window{.limit = 10, .window = 240h}},
        {"token_bucket", token_bucket{.capacity = 10, .refill = per_day(1)}}};
    for (const auto& [name, policy] : policies) {
      BOOST_TEST_CONTEXT(name) {
        const limiter l(store, name, policy);
        BOOST_TEST(answer([&](auto h) { l.record("a", {.cost = 8}, h); }).allowed);
        cancellable_crowd waiting;
        // More than is left: later callers have to wait behind them.
        l.acquire("a", {.cost = 5, .max_wait = 31 * 24h}, waiting.caller());
        l.acquire("a", {.cost = 5, .max_wait = 31 * 24h}, waiting.caller());
        BOOST_TEST(!answer([&](auto h) { l.record("a", h); }).allowed);
        waiting.cancel_all();
        run_until_complete(io, waiting.c);
        // As before: two are left, and no more.
        BOOST_TEST(answer([&](auto h) { l.record("a", {.cost = 2}, h); }).allowed);
        BOOST_TEST(!answer([&](auto h) { l.record("a", h); }).allowed);
      }
    }
  });
}

// What was asked together is idle when the last of them is; the bucket was looked for at that time.
BOOST_AUTO_TEST_CASE(a_bucket_asked_first_of_several_gets_its_reservation_back) {
  on_both([&](const weir::store& store) {
    const limiter_options together{.group = "g"};
    const limiter bucket(store, "bucket", token_bucket{.capacity = 3, .refill = per_hour(1)},
                         together);
    const limiter window(store, "window", fixed_window{.limit = 2, .window = 240h}, together);
    for (int i = 0; i < 2; ++i) {
      BOOST_TEST(answer([&](auto h) { acquire_all(bucket.on("a"), window.on("a"), h); }).allowed);
    }
    cancellable_crowd waiting;
    acquire_all(bucket.on("a"), window.on("a"), joint_acquire_options{.max_wait = 31 * 24h},
                waiting.caller());
    const auto idle_in = [&] { return answer([&](auto h) { bucket.fetch("a", h); }).reset_after; };
    BOOST_TEST((idle_in() > 240h));
    waiting.cancel_all();
    run_until_complete(io, waiting.c);
    BOOST_TEST((idle_in() <= 240h));
  });
}

BOOST_AUTO_TEST_CASE(cancelled_with_the_answer_under_way_it_is_given_back) {
  const weir::store store = open(false);
  const limiter l(store, "r", one_a_day);
  BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
  server.pause();
  cancellable_crowd waiting;
  l.acquire("a", patiently, waiting.caller());
  while (io.poll() > 0) {
  }
  waiting.cancel_all();
  run_until_complete(io, waiting.c);
  BOOST_TEST((waiting.c[0].ec == asio::error::operation_aborted));
  server.resume();
  // The give-back is sent when the answer has come, and once more if its script has to be loaded
  // first.
  decision after;
  do {
    after = answer([&](auto h) { l.fetch("a", h); });
  } while (after.retry_after > 24h);
  BOOST_TEST(!after.allowed);
}

BOOST_AUTO_TEST_CASE(for_some_limiters_nobody_can_wait) {
  on_both([&](const weir::store& store) {
    const sliding_window counting{.limit = 5, .window = 1s, .count_refused = true};
    const limiter_options together{.group = "g"};
    const limiter counts(store, "counts", counting, together);
    const limiter buckets(store, "buckets", one_a_day, together);
    crowd c;
    acquire_all(counts.on("a"), buckets.on("a"), c.caller());
    acquire_all(buckets.on("a"), counts.on("a"), c.caller());
    counts.acquire("a", c.caller());
    limiter(store, "r", fixed_window{.limit = 5, .window = 1s, .count_refused = true})
        .acquire("a", c.caller());
    run_until_complete(io, c);
    for (const outcome& o : c) WEIR_TEST_ERROR(o.ec, error::cannot_wait);
  });
}

BOOST_AUTO_TEST_CASE(a_context_may_end_while_a_waiter_sleeps) {
  for (const bool in_memory : {true, false}) {
    asio::io_context ends;
    const weir::store store = in_memory
                                  ? make_memory_store(ends.get_executor())
                                  : make_redis_store(ends.get_executor(), patient_options(server));
    const limiter l(store, "ends", one_a_day);
    crowd c;
    l.acquire("a", c.caller());
    l.acquire("a", patiently, c.caller());
    l.fetch("a", c.caller());
    run_until(ends, [&] { return c.answered() == 2; });
    BOOST_TEST(c[1].times == 0);
  }
}

BOOST_AUTO_TEST_CASE(several_limiters_are_waited_for_at_once) {
  on_both([&](const weir::store& store) {
    const limiter_options together{.group = "g"};
    const limiter total(store, "total", fixed_window{.limit = 100, .window = 24h}, together);
    const limiter each(store, "each", token_bucket{.capacity = 1, .refill = {1, 10ms}}, together);
    open_send_window(io, store);
    crowd c;
    for (int i = 0; i < 5; ++i) {
      acquire_all(total.on("all"), each.on("a"), c.caller());
    }
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 5u);
    for (std::size_t i = 1; i < 5; ++i)
      BOOST_TEST((reserved_time_of(c[i].d) - reserved_time_of(c[0].d) == 10ms * i));
    // The total refuses, and the other has reserved nothing.
    const decision d = answer([&](auto h) {
      acquire_all(total.on("all", 96), each.on("b"), joint_acquire_options{.max_wait = 1h}, h);
    });
    BOOST_TEST(!d.allowed);
    BOOST_TEST((answer([&](auto h) { each.acquire("b", h); }).delay == 0s));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace acquire_test

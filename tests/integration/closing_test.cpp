// store::close(): it ends the waiting of all, gives their turns back, and lets run() return.
#include <atomic>
#include <thread>

#include "acquire_queue_fixture.hpp"
#include "support/leases.hpp"

namespace weir::test::waiting::closing_test {

constexpr fixed_window five_an_hour{.limit = 5, .window = 1h};

struct closing_fixture : fixture {
  /// A day's token, in use; then so many waiters that sleep.
  limiter with_sleepers(const store& s, crowd& c, int sleepers, limiter_options options = {}) {
    const limiter l(s, "r", one_a_day, options);
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    for (int i = 0; i < sleepers; ++i) l.acquire("a", patiently, c.caller());
    settle(l);
    BOOST_TEST(c.answered() == 0u);
    return l;
  }

  /// At the server: nothing but the one that passed is reserved.
  void nothing_is_booked() {
    crowd c;
    {
      const limiter l(open(false), "r", one_a_day);
      l.fetch("a", c.caller());
      run_until_complete(io, c);
    }
    BOOST_TEST(c[0].d.used == 1);
    BOOST_TEST((c[0].d.reset_after <= 24h));
    BOOST_TEST((c[0].d.reset_after > 23h));
    run_out(io);
  }

  store impatient() {
    redis_options o = patient_options(server);
    o.timeout = 100ms;
    return make_redis_store(io.get_executor(), o);
  }
};

BOOST_FIXTURE_TEST_SUITE(closing_suite, closing_fixture)

BOOST_AUTO_TEST_CASE(sleepers_are_told_of_the_close_and_their_reservations_go_back) {
  for (const bool in_memory : {true, false}) {
    crowd c;
    store s = open(in_memory);
    with_sleepers(s, c, 5);
    s.close();
    run_out(io);
    BOOST_TEST(c.failed(error::store_closed) == 5u);
    for (const outcome& o : c) BOOST_TEST(o.times == 1);
    if (!in_memory) nothing_is_booked();
  }
}

// When what cancelled waiters held went back before the last answers had come, it stayed counted.
BOOST_AUTO_TEST_CASE(a_close_with_answers_on_the_way_leaves_nothing_counted) {
  for (int moment = 0; moment < 20; ++moment) {
    const std::string name = "r" + std::to_string(moment);
    store s = open(false);
    const limiter l(s, name, one_a_day);
    BOOST_TEST(answer([&](auto h) { l.record("a", h); }).allowed);
    cancellable_crowd waiting;
    for (int i = 0; i < 25; ++i) l.acquire("a", patiently, waiting.caller());
    io.restart();
    for (int i = 0; i < moment; ++i) io.poll_one();
    for (std::size_t i = 0; i < 25; i += 2) waiting.cancel(i);
    s.close();
    run_out(io);
    BOOST_TEST(waiting.c.answered() == 25u);
    const limiter again(open(false), name, one_a_day);
    const decision left = answer([&](auto h) { again.fetch("a", h); });
    BOOST_TEST((left.reset_after <= 24h), "after " << moment << " handlers: " << to_string(left));
  }
}

BOOST_AUTO_TEST_CASE(sleepers_of_several_limiters_are_told_of_the_close) {
  for (const bool in_memory : {true, false}) {
    crowd c;
    store s = open(in_memory);
    const limiter l(s, "r", five_an_hour, {.group = "g"}),
        other(s, "s", five_an_hour, {.group = "g"});
    const auto acquire = [&](std::int64_t cost, auto handler) {
      weir::acquire_all(l.on("a", cost), other.on("a", cost),
                        joint_acquire_options{.max_wait = patiently.max_wait}, handler);
    };
    BOOST_TEST(answer([&](auto h) { acquire(5, h); }).allowed);
    for (int i = 0; i < 5; ++i) acquire(1, c.caller());
    settle(l);
    s.close();
    run_out(io);
    BOOST_TEST(c.failed(error::store_closed) == 5u);
    if (in_memory) continue;
    const limiter again(open(false), "r", five_an_hour, {.group = "g"});
    const decision left = answer([&](auto h) { again.fetch("a", h); });
    BOOST_TEST(left.reset_after.count() <= std::chrono::microseconds(1h).count());
  }
}

BOOST_AUTO_TEST_CASE(watchers_of_leases_are_told_of_the_close) {
  on_both([&](store s) {
    const concurrency_limiter gate(s, "gate", {.limit = 5, .lease_duration = 1h});
    lease held = enter(io, gate, "a");
    const loss before(held);
    s.close();
    run_out(io);
    WEIR_TEST_ERROR(before.ec(), error::store_closed);
    BOOST_TEST(held.is_held());  // it is not renewed, but it has not lapsed yet
    const loss after(held);
    run_out(io);
    WEIR_TEST_ERROR(after.ec(), error::store_closed);
    held.release();
    run_out(io);
    BOOST_TEST(!held.is_held());
  });
}

// It was looked after all the same, and run() went on until a renewal was due, or the lease had
// lapsed.
BOOST_AUTO_TEST_CASE(a_lease_that_comes_after_the_close_is_not_looked_after) {
  for (const bool in_memory : {true, false}) {
    lease late;
    // Both answers come at once, as a rule: the lease is on its way to its caller at the close.
    for (int i = 0; !late.is_held(); ++i) {
      BOOST_TEST_REQUIRE(i < 100);
      store s = open(in_memory);
      weir::test::open_send_window(io, s);
      const std::string name = std::to_string(i);
      const limiter l(s, "r" + name, five_an_hour);
      const concurrency_limiter gate(s, "gate" + name, {.limit = 5, .lease_duration = 1h});
      l.record("a", [&](error_code, decision) { s.close(); });
      gate.enter("a", [&](error_code, lease got) { late = std::move(got); });
      run_out(io);
    }
    const loss of_late(late);
    run_out(io);
    WEIR_TEST_ERROR(of_late.ec(), error::store_closed);
  }
}

BOOST_AUTO_TEST_CASE(a_place_given_back_right_before_the_close_is_free) {
  {
    store s = open(false);
    lease held = enter(io, concurrency_limiter(s, "gate", {.limit = 1, .lease_duration = 1h}), "a");
    held.release();
    s.close();
    run_out(io);
  }
  const concurrency_limiter gate(open(false), "gate", {.limit = 1, .lease_duration = 1h});
  BOOST_TEST(fetch(io, gate, "a").used == 0);
}

BOOST_AUTO_TEST_CASE(reservations_cancelled_right_before_the_close_go_back) {
  {
    store s = open(false);
    cancellable_crowd c;
    const limiter l(s, "r", one_a_day);
    BOOST_TEST(answer([&](auto h) { l.acquire("a", h); }).allowed);
    for (int i = 0; i < 3; ++i) l.acquire("a", patiently, c.caller());
    settle(l);
    for (std::size_t i = 0; i < 3; ++i) c.cancel(i);
    s.close();
    run_out(io);
    for (const outcome& o : c.c) WEIR_TEST_ERROR(o.ec, aborted);
  }
  nothing_is_booked();
}

// Whether their turns are reserved, the answers tell, which come after the close.
BOOST_AUTO_TEST_CASE(reservations_on_their_way_from_the_store_go_back) {
  for (const bool several : {false, true}) {
    client.must("FLUSHALL");
    crowd c;
    store s = open(false);
    const limiter l = with_sleepers(s, c, 1);
    weir::test::open_send_window(io, s);
    server.pause();
    for (int i = 0; i < 5; ++i) {
      if (several) {
        const claim one[] = {l.on("a")};
        weir::acquire_all(one, {.max_wait = patiently.max_wait}, c.caller());
      } else {
        l.acquire("a", patiently, c.caller());
      }
    }
    while (io.poll() != 0) {
    }
    s.close();
    while (io.poll() != 0) {
    }
    BOOST_TEST(c.answered() == 0u);
    server.resume();
    run_out(io);
    BOOST_TEST(c.failed(error::store_closed) == 6u);
    nothing_is_booked();
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_confirmed_within_the_timeout_may_still_be_booked) {
  for (const bool is_gone : {false, true}) {
    crowd c;
    store s = impatient();
    // Its own deadlines are far: of time only the close is to hear.
    const limiter l(s, "r", one_a_day);
    const acquire_options far{.max_wait = patiently.max_wait, .timeout = 50s};
    BOOST_TEST(answer([&](auto h) { l.acquire("a", far, h); }).allowed);
    for (int i = 0; i < 5; ++i) l.acquire("a", far, c.caller());
    answer([&](auto h) { l.fetch("a", {.timeout = 50s}, h); });
    is_gone ? server.kill() : server.pause();
    s.close();
    run_out(io);
    BOOST_TEST(c.failed(error::outcome_unknown) == 5u);
    is_gone ? server.restart() : server.resume();
    redis_client(server).must("FLUSHALL");
  }
}

BOOST_AUTO_TEST_CASE(answers_that_never_come_are_waited_for_until_the_timeout_only) {
  crowd c;
  store s = impatient();
  const limiter l(s, "r", one_a_day);
  const acquire_options far{.max_wait = patiently.max_wait, .timeout = 50s};
  BOOST_TEST(answer([&](auto h) { l.acquire("a", far, h); }).allowed);
  server.pause();
  l.acquire("a", far, c.caller());
  const claim one[] = {l.on("a")};
  weir::acquire_all(one, {.max_wait = far.max_wait, .timeout = 50s}, c.caller());
  while (io.poll() != 0) {
  }
  s.close();
  run_out(io);
  BOOST_TEST(c.failed(error::outcome_unknown) == 2u);
  server.resume();
}

BOOST_AUTO_TEST_CASE(waiters_whose_time_has_come_are_not_disturbed) {
  on_both([&](store s) {
    const limiter l(s, "r", one_a_day);
    crowd c;
    l.acquire("a", [&, h = c.caller()](error_code ec, decision d) mutable {
      s.close();
      h(ec, d);
    });
    run_out(io);
    BOOST_TEST(c.allowed() == 1u);
  });
}

BOOST_AUTO_TEST_CASE(threads_that_wait_are_all_told_of_the_close_once) {
  for (const bool in_memory : {true, false}) {
    for (int round = 0; round < 10; ++round) {
      asio::thread_pool pool(2);
      store s = in_memory ? make_memory_store(pool.get_executor())
                          : make_redis_store(pool.get_executor(), patient_options(server));
      const limiter l(s, "r" + std::to_string(round),
                      token_bucket{.capacity = 5, .refill = per_day(1)}, {.group = "g"});
      const limiter m(s, "s" + std::to_string(round),
                      token_bucket{.capacity = 5, .refill = per_day(1)}, {.group = "g"});
      constexpr int calls = 200;
      std::atomic<int> told{0}, allowed{0}, odd{0};
      const auto heard = [&](error_code ec, const decision& d) {
        ++told;
        if (!ec && d.allowed) ++allowed;
        // No reservation lies beyond `patiently`.
        if (ec && ec != error::store_closed && ec != error::outcome_unknown) ++odd;
      };
      std::thread closer([&] {
        while (told.load() == 0) std::this_thread::yield();
        s.close();
      });
      for (int i = 0; i < calls; ++i) {
        l.acquire("a", patiently, heard);
        weir::acquire_all(l.on("b"), m.on("b"),
                          joint_acquire_options{.max_wait = patiently.max_wait}, heard);
      }
      closer.join();
      pool.join();  // run() returns
      BOOST_TEST(told == 2 * calls);
      BOOST_TEST(allowed <= 10);
      BOOST_TEST(odd == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace weir::test::waiting::closing_test

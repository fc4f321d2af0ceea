// How long a lease is held, and how its holder is told of its loss.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>

#include "memory_gate.hpp"

namespace lease_loss_test {

using namespace weir;
using namespace weir::test;
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> forever() {
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  co_await timer.async_wait(asio::deferred);
}

/// A signal, and how often it was emitted.
struct counted_signal : asio::cancellation_signal {
  counted_signal() {
    slot().assign([this](asio::cancellation_type) { ++emitted; });
  }
  int emitted = 0;
};

BOOST_FIXTURE_TEST_SUITE(lease_loss_suite, memory_gate)

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_as_long_as_it_is_held) {
  const auto g = gate(1, 900ms);
  const lease l = enter(g);
  for (int i = 0; i < 3; ++i) {
    // The store's clock stands still but for this: only a renewal makes the end later again.
    now += 800ms;
    run_until(io, [&] { return fetch(io, g, "a").reset_after == 900ms; });
  }
  BOOST_TEST(l.is_held());
}

// A memory store answers a renewal inside the call that asks it. While one was answered, the next
// lease was due, and its renewal was called inside; with 60,000 leases, the stack overflowed.
BOOST_AUTO_TEST_CASE(a_slow_renewal_does_not_call_the_next_one) {
  bool is_renewing = false;
  std::size_t renewals = 0;
  std::uintptr_t lowest = UINTPTR_MAX, highest = 0;  // addresses on the stack
  const auto slow_clock = [&] {
    const auto end = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < end) {
    }
    if (is_renewing) {
      const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
      lowest = std::min(lowest, here);
      highest = std::max(highest, here);
      ++renewals;
    }
    return time_point(now);
  };
  const weir::store slow = make_memory_store(io.get_executor(), {.clock = slow_clock});
  const concurrency_limiter g(slow, "gate", {.limit = 40, .lease_duration = 300ms});
  std::vector<lease> held;
  for (int i = 0; i < 40; ++i) held.push_back(weir::test::enter(io, g, "a"));
  is_renewing = true;
  run_until(io, [&] { return renewals >= 80; });
  BOOST_TEST(highest - lowest < 4096u);
}

BOOST_AUTO_TEST_CASE(a_lease_that_the_store_does_not_know_any_more_is_lost) {
  const auto g = gate(1, 100ms);
  lease l = enter(g);
  const loss first(l), second(l);
  BOOST_TEST(!first.told());
  now += 1h;
  first.await(io);
  second.await(io);
  WEIR_TEST_ERROR(first.ec(), error_code());
  WEIR_TEST_ERROR(second.ec(), error_code());
  BOOST_TEST((l.allowed() && !l.is_held()));
  const loss late(l);
  BOOST_TEST(!late.told());  // not inside the call
  late.await(io);
  WEIR_TEST_ERROR(late.ec(), error_code());
  l.release();
  const loss after(l);
  after.await(io);
  WEIR_TEST_ERROR(after.ec(), asio::error::operation_aborted);
  run_out(io);
}

// The timer stayed set to the end of the lease, and run() went on until then.
BOOST_AUTO_TEST_CASE(run_returns_when_a_lost_lease_is_given_back) {
  const auto g = gate(1, 1500ms);
  lease l = enter(g);
  const loss lost(l);
  now += 1h;
  lost.await(io);
  l.release();
  io.restart();
  io.poll();
  BOOST_TEST(io.stopped());
}

// It lapsed, and another lease is in: giving it back frees no other.
BOOST_AUTO_TEST_CASE(a_lapsed_lease_gives_back_nothing) {
  const auto g = gate(1, 1h);
  lease l = enter(g);
  now += 2h;
  const lease next = enter(g);
  BOOST_TEST(next.allowed());
  l.release();
  BOOST_TEST(inside(g) == 1);
}

// A process that was stopped asks before any of its timers has had its turn: nothing runs here
// meanwhile.
BOOST_AUTO_TEST_CASE(a_lease_whose_time_has_passed_is_not_held_even_if_nothing_has_said_so) {
  const auto g = gate(1, 100ms);
  const lease l = enter(g);
  BOOST_TEST(l.is_held());
  const auto begin = std::chrono::steady_clock::now();
  while (l.is_held() && std::chrono::steady_clock::now() - begin < watchdog) {
  }
  BOOST_TEST(!l.is_held());
}

BOOST_AUTO_TEST_CASE(waiting_for_the_loss_can_be_cancelled) {
  const auto g = gate(1);
  const lease l = enter(g);
  asio::cancellation_signal signal;
  error_code told;
  bool done = false;
  l.lost(asio::bind_cancellation_slot(signal.slot(), [&](error_code ec) {
    told = ec;
    done = true;
  }));
  signal.emit(asio::cancellation_type::total);
  BOOST_TEST(!done);
  run_until(io, [&] { return done; });
  WEIR_TEST_ERROR(told, asio::error::operation_aborted);
  BOOST_TEST(l.is_held());
}

BOOST_AUTO_TEST_CASE(without_a_place_there_is_nothing_to_lose) {
  const auto g = gate(1);
  const lease l = enter(g), refused = enter(g);
  asio::cancellation_signal signal;
  lease none;
  BOOST_CHECK_THROW(refused.lost(asio::detached), std::logic_error);
  BOOST_CHECK_THROW(none.cancel_when_lost(signal, io.get_executor()), std::logic_error);
  none.release();
}

BOOST_AUTO_TEST_CASE(the_holder_is_told_through_its_cancellation_slot) {
  const auto g = gate(1, 100ms);
  asio::cancellation_signal signal;
  lease l = enter(g);
  l.cancel_when_lost(signal, io.get_executor());
  std::exception_ptr ended;
  bool done = false;
  asio::co_spawn(io, forever(),
                 asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) {
                   ended = e;
                   done = true;
                 }));
  io.restart();
  io.poll();
  BOOST_TEST(!done);
  now += 1h;
  run_until(io, [&] { return done; });
  WEIR_TEST_ERROR(error_of([&] { std::rethrow_exception(ended); }), asio::error::operation_aborted);
}

// Each call added a wait for the loss, which ended with the lease: if the executor was the same,
// and later only if each was another one, such as a strand for each work.
BOOST_AUTO_TEST_CASE(a_lease_waits_for_its_loss_once_however_often_it_is_to_tell) {
  for (const bool has_strands : {false, true}) {
    for (const bool is_lost : {false, true}) {
      const auto g = gate(1, 100ms);
      asio::io_context elsewhere;
      const auto executor = [&]() -> asio::any_io_executor {
        if (has_strands) return asio::make_strand(elsewhere);
        return elsewhere.get_executor();
      };
      std::array<counted_signal, 2> signals;
      const auto emitted = [&] { return std::array{signals[0].emitted, signals[1].emitted}; };
      lease l = enter(g);
      for (int i = 0; i < 100; ++i) {
        for (auto& signal : signals) l.cancel_when_lost(signal, executor());
      }
      BOOST_TEST(elsewhere.poll() == 0u);
      BOOST_TEST(!elsewhere.stopped());
      if (!is_lost) {
        l.release();
        run_out(io);
        BOOST_TEST(elsewhere.poll() == 0u);
        BOOST_TEST(elsewhere.stopped());
        BOOST_TEST((emitted() == std::array{0, 0}));
        continue;
      }
      now += 1h;
      std::size_t ended = 0;
      run_until(io, [&] { return (ended = elsewhere.poll()) > 0; });
      BOOST_TEST(ended == 1u);
      BOOST_TEST(elsewhere.stopped());
      BOOST_TEST((emitted() == std::array{0, 1}));
      // It is lost already: that is told at once, and once.
      elsewhere.restart();
      l.cancel_when_lost(signals[0], executor());
      BOOST_TEST((emitted() == std::array{0, 1}));  // not inside the call
      BOOST_TEST(elsewhere.poll() == 1u);
      BOOST_TEST((emitted() == std::array{1, 1}));
    }
  }
}

// The wait for the loss stayed on the first executor: run() of its context did not return, and the
// loss was told to a destroyed context.
BOOST_AUTO_TEST_CASE(a_signal_that_has_moved_leaves_the_context_where_it_was) {
  auto first = std::make_unique<asio::io_context>();
  const auto g = gate(1, 100ms);
  counted_signal signal;
  lease l = enter(g);
  l.cancel_when_lost(signal, first->get_executor());
  l.cancel_when_lost(signal, io.get_executor());
  first->poll();
  BOOST_TEST_REQUIRE(first->stopped());
  first.reset();
  now += 1h;
  run_until(io, [&] { return signal.emitted > 0; });
  l.release();
  run_out(io);
  BOOST_TEST(signal.emitted == 1);
}

BOOST_AUTO_TEST_CASE(a_loss_on_its_way_is_told_to_the_last_signal_only) {
  asio::io_context elsewhere;
  for (asio::io_context* const to : {&elsewhere, &io}) {
    const auto g = gate(1, 100ms);
    std::array<counted_signal, 2> signals;
    lease l = enter(g);
    l.cancel_when_lost(signals[0], elsewhere.get_executor());
    now += 1h;
    run_until(io, [&] { return !l.is_held(); });
    l.cancel_when_lost(signals[1], to->get_executor());
    elsewhere.restart();
    run_until(io, [&] { return elsewhere.poll(), signals[1].emitted > 0; });
    l.release();
    run_out(io);
    BOOST_TEST(elsewhere.stopped());
    BOOST_TEST((signals[0].emitted == 0 && signals[1].emitted == 1));
  }
}

BOOST_AUTO_TEST_CASE(a_closed_store_lets_go_of_the_executor_of_a_signal) {
  const auto g = gate(1);
  asio::io_context elsewhere;
  counted_signal signal;
  const lease held = [&] {
    lease l = enter(g);
    l.cancel_when_lost(signal, elsewhere.get_executor());
    return l;
  }();
  store.close();
  elsewhere.poll();
  BOOST_TEST(elsewhere.stopped());
  BOOST_TEST(signal.emitted == 0);
}

// A strand uses its context when it is destroyed, and the lease kept the strand.
BOOST_AUTO_TEST_CASE(a_lease_that_outlives_the_context_keeps_no_strand_of_it) {
  asio::cancellation_signal signal;
  lease l;
  {
    asio::io_context context;
    const auto own = make_memory_store(context.get_executor());
    const concurrency_limiter g(own, "gate", {.limit = 1});
    l = weir::test::enter(context, g, "a");
    l.cancel_when_lost(signal, asio::make_strand(context));
  }
  l.release();
}

BOOST_AUTO_TEST_CASE(a_released_lease_reports_no_loss) {
  const auto g = gate(1, 100ms);
  auto signal = std::make_unique<asio::cancellation_signal>();
  lease l = enter(g);
  l.cancel_when_lost(*signal, io.get_executor());
  const loss watched(l);
  now += 1h;
  // The loss is known; what would emit the signal is on its way.
  run_until(io, [&] { return !l.is_held(); });
  l.release();
  signal.reset();
  run_out(io);
  WEIR_TEST_ERROR(watched.ec(), error_code());
}

BOOST_AUTO_TEST_CASE(in_coroutines) {
  run(io, [&]() -> asio::awaitable<void> {
    const auto g = gate(1, 2s);
    {
      lease l = co_await g.enter("a");
      BOOST_TEST(l.is_held());
      if (co_await g.enter("a")) BOOST_ERROR("two are in");
      BOOST_TEST((co_await g.enter("a", {.timeout = 1s})).decision().used == 1);
      auto [ec, other] = co_await g.enter("b", asio::as_tuple(asio::deferred));
      BOOST_TEST(!ec.failed());
      BOOST_TEST(other.is_held());
      lease again = std::move(other);
      BOOST_TEST(again.is_held());
    }
    lease l = co_await g.enter("a");
    BOOST_TEST(l.is_held());
    now += 1h;
    const auto first = co_await (forever() || l.lost(asio::use_awaitable));
    BOOST_TEST(first.index() == 1u);
  });
}

// operator|| would go on to wait for the loss: this is how work that throws is raced against it.
BOOST_AUTO_TEST_CASE(work_that_fails_ends_the_race_with_its_loss) {
  const auto fail = []() -> asio::awaitable<int> {
    co_await asio::post(co_await asio::this_coro::executor, asio::deferred);
    throw std::runtime_error("the work");
  };
  const auto g = gate(1);
  run(io, [&]() -> asio::awaitable<void> {
    const lease place = co_await g.enter("a");
    auto executor = co_await asio::this_coro::executor;
    auto race = asio::experimental::make_parallel_group(
        asio::co_spawn(executor, fail(), asio::deferred), place.lost());
    auto [order, failure, result, loss] = co_await std::move(race).async_wait(
        asio::experimental::wait_for_one(), asio::deferred);
    BOOST_TEST(order[0] == 0u);
    BOOST_TEST((failure != nullptr));
    WEIR_TEST_ERROR(loss, asio::error::operation_aborted);
    BOOST_TEST(place.is_held());
  });
}

BOOST_AUTO_TEST_CASE(in_coroutines_with_a_signal) {
  const auto g = gate(1, 100ms);
  run(io, [&]() -> asio::awaitable<void> {
    asio::cancellation_signal stop;
    lease place = co_await g.enter("a");
    auto executor = co_await asio::this_coro::executor;
    place.cancel_when_lost(stop, executor);
    now += 1h;
    const auto [e] = co_await asio::co_spawn(
        executor, forever(),
        asio::bind_cancellation_slot(stop.slot(), asio::as_tuple(asio::use_awaitable)));
    BOOST_TEST((e != nullptr));
    BOOST_TEST(!place.is_held());
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lease_loss_test

// The gate on a store in this process: which calls get in, what becomes of a lease, and which
// caller hears of its loss.
#include "weir/concurrency_limiter.hpp"

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <future>

#include "support/leases.hpp"
#include "weir/memory_store.hpp"

namespace concurrency_limiter_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using weir::concurrency_limiter;
using weir::decision;
using weir::error;
using weir::error_code;
using weir::lease;
using weir::test::error_of;
using weir::test::loss;
using weir::test::run_out;

struct fixture {
  asio::io_context io;
  std::chrono::microseconds now = 1'000'000s;  // the store's; the renewals go by the real clock
  weir::store store = weir::make_memory_store(
      io.get_executor(), {.max_subjects = 2, .clock = [this] { return weir::time_point(now); }});

  concurrency_limiter gate(std::int64_t limit, std::chrono::microseconds length = 1h) {
    return {store, "gate", {.limit = limit, .lease_duration = length, .group = "g"}};
  }
  lease enter(const concurrency_limiter& g, std::string_view subject = "a") {
    return weir::test::enter(io, g, subject);
  }
  std::int64_t inside(const concurrency_limiter& g, std::string_view subject = "a") {
    return weir::test::fetch(io, g, subject).used;
  }
};

asio::awaitable<void> forever() {
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  co_await timer.async_wait(asio::deferred);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(concurrency_limiter_suite, fixture)

BOOST_AUTO_TEST_CASE(options_have_bounds) {
  const auto with = [&](std::int64_t limit, std::chrono::microseconds length) {
    return error_of(
        [&] { concurrency_limiter(store, "g", {.limit = limit, .lease_duration = length}); });
  };
  WEIR_TEST_ERROR(with(0, 1s), error::invalid_policy);
  WEIR_TEST_ERROR(with(100'001, 1s), error::invalid_policy);
  WEIR_TEST_ERROR(with(1, 99'999us), error::invalid_policy);
  WEIR_TEST_ERROR(with(1, 24h + 1us), error::invalid_policy);
  WEIR_TEST_ERROR(with(100'000, 24h), error_code());
  WEIR_TEST_ERROR(with(1, 100ms), error_code());
  WEIR_TEST_ERROR(error_of([&] { concurrency_limiter(store, "", {}); }), error::invalid_resource);
  error_code ec;
  BOOST_TEST(!weir::test::enter(io, gate(1), "", ec));
  WEIR_TEST_ERROR(ec, error::invalid_subject);
}

BOOST_AUTO_TEST_CASE(so_many_get_in_and_no_more) {
  const auto g = gate(2), same = gate(2);
  lease first = enter(g), second = enter(same);
  BOOST_TEST((first && second && first.is_held()));
  BOOST_TEST(second.decision().used == 2);
  now += 1min;
  const lease third = enter(g);
  BOOST_TEST((!third && !third.allowed() && !third.is_held()));
  BOOST_TEST(third.decision().used == 2);
  BOOST_TEST(third.decision().limit == 2);
  BOOST_TEST((third.decision().retry_after == 59min));
  BOOST_TEST(enter(g, "b").allowed());
  first.release();
  BOOST_TEST(!first.is_held());
  BOOST_TEST(inside(g) == 1);
  BOOST_TEST(enter(same).allowed());
}

BOOST_AUTO_TEST_CASE(a_place_is_given_back_once) {
  const auto g = gate(3);
  lease a = enter(g), b = enter(g);
  a.release();
  a.release();
  BOOST_TEST(inside(g) == 1);
  lease moved(std::move(b));
  BOOST_TEST(!b.allowed());
  BOOST_TEST(moved.is_held());
  b.release();
  BOOST_TEST(inside(g) == 1);
  lease other = enter(g);
  BOOST_TEST(inside(g) == 2);
  other = std::move(moved);  // its own place is given back
  BOOST_TEST(inside(g) == 1);
  BOOST_TEST(other.is_held());
  lease& itself = other;
  other = std::move(itself);
  BOOST_TEST(inside(g) == 1);
  other = lease();
  BOOST_TEST(inside(g) == 0);
}

// With the last lease goes what keeps run() busy.
BOOST_AUTO_TEST_CASE(run_returns_when_the_last_lease_is_given_back) {
  const auto g = gate(3);
  lease a = enter(g), b = enter(g);
  const loss watched(b);
  io.restart();
  BOOST_TEST(io.poll() == 0u);
  BOOST_TEST(!io.stopped());
  a.release();
  b.release();
  run_out(io);
  WEIR_TEST_ERROR(watched.ec(), asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(a_lease_is_renewed_as_long_as_it_is_held) {
  const auto g = gate(1, 900ms);
  const lease l = enter(g);
  for (int i = 0; i < 3; ++i) {
    // The store's clock stands still but for this: only a renewal makes the end later again.
    now += 800ms;
    weir::test::run_until(io, [&] { return weir::test::fetch(io, g, "a").reset_after == 900ms; });
  }
  BOOST_TEST(l.is_held());
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
  while (l.is_held() && std::chrono::steady_clock::now() - begin < weir::test::watchdog) {
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
  weir::test::run_until(io, [&] { return done; });
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
  weir::test::run_until(io, [&] { return done; });
  WEIR_TEST_ERROR(error_of([&] { std::rethrow_exception(ended); }), asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(a_released_lease_reports_no_loss) {
  const auto g = gate(1, 100ms);
  auto signal = std::make_unique<asio::cancellation_signal>();
  lease l = enter(g);
  l.cancel_when_lost(*signal, io.get_executor());
  const loss watched(l);
  now += 1h;
  // The loss is known; what would emit the signal is on its way.
  weir::test::run_until(io, [&] { return !l.is_held(); });
  l.release();
  signal.reset();
  run_out(io);
  WEIR_TEST_ERROR(watched.ec(), error_code());
}

BOOST_AUTO_TEST_CASE(in_coroutines) {
  weir::test::run(io, [&]() -> asio::awaitable<void> {
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
  weir::test::run(io, [&]() -> asio::awaitable<void> {
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
  weir::test::run(io, [&]() -> asio::awaitable<void> {
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

BOOST_AUTO_TEST_CASE(a_context_that_ends_takes_everything_along) {
  auto own = std::make_unique<asio::io_context>();
  auto s = weir::make_memory_store(own->get_executor());
  std::optional<concurrency_limiter> g({s, "gate", {.limit = 10}});
  for (int i = 0; i < 3; ++i) {
    asio::co_spawn(
        *own,
        [g = *g]() -> asio::awaitable<void> {
          lease l = co_await g.enter("a");
          co_await l.lost();
        },
        asio::detached);
  }
  // Handlers that own their lease.
  g->enter("a", [](error_code, lease l) {
    auto kept = std::make_shared<lease>(std::move(l));
    kept->lost([kept](error_code) {});
  });
  while (own->poll() != 0) {
  }
  g->enter("a", [](error_code, lease) {});  // its answer is never heard
  g.reset();
  own.reset();
}

BOOST_AUTO_TEST_CASE(together_with_limiters_it_is_all_or_nothing) {
  const auto g = gate(2);
  const weir::limiter rate(store, "rate", weir::fixed_window{.limit = 3, .window = 24h},
                           {.group = "g"});
  const weir::limiter stranger(store, "rate", weir::fixed_window{.limit = 3, .window = 24h});
  const auto used = [&] {
    weir::test::crowd c;
    rate.fetch("a", c.caller());
    weir::test::run_until_complete(io, c);
    return c[0].d.used;
  };
  weir::test::run(io, [&]() -> asio::awaitable<void> {
    lease one = co_await g.enter("a", rate.on("a"));
    BOOST_TEST(one.is_held());
    lease two = co_await g.enter("a", rate.on("a", 1));
    BOOST_TEST(two.is_held());
    const lease full = co_await g.enter("a", rate.on("a"));
    BOOST_TEST(!full);
    BOOST_TEST(full.decision().tier == 0);
    BOOST_TEST((full.decision().retry_after == 1h));
    two.release();
    const std::array both{rate.on("a", 2)};
    const lease dear = co_await g.enter("a", both);
    BOOST_TEST(!dear);
    BOOST_TEST(dear.decision().tier == 1);
    const lease last = co_await g.enter("a", std::span<const weir::claim>(), {.timeout = 1s});
    BOOST_TEST(last.is_held());
    const auto [ec, none] = co_await g.enter("a", stranger.on("a"), {},
                                             asio::as_tuple(asio::deferred));
    WEIR_TEST_ERROR(ec, error::cannot_combine);
    BOOST_TEST(!none);
  });
  BOOST_TEST(used() == 2);
  BOOST_TEST(inside(g) == 0);
}

// A full store is no reason to forget which leases are in.
BOOST_AUTO_TEST_CASE(a_full_store_says_so) {
  const auto g = gate(2);
  const lease a = enter(g, "a");
  lease b = enter(g, "b");
  error_code ec;
  BOOST_TEST(!weir::test::enter(io, g, "c", ec));
  WEIR_TEST_ERROR(ec, error::store_full);
  BOOST_TEST(inside(g, "a") == 1);
  b.release();
  now += 1s;
  BOOST_TEST(enter(g, "c").allowed());
}

BOOST_AUTO_TEST_CASE(a_closed_store_lets_nobody_in_and_nobody_renew) {
  const auto g = gate(2, 100ms);
  const lease l = enter(g);
  const loss watched(l);
  store.close();
  error_code ec;
  BOOST_TEST(!weir::test::enter(io, g, "a", ec));
  WEIR_TEST_ERROR(ec, error::store_closed);
  watched.await(io);
  WEIR_TEST_ERROR(watched.ec(), error::store_closed);
}

BOOST_AUTO_TEST_CASE(threads_may_share_a_gate) {
  asio::thread_pool pool(4);
  const auto s = weir::make_memory_store(pool.get_executor());
  const concurrency_limiter g(s, "gate", {.limit = 3});
  std::atomic<int> in{0}, most{0}, entered{0}, refused{0};
  std::vector<std::future<void>> all;
  for (int i = 0; i < 16; ++i) {
    all.push_back(asio::co_spawn(
        pool,
        [&]() -> asio::awaitable<void> {
          for (int n = 0; n < 300; ++n) {
            lease l = co_await g.enter("a");
            if (!l) {
              ++refused;
              continue;
            }
            ++entered;
            const int here = ++in;
            for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
            }
            l.lost(asio::detached);
            co_await asio::post(pool, asio::deferred);
            --in;
            l.release();
          }
        },
        asio::use_future));
  }
  for (auto& f : all) f.get();
  pool.join();
  BOOST_TEST(most <= 3);
  BOOST_TEST(entered > 0);
  BOOST_TEST_MESSAGE(entered << " entered, " << refused << " refused, " << most << " at once");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace concurrency_limiter_test

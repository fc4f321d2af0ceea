// The gate on a store in this process: which calls get in, and what they give back.
#include "weir/concurrency_limiter.hpp"

#include <atomic>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <future>

#include "memory_gate.hpp"

namespace concurrency_limiter_test {

using namespace weir;
using namespace weir::test;
using namespace asio::experimental::awaitable_operators;

BOOST_FIXTURE_TEST_SUITE(concurrency_limiter_suite, memory_gate)

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

BOOST_AUTO_TEST_CASE(an_object_whose_lease_went_back_has_none) {
  lease l = enter(gate(1));
  lease other = std::move(l);
  BOOST_TEST((other && !l && !l.allowed()));
  other.release();
  BOOST_TEST((!other && other.allowed()));
  lease last = std::move(other);
  BOOST_TEST((!last && last.allowed()));
  last = enter(gate(1));
  BOOST_TEST((last && last.is_held()));
  // The answer may outlive a temporary.
  static_assert(std::is_same_v<decltype(std::declval<lease>().decision()), weir::joint_decision>);
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

BOOST_AUTO_TEST_CASE(a_context_that_ends_takes_everything_along) {
  auto own = std::make_unique<asio::io_context>();
  auto s = make_memory_store(own->get_executor());
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
  const limiter rate(store, "rate", fixed_window{.limit = 3, .window = 24h}, {.group = "g"});
  const limiter stranger(store, "rate", fixed_window{.limit = 3, .window = 24h});
  const auto used = [&] {
    crowd c;
    rate.fetch("a", c.caller());
    run_until_complete(io, c);
    return c[0].d.used;
  };
  run(io, [&]() -> asio::awaitable<void> {
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
    const lease last = co_await g.enter("a", std::span<const claim>(), {.timeout = 1s});
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
  const auto s = make_memory_store(pool.get_executor());
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

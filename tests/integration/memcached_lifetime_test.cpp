// A Memcached store and its surroundings: many threads, the end of the context, of the store and of
// its calls, in any order. The sanitizers look for what is used too late.
#include <atomic>
#include <thread>

#include "support/memcached_fixture.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

namespace memcached_lifetime_test {

using namespace weir;
using namespace weir::test;

/// Something that a handler owns.
struct witness {
  explicit witness(std::atomic<int>& alive) : alive_(&alive) { ++alive; }
  witness(const witness& other) : alive_(other.alive_) { ++*alive_; }
  ~witness() { --*alive_; }

 private:
  std::atomic<int>* alive_;
};

BOOST_FIXTURE_TEST_SUITE(memcached_lifetime_suite, memcached_fixture)

BOOST_AUTO_TEST_CASE(threads_count_together_what_one_would) {
  asio::io_context many;
  const store s = make_memcached_store(many.get_executor(), options());
  constexpr int threads = 4, calls = is_sanitized ? 300 : 1000, subjects = 5;
  constexpr std::int64_t limit = 100;
  limiter l(s, "r", fixed_window{.limit = limit, .window = 24h});
  std::atomic<int> allowed{0}, refused{0}, failed{0}, cancelled{0};
  std::vector<std::thread> pool;
  std::deque<asio::cancellation_signal> signals(threads * calls / 10);
  std::atomic<std::size_t> next_signal{0};
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      random_source random(run_seed(), 7500 + static_cast<std::uint32_t>(t));
      const auto strand = asio::make_strand(many);
      for (int i = 0; i < calls; ++i) {
        const std::string subject = "s" + std::to_string(random.between(0, subjects - 1));
        const auto told = [&](error_code ec, const decision& d) {
          ++(ec == asio::error::operation_aborted ? cancelled
             : ec                                 ? failed
             : d.allowed                          ? allowed
                                                  : refused);
        };
        if (i % 10 != 0) {
          l.record(subject, told);
          continue;
        }
        // A signal and its handler belong to one strand.
        asio::cancellation_signal& signal = signals[next_signal++];
        asio::post(strand, [&, subject, told, strand] {
          l.record(subject,
                   asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(strand, told)));
        });
        asio::post(strand, [&] { signal.emit(asio::cancellation_type::terminal); });
      }
    });
  }
  std::vector<std::thread> runners;
  const auto is_over = [&] { return allowed + refused + failed + cancelled == threads * calls; };
  auto work = std::make_optional(asio::make_work_guard(many));
  for (int t = 0; t < 2; ++t) runners.emplace_back([&] { many.run(); });
  for (std::thread& t : pool) t.join();
  const auto patience = std::chrono::steady_clock::now() + 60s;
  while (!is_over() && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  BOOST_TEST(is_over());
  std::atomic<std::int64_t> used{0};
  std::atomic<int> fetched{0};
  for (int i = 0; i < subjects; ++i) {
    l.fetch("s" + std::to_string(i), [&](error_code, const decision& d) {
      used += d.used;
      ++fetched;
    });
  }
  while (fetched < subjects && std::chrono::steady_clock::now() < patience) {
    std::this_thread::yield();
  }
  BOOST_TEST(failed == 0);
  BOOST_TEST(refused > 0);
  BOOST_TEST(used >= allowed);
  BOOST_TEST(used <= subjects * limit);
  BOOST_TEST(used <= allowed + cancelled);
  store(s).close();
  work.reset();
  for (std::thread& t : runners) t.join();
}

// With a call at each stage: the store connects, reads, writes, waits for its turn.
BOOST_AUTO_TEST_CASE(the_context_may_end_first) {
  for (int steps = 0; steps < 60; ++steps) {
    std::atomic<int> alive{0};
    std::optional<store> s;
    std::optional<limiter> l;
    {
      asio::io_context short_lived;
      s.emplace(make_memcached_store(short_lived.get_executor(), options()));
      l.emplace(*s, "r", token_bucket{.capacity = 1, .refill = per_day(1)});
      for (int i = 0; i < 3; ++i) {
        l->record("a", [w = witness(alive)](error_code, const decision&) {});
        l->acquire("a", {.max_wait = 24h * 5},
                   [w = witness(alive), keeps = *l](error_code, const decision&) {});
      }
      for (int i = 0; i < steps; ++i) short_lived.run_one_for(2ms);
    }
    BOOST_TEST(alive == 0);
    s->close();
    l.reset();
  }
}

BOOST_AUTO_TEST_CASE(the_last_handle_may_be_in_a_handler) {
  std::atomic<int> alive{0};
  {
    limiter l(make_memcached_store(io.get_executor(), options()), "r",
              fixed_window{.limit = 1, .window = 24h});
    l.record("a", [w = witness(alive), keeps = l](error_code ec, const decision& d) {
      BOOST_TEST(!ec.failed());
      BOOST_TEST(d.allowed);
    });
  }
  run_out(io);  // the store closes, and nothing keeps the context busy
  BOOST_TEST(alive == 0);
}

BOOST_AUTO_TEST_CASE(a_closing_store_gives_reservations_back) {
  memcached_options o = options();
  store s = make_memcached_store(io.get_executor(), o);
  limiter l(s, "r", token_bucket{.capacity = 1, .refill = {1, 1h}});
  BOOST_TEST(answer([&](auto handler) { l.record("a", handler); }).allowed);
  const decision before = answer([&](auto handler) { l.fetch("a", handler); });
  crowd waiting;
  l.acquire("a", {.max_wait = 24h}, waiting.caller());
  poll_until(
      [&] { return answer([&](auto handler) { l.fetch("a", handler); }).retry_after > 90min; });
  s.close();
  run_out(io);
  WEIR_TEST_ERROR(waiting[0].ec, error::store_closed);
  const store again = make_memcached_store(io.get_executor(), o);
  limiter same(again, "r", token_bucket{.capacity = 1, .refill = {1, 1h}});
  const decision after = answer([&](auto handler) { same.fetch("a", handler); });
  BOOST_TEST((after.retry_after <= before.retry_after));
}

BOOST_AUTO_TEST_CASE(a_store_without_a_server_ends_with_its_deadlines) {
  memcached_server_process gone;
  gone.kill();
  memcached_options o = gone.patient_options();
  o.timeout = 30ms;
  o.breaker_failures = 3;
  const store s = make_memcached_store(io.get_executor(), o);
  limiter l(s, "r", fixed_window{.limit = 1, .window = 24h});
  crowd first;
  for (int i = 0; i < 5; ++i) l.record("a", first.caller());
  run_until_complete(io, first);
  BOOST_TEST(first.failed(error::connection_refused) == 5u);
  const outcome later = outcome_of([&](auto handler) { l.record("a", handler); });
  WEIR_TEST_ERROR(later.ec, error::connection_refused);
  gone.restart();
  poll_until(
      [&] { return !outcome_of([&](auto handler) { l.record("a", handler); }).ec.failed(); });
}

BOOST_AUTO_TEST_CASE(too_many_calls_are_overloaded) {
  memcached_options o = options();
  o.max_pending = 10;
  const store s = make_memcached_store(io.get_executor(), o);
  limiter l(s, "r", fixed_window{.limit = 100, .window = 24h});
  crowd c;
  for (int i = 0; i < 30; ++i) l.record("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 10u);
  BOOST_TEST(c.failed(error::overloaded) == 20u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_lifetime_test

// The last handle of a store goes away in one thread while another is still inside a call of it.
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "support/test.hpp"
#include "weir/weir.hpp"

namespace last_handle_test {

using namespace weir;
using namespace weir::test;

constexpr gcra one_per_us{.rate = per_second(1'000'000), .burst = 1};

/// Two limiters of a store without other handles.
struct two_limiters {
  explicit two_limiters(const store& s)
      : one(s, "one", one_per_us, {.group = "g"}), other(s, "other", one_per_us, {.group = "g"}) {}

  limiter one, other;
  std::array<claim, 2> claims{one.on("a"), other.on("a")};
};

/// A pause in one copy of an executor, in which a thread lets the others go on for a moment: its
/// first copy after the store has read the clock for it.
struct pause_in_copy {
  std::thread::id thread{};
  bool is_due = false;  // used by that thread only
  std::atomic<bool> has_begun{false}, may_end{false};
  bool was_overtaken = false;

  void prepare() {
    if (std::this_thread::get_id() == thread) is_due = true;
  }
  void take() {
    if (std::this_thread::get_id() != thread || !std::exchange(is_due, false)) return;
    has_begun = true;
    for (int i = 0; i < 1000 && !may_end; ++i) std::this_thread::yield();
    was_overtaken = may_end;
  }
};

struct watched_executor {
  asio::io_context::executor_type inner;
  std::reference_wrapper<pause_in_copy> pause;

  watched_executor(const asio::io_context::executor_type& e, pause_in_copy& p) noexcept
      : inner(e), pause(p) {}
  watched_executor(const watched_executor& other) noexcept
      : inner(other.inner), pause(other.pause) {
    pause.get().take();
  }
  watched_executor& operator=(const watched_executor&) = default;

  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return inner.context();
  }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }
  template <class Function>
  void execute(Function&& function) const {
    asio::post(inner, std::forward<Function>(function));
  }
  friend bool operator==(const watched_executor& a, const watched_executor& b) noexcept {
    return a.inner == b.inner && &a.pause.get() == &b.pause.get();
  }
};

BOOST_AUTO_TEST_SUITE(last_handle_suite)

// The store looked at itself after it had let a waiter sleep, whose turn came at once: the waiter
// ended in another thread, and the store with it. The thread sanitizer sees that whenever it may
// happen.
BOOST_AUTO_TEST_CASE(a_memory_store_may_end_while_a_call_of_it_returns) {
  asio::io_context io;
  auto work = asio::make_work_guard(io);
  std::thread other([&] { io.run(); });
  std::atomic<int> answered{0}, allowed{0};
  constexpr int rounds = 500;
  for (int i = 0; i < rounds; ++i) {
    // The store's clock stands still: the first takes the turn of this microsecond, and the second
    // sleeps for the next one.
    auto both = std::make_unique<two_limiters>(
        make_memory_store(io.get_executor(), {.clock = [] { return time_point(1'000'000s); }}));
    for (const bool last : {false, true}) {
      const std::span<const claim> claims(both->claims);
      auto owner = last ? std::move(both) : nullptr;
      acquire_all(claims, {.max_wait = 1h},
                  [&, owner = std::move(owner)](error_code ec, decision d) {
                    allowed += !ec && d.allowed && (d.delay > 0us) == (owner != nullptr) ? 1 : 0;
                    ++answered;
                  });
    }
  }
  work.reset();
  other.join();
  BOOST_TEST(answered == 2 * rounds);
  BOOST_TEST(allowed == 2 * rounds);
}

// A function that ran already took the answer, and its handler freed the store, while the call
// still copied the store's executor, to post a function for that answer.
BOOST_AUTO_TEST_CASE(a_memory_store_stays_until_a_call_has_posted_its_answer) {
  constexpr int rounds = 20;
  std::array<pause_in_copy, rounds> pauses;
  asio::io_context io;
  auto work = asio::make_work_guard(io);
  std::thread other([&] { io.run(); });
  std::atomic<int> answered{0};
  for (pause_in_copy& pause : pauses) {
    const int before = answered;
    const auto clock = [&pause] {
      pause.prepare();
      return time_point(1'000'000s);
    };
    const watched_executor executor(io.get_executor(), pause);
    auto made = std::make_unique<limiter>(make_memory_store(executor, {.clock = clock}), "r",
                                          one_per_us);
    std::atomic<bool> delivers{false};
    made->record("a", [&](error_code, decision) {
      delivers = true;
      while (!pause.has_begun) std::this_thread::yield();
      ++answered;
    });
    while (!delivers) std::this_thread::yield();
    auto last = made->record("a", asio::deferred);
    made.reset();  // now only the call has a handle
    pause.thread = std::this_thread::get_id();
    std::move(last)([&](error_code, decision) {
      ++answered;
      pause.may_end = true;
    });
    while (answered < before + 2) std::this_thread::yield();
    BOOST_TEST(pause.has_begun);
    BOOST_TEST(!pause.was_overtaken);
  }
  work.reset();
  other.join();
}

BOOST_AUTO_TEST_CASE(a_store_without_other_handles_is_gone_when_the_last_handler_runs) {
  asio::io_context io;
  const auto token = std::make_shared<int>(0);
  long holders = 0;
  {
    const limiter last(
        make_memory_store(io.get_executor(), {.clock = [token] { return time_point{}; }}), "r",
        one_per_us);
    last.record("a", [&](error_code, decision) { holders = token.use_count(); });
  }
  BOOST_TEST(token.use_count() > 1);  // the check keeps the store
  io.run();
  BOOST_TEST(holders == 1);
}

// The further limiters of a joint check kept the store until its handler had returned.
BOOST_AUTO_TEST_CASE(a_store_of_two_limiters_is_gone_when_the_last_handler_runs) {
  asio::io_context io;
  const auto token = std::make_shared<int>(0);
  long holders = 0;
  {
    const two_limiters last(
        make_memory_store(io.get_executor(), {.clock = [token] { return time_point{}; }}));
    record_all(last.claims, [&](error_code, decision) { holders = token.use_count(); });
  }
  BOOST_TEST(token.use_count() > 1);
  io.run();
  BOOST_TEST(holders == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace last_handle_test

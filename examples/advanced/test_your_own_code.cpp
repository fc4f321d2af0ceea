// Testing your own code, without a server and without a mock: a memory store with a clock that the
// test moves, so that record() needs no waiting. (acquire() waits in real time.) Its policies are
// the same state machines that the scripts in Redis are held equal to.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weir/weir.hpp>

#include "../example.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using examples::rethrow;

// ---- The code under test: locks an account for 15 minutes after three wrong passwords.
// It takes a store, so that production and tests can give it different ones.

class login {
 public:
  explicit login(const weir::store& store)
      : wrong_passwords_(store, "wrong-passwords", weir::sliding_log{.limit = 3, .window = 15min}) {
  }

  // "welcome", "wrong password" or "locked for N s"
  asio::awaitable<std::string> attempt(std::string account, std::string password) {
    // Every attempt counts as a wrong password before the password is looked at. If it were counted
    // afterwards, any number of guesses could be under way between fetch() and record().
    const weir::decision d = co_await wrong_passwords_.record(account);
    if (!d.allowed) {
      const auto wait = std::chrono::ceil<std::chrono::seconds>(d.retry_after);
      co_return "locked for " + std::to_string(wait.count()) + " s";
    }
    if (password != "correct horse") co_return "wrong password";
    // If this fails, the attempt counts as a wrong password, and the user is let in all the same.
    co_await wrong_passwords_.refund(account, d, asio::as_tuple(asio::deferred));
    co_return "welcome";
  }

 private:
  weir::limiter wrong_passwords_;
};

// ---- The test.

namespace {

// The store calls it from the thread that checks. This test has one thread; with several, make it
// atomic.
class manual_clock {
 public:
  weir::time_point now() const { return now_; }
  void advance(std::chrono::microseconds by) { now_ += by; }

 private:
  weir::time_point now_{1'700'000'000s};
};

void expect_equal(std::string_view got, std::string_view wanted) {
  std::cout << got << "\n";
  if (got != wanted) throw std::runtime_error("expected: " + std::string(wanted));
}

asio::awaitable<void> locks_after_three_wrong_passwords(weir::store store, manual_clock& clock) {
  login l(store);
  expect_equal(co_await l.attempt("alice", "guess"), "wrong password");
  clock.advance(1min);
  expect_equal(co_await l.attempt("alice", "guess"), "wrong password");
  clock.advance(1min);
  expect_equal(co_await l.attempt("alice", "guess"), "wrong password");

  expect_equal(co_await l.attempt("alice", "correct horse"), "locked for 780 s");
  clock.advance(13min - 1us);  // the first wrong one is not quite 15 minutes old
  expect_equal(co_await l.attempt("alice", "correct horse"), "locked for 1 s");
  clock.advance(1us);
  expect_equal(co_await l.attempt("alice", "correct horse"), "welcome");

  // Two wrong ones are left: the right one was refunded.
  expect_equal(co_await l.attempt("alice", "guess"), "wrong password");
  expect_equal(co_await l.attempt("alice", "guess"), "locked for 60 s");
}

asio::awaitable<void> looks_at_three_guesses_at_once(weir::store store) {
  login l(store);
  const auto executor = co_await asio::this_coro::executor;
  const auto guess = [&] {
    return asio::co_spawn(executor, l.attempt("bob", "guess"), asio::deferred);
  };
  std::vector<decltype(guess())> guesses;
  for (int i = 0; i < 10; ++i) guesses.push_back(guess());
  const auto [order, failures,
              answers] = co_await asio::experimental::make_parallel_group(std::move(guesses))
                             .async_wait(asio::experimental::wait_for_all(), asio::deferred);
  const auto wrong = std::ranges::count(answers, "wrong password");
  std::cout << wrong << " of 10 passwords were looked at\n";
  if (wrong != 3) throw std::runtime_error("expected: 3");
}

// What happens when the store cannot answer belongs to the tests too. A closed store always fails,
// whatever on_failure says. To test that, open "redis://127.0.0.1:1?timeout=50ms": no server is
// there.
asio::awaitable<void> lets_nobody_in_without_a_store(weir::store store) {
  login l(store);
  store.close();
  bool failed = false;
  try {
    co_await l.attempt("alice", "correct horse");
  } catch (const boost::system::system_error& e) {
    std::cout << e.code().message() << "\n";
    failed = e.code() == weir::error::store_closed;
  }
  if (!failed) throw std::runtime_error("expected an error");
}

}  // namespace

int main() try {
  asio::io_context context;
  manual_clock clock;
  weir::memory_options options;
  options.clock = [&clock] { return clock.now(); };

  asio::co_spawn(context,
                 locks_after_three_wrong_passwords(
                     weir::make_memory_store(context.get_executor(), options), clock),
                 rethrow);
  asio::co_spawn(
      context,
      looks_at_three_guesses_at_once(weir::make_memory_store(context.get_executor(), options)),
      rethrow);
  context.run();

  context.restart();
  asio::co_spawn(
      context,
      lets_nobody_in_without_a_store(weir::make_memory_store(context.get_executor(), options)),
      rethrow);
  context.run();
} catch (const std::exception& e) {
  return examples::failed(e);
}

// Several contexts, stop() and restart(), fork() and exec(): see docs/lifetime.md.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/leases.hpp"
#include "support/stores.hpp"

namespace contexts_test {

using namespace weir;
using namespace weir::test;

constexpr token_bucket one_a_day{.capacity = 1, .refill = per_day(1)};
constexpr acquire_options patiently{.max_wait = 31 * 24h};

struct fixture {
  redis_server server;

  weir::store open(asio::io_context& on, bool in_memory) {
    return in_memory ? make_memory_store(on.get_executor())
                     : make_redis_store(on.get_executor(), patient_options(server));
  }

  /// Runs a child to its end: whether it was content.
  template <class Child>
  bool child_is_content(Child&& child) {
    const pid_t pid = ::fork();
    BOOST_REQUIRE(pid >= 0);
    if (pid == 0) {
      bool content = false;
      try {
        content = child();
      } catch (...) {
      }
      ::_exit(content ? 0 : 1);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  template <class Predicate>
  static void poll_both(asio::io_context& one, asio::io_context& other, Predicate&& done) {
    const auto limit = std::chrono::steady_clock::now() + watchdog;
    while (!done()) {
      one.restart(), other.restart();
      one.poll(), other.poll();
      BOOST_REQUIRE(std::chrono::steady_clock::now() < limit);
    }
  }

  std::string connections() {
    redis_client client(server);
    const std::string stats = client.must("INFO", "clients").text;
    const auto at = stats.find("connected_clients:");
    return stats.substr(at, stats.find('\r', at) - at);
  }
};

BOOST_FIXTURE_TEST_SUITE(contexts_suite, fixture)

BOOST_AUTO_TEST_CASE(the_context_of_a_store_ends_before_that_of_its_callers) {
  for (const bool in_memory : {true, false}) {
    auto theirs = std::make_unique<asio::io_context>();
    auto own = std::make_unique<asio::io_context>();
    std::optional<limiter> l(std::in_place, open(*own, in_memory), "r", one_a_day);
    crowd c;
    l->acquire("a", asio::bind_executor(*theirs, c.caller()));
    for (int i = 0; i < 3; ++i) {
      l->acquire("a", patiently, asio::bind_executor(*theirs, c.caller()));
      asio::co_spawn(
          *theirs,
          [copy = *l]() -> asio::awaitable<void> {
            co_await copy.acquire("a", patiently);
            BOOST_ERROR("it went on");
          },
          asio::detached);
    }
    poll_both(*own, *theirs, [&] { return c.answered() == 1; });
    own.reset();
    run_out(*theirs);  // nothing of ours keeps it busy
    BOOST_TEST(c.answered() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(the_context_of_callers_ends_before_that_of_their_store) {
  for (const bool in_memory : {true, false}) {
    auto theirs = std::make_unique<asio::io_context>();
    auto own = std::make_unique<asio::io_context>();
    weir::store store = open(*own, in_memory);
    const limiter l(store, "r", one_a_day);
    std::optional<lease> held;
    const concurrency_limiter gate(store, "gate", {.limit = 1, .lease_duration = 1h});
    gate.enter("a",
               asio::bind_executor(*theirs, [&](error_code, lease got) { held = std::move(got); }));
    crowd c;
    for (int i = 0; i < 3; ++i) {
      l.acquire("a", patiently, asio::bind_executor(*theirs, c.caller()));
    }
    poll_both(*own, *theirs, [&] { return held && c.answered() == 1; });
    store.close();
    run_out(*own);
    run_out(*theirs);
    theirs.reset();
    BOOST_TEST(c.complete());
    held.reset();
    run_out(*own);
  }
}

// The first lease started its timer on the executor of a context that was gone.
BOOST_AUTO_TEST_CASE(a_lease_reaches_its_caller_after_the_end_of_its_stores_context) {
  for (const bool in_memory : {true, false}) {
    auto own = std::make_unique<asio::io_context>();
    asio::io_context theirs;
    weir::store store = open(*own, in_memory);
    const concurrency_limiter gate(store, "gate", {.limit = 1, .lease_duration = 1h});
    std::optional<lease> held;
    const auto take = [&](error_code, lease got) { held = std::move(got); };
    gate.enter("a", asio::bind_executor(theirs, take));
    // The answer is on its way to the caller as soon as another process would be refused.
    bool is_taken = false;
    const auto look = [&](error_code, const decision& d) { is_taken = d.used == 1; };
    while (!is_taken) {
      gate.fetch("a", look);
      own->restart();
      own->run_for(10ms);
    }
    own.reset();
    run_out(theirs);
    BOOST_REQUIRE(held.has_value());
    BOOST_TEST(held->allowed());
    held.reset();  // does nothing: its place lapses
  }
}

// A handler that is destroyed with the context cancelled a waiter, and what the waiter had reserved
// went to an executor that was gone.
BOOST_AUTO_TEST_CASE(a_waiter_may_be_cancelled_while_its_context_is_destroyed) {
  struct guard {
    explicit guard(std::shared_ptr<asio::cancellation_signal> s) : signal(std::move(s)) {}
    guard(guard&&) noexcept = default;
    ~guard() {
      if (signal != nullptr) signal->emit(asio::cancellation_type::all);
    }
    std::shared_ptr<asio::cancellation_signal> signal;
  };
  for (const bool is_joint : {false, true}) {
    auto io = std::make_unique<asio::io_context>();
    const weir::store s = open(*io, false);
    const limiter a(s, "a", one_a_day, {.group = "g"}), b(s, "b", one_a_day, {.group = "g"});
    crowd ready, waiting;
    for (const limiter* l : {&a, &b}) l->record("s", ready.caller());
    run_until_complete(*io, ready);
    const auto signal = std::make_shared<asio::cancellation_signal>();
    auto caller = asio::bind_cancellation_slot(signal->slot(), waiting.caller());
    if (is_joint) {
      acquire_all(a.on("s"), b.on("s"), {.max_wait = 31 * 24h}, std::move(caller));
    } else {
      a.acquire("s", patiently, std::move(caller));
    }
    crowd behind;
    a.fetch("s", behind.caller());
    run_until_complete(*io, behind);  // the reservation is made
    a.record("t", [g = guard(signal)](error_code, const decision&) {});
    io.reset();
    BOOST_TEST(waiting.answered() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_stopped_context_goes_on_where_it_was) {
  for (const bool in_memory : {true, false}) {
    asio::io_context io;
    weir::store store = open(io, in_memory);
    const limiter l(store, "r", token_bucket{.capacity = 1, .refill = {1, 50ms}});
    crowd c;
    for (int i = 0; i < 3; ++i) l.acquire("a", c.caller());
    run_until(io, [&] { return c.answered() == 1; });
    io.stop();
    io.run();
    BOOST_TEST(c.answered() == 1u);
    run_until_complete(io, c);
    BOOST_TEST(c.allowed() == 3u);
  }
}

BOOST_AUTO_TEST_CASE(a_child_opens_a_store_of_its_own) {
  asio::io_context io;
  const limiter l(open(io, false), "r", one_a_day);
  crowd before;
  l.record("a", before.caller());
  run_until_complete(io, before);
  BOOST_TEST(child_is_content([&] {
    asio::io_context own;
    bool refused = false;
    {
      const limiter of_child(open(own, false), "r", one_a_day);
      of_child.record("a", [&](error_code ec, const decision& d) { refused = !ec && !d.allowed; });
    }
    own.run();
    return refused;
  }));
  crowd after;
  l.record("b", after.caller());
  run_until_complete(io, after);
  BOOST_TEST(after.allowed() == 1u);
}

BOOST_AUTO_TEST_CASE(a_child_that_destroys_what_it_inherited_disturbs_nobody) {
  for (const std::string order : {"clps", "splc", "psc"}) {
    auto io = std::make_unique<asio::io_context>();
    std::optional<weir::store> store(open(*io, false));
    std::optional<limiter> l(std::in_place, *store, "r" + order,
                             token_bucket{.capacity = 1, .refill = {1, 100ms}});
    std::optional<concurrency_limiter> gate(std::in_place, *store, "gate" + order,
                                            concurrency_options{.limit = 1});
    std::optional<lease> held(enter(*io, *gate, "a"));
    crowd c;
    for (int i = 0; i < 2; ++i) l->acquire("a", c.caller());
    run_until(*io, [&] { return c.answered() == 1; });
    const std::string connected = connections();
    BOOST_TEST(child_is_content([&] {
      for (const char which : order) {
        if (which == 'l') l.reset(), gate.reset();
        if (which == 's') store.reset();
        if (which == 'p') held.reset();
        if (which == 'c') io.reset();
      }
      return true;
    }));
    run_until_complete(*io, c);
    BOOST_TEST(c.allowed() == 2u);
    BOOST_TEST(fetch(*io, *gate, "a").used == 1);  // the child released nothing
    BOOST_TEST(connections() == connected);
  }
}

// The server counted the connection until the program ended, and the program could use it.
BOOST_AUTO_TEST_CASE(a_program_that_is_started_does_not_get_the_connection) {
  const std::string nobody = connections();
  asio::io_context io;
  weir::store store = open(io, false);
  crowd c;
  limiter(store, "r", one_a_day).record("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 1u);
  int to_program[2], from_program[2];
  BOOST_REQUIRE(::pipe2(to_program, O_CLOEXEC) == 0);
  BOOST_REQUIRE(::pipe2(from_program, O_CLOEXEC) == 0);
  const pid_t pid = ::fork();
  BOOST_REQUIRE(pid >= 0);
  if (pid == 0) {
    ::dup2(to_program[0], STDIN_FILENO);
    ::dup2(from_program[1], STDOUT_FILENO);
    ::execlp("cat", "cat", nullptr);
    ::_exit(1);
  }
  ::close(to_program[0]);
  ::close(from_program[1]);
  char echo = 0;
  BOOST_TEST(::write(to_program[1], "x", 1) == 1);
  BOOST_TEST(::read(from_program[0], &echo, 1) == 1);  // it runs
  store.close();
  run_out(io);
  BOOST_TEST(connections() == nobody);
  ::close(to_program[1]);
  ::close(from_program[0]);
  BOOST_TEST(::waitpid(pid, nullptr, 0) == pid);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace contexts_test

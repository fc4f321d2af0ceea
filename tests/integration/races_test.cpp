// Many at once: exactly what the policy allows gets through, from whichever process or thread.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "support/run.hpp"
#include "support/stores.hpp"

namespace races_test {

using namespace weir;
using namespace weir::test;

constexpr int processes = 4;
constexpr int coroutines = 64;
constexpr std::int64_t limit = 1000;
constexpr int calls_each = 20;  // of every coroutine: five times what is allowed

/// What a process or a thread has seen. The sum of `used` over all allowed calls is that of 1 to
/// the limit only if no two were given the same place.
struct tally {
  std::int64_t allowed = 0;
  std::int64_t refused = 0;
  std::int64_t errors = 0;
  std::int64_t used = 0;

  void add(const decision& d) {
    if (d.allowed) {
      ++allowed;
      used += d.used;
    } else {
      ++refused;
    }
  }
  tally& operator+=(const tally& other) {
    allowed += other.allowed;
    refused += other.refused;
    errors += other.errors;
    used += other.used;
    return *this;
  }
};

void check(const tally& t, std::int64_t callers) {
  BOOST_TEST(t.errors == 0);
  BOOST_TEST(t.allowed == limit);
  BOOST_TEST(t.refused == callers * calls_each - limit);
  BOOST_TEST(t.used == limit * (limit + 1) / 2);
}

asio::awaitable<void> saturate(limiter l, tally& t) {
  for (int i = 0; i < calls_each; ++i) {
    try {
      t.add(co_await l.record("everyone's"));
    } catch (const std::exception&) {
      ++t.errors;
    }
  }
}

/// A child's whole life: no assertion, no destructor of the parent's.
[[noreturn]] void child(const redis_options& options, const weir::policy& policy, int go,
                        int result) {
  tally t;
  try {
    asio::io_context io(1);
    auto store = make_redis_store(io.get_executor(), options);
    const limiter l(store, "r", policy);
    char start = 0;
    if (::read(go, &start, 1) != 0) ++t.errors;  // the parent closes it when all are there
    int running = coroutines;
    for (int i = 0; i < coroutines; ++i) {
      asio::co_spawn(io, saturate(l, t), [&](std::exception_ptr e) {
        if (e) ++t.errors;
        if (--running == 0) store.close();
      });
    }
    io.run_for(watchdog);
    if (running != 0) ++t.errors;
  } catch (...) {
    ++t.errors;
  }
  ::_exit(::write(result, &t, sizeof(t)) == sizeof(t) ? 0 : 1);
}

tally run_processes(const redis_options& options, const weir::policy& policy) {
  std::array<int, 2> go{}, result{};
  BOOST_TEST_REQUIRE(::pipe(go.data()) == 0);
  BOOST_TEST_REQUIRE(::pipe(result.data()) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = ::fork();
    BOOST_TEST_REQUIRE(pid >= 0);
    if (pid == 0) {
      ::close(go[1]);
      child(options, policy, go[0], result[1]);
    }
    children.push_back(pid);
  }
  ::close(go[0]);
  ::close(go[1]);
  ::close(result[1]);
  tally total;
  for (int i = 0; i < processes; ++i) {
    tally one;
    BOOST_TEST(::read(result[0], &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one)));
    BOOST_TEST(one.allowed + one.refused == coroutines * calls_each);
    total += one;
  }
  ::close(result[0]);
  for (const pid_t pid : children) {
    int status = 0;
    BOOST_TEST(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(status == 0);
  }
  return total;
}

BOOST_AUTO_TEST_SUITE(races_suite)

// First of all, while this process has no threads yet.
BOOST_AUTO_TEST_CASE(four_processes_get_exactly_what_is_allowed) {
  redis_server server;
  const auto options = patient_options(server);
  for (const auto& [name, policy] : slow_policies(limit)) {
    BOOST_TEST_CONTEXT(name) {
      redis_client(server).must("FLUSHALL");
      check(run_processes(options, policy), processes * coroutines);
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_get_exactly_what_is_allowed) {
  redis_server server;
  const auto options = patient_options(server);
  for (const bool in_memory : {true, false}) {
    for (const auto& [name, policy] : slow_policies(limit)) {
      BOOST_TEST_CONTEXT((in_memory ? "memory, " : "redis, ") << name) {
        redis_client(server).must("FLUSHALL");
        asio::thread_pool pool(4);
        auto store = in_memory ? make_memory_store(pool.get_executor())
                               : make_redis_store(pool.get_executor(), options);
        const limiter l(store, "r", policy);
        std::vector<tally> tallies(2 * coroutines);
        std::atomic<int> running{2 * coroutines};
        for (tally& t : tallies) {
          asio::co_spawn(pool, saturate(l, t), [&](std::exception_ptr e) {
            if (e) ++t.errors;
            if (running.fetch_sub(1) == 1) store.close();  // or the connection keeps the pool busy
          });
        }
        pool.join();
        BOOST_TEST(running == 0);
        tally total;
        for (const tally& t : tallies) total += t;
        check(total, 2 * coroutines);
      }
    }
  }
}

// Calls made from threads that are not the store's, for many keys, while others cancel theirs:
// each caller hears exactly once, and the counts of calls that were not cancelled are exact.
BOOST_AUTO_TEST_CASE(calls_and_cancellations_from_everywhere) {
  redis_server server;
  asio::thread_pool network(2);
  asio::thread_pool callers(2);
  auto store = make_redis_store(network.get_executor(), patient_options(server));
  const limiter l(store, "r", fixed_window{.limit = 1'000'000, .window = 24h});

  constexpr int count = 400;
  struct caller {
    explicit caller(asio::thread_pool& pool) : strand(asio::make_strand(pool)) {}
    asio::strand<asio::thread_pool::executor_type> strand;
    asio::cancellation_signal signal;
    int answers = 0;
    error_code ec;
    std::int64_t used = 0;
  };
  std::vector<std::unique_ptr<caller>> all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<caller>(callers));
  std::atomic<int> pending{count};
  for (int i = 0; i < count; ++i) {
    caller& c = *all[static_cast<std::size_t>(i)];
    asio::post(c.strand, [&, i] {
      auto handler = [&](error_code ec, decision d) {
        ++c.answers;
        c.ec = ec;
        c.used = d.used;
        if (pending.fetch_sub(1) == 1) store.close();
      };
      l.record("subject " + std::to_string(i), {.cost = i + 1},
               asio::bind_cancellation_slot(c.signal.slot(),
                                            asio::bind_executor(c.strand, std::move(handler))));
      if (i % 3 == 0) {
        asio::post(c.strand, [&c] { c.signal.emit(asio::cancellation_type::terminal); });
      }
    });
  }
  callers.join();
  network.join();
  for (int i = 0; i < count; ++i) {
    const caller& c = *all[static_cast<std::size_t>(i)];
    BOOST_TEST(c.answers == 1);
    if (c.ec) {
      BOOST_TEST(i % 3 == 0);
      WEIR_TEST_ERROR(c.ec, asio::error::operation_aborted);
    } else {
      BOOST_TEST(c.used == i + 1);
    }
  }
}

// The end comes from another thread in the middle of the traffic.
BOOST_AUTO_TEST_CASE(every_call_completes_when_the_store_is_closed_under_load) {
  redis_server server;
  for (int round = 0; round < 5; ++round) {
    asio::thread_pool pool(3);
    auto store = make_redis_store(pool.get_executor(), patient_options(server));
    const limiter l(store, "r", fixed_window{.limit = 1'000'000, .window = 24h});
    std::atomic<int> answers{0};
    std::atomic<int> odd{0};
    constexpr int count = 3000;
    for (int t = 0; t < 3; ++t) {
      asio::post(pool, [&] {
        for (int i = 0; i < count / 3; ++i) {
          l.record(std::to_string(i % 50), [&](error_code ec, decision) {
            if (ec && ec != error::store_closed && ec != error::outcome_unknown) odd.fetch_add(1);
            // Once some have been answered, so that there is something in every stage.
            if (answers.fetch_add(1) == 100 * round) store.close();
          });
        }
      });
    }
    pool.join();
    BOOST_TEST(answers == count);
    BOOST_TEST(odd == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace races_test

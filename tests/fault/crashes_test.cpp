// A server that keeps its data, killed, ended and stopped in the middle of the load. Whatever
// becomes of the connection: what callers were told is what the server has, and of what they were
// not told, any part.
#include <unistd.h>

#include "fault/ledger.hpp"
#include "fault/proxied.hpp"

namespace crashes_test {

using namespace weir;
using namespace weir::test;

struct fixture {
  // Each command is in the file before it is answered: a killed process loses nothing.
  redis_server server{{.arguments = {"--appendonly", "yes", "--appendfsync", "no"}}};
  asio::io_context io;
  redis_options options = patient_options(server);
};

/// Everybody calls for an account of its own, again and again.
struct load {
  load(fixture& f, std::size_t count)
      : io(f.io),
        straight(one_limiter_of_each_kind(
            make_redis_store(io.get_executor(), patient_options(f.server)))),
        accounts(open_accounts(
            io, one_limiter_of_each_kind(make_redis_store(io.get_executor(), f.options)), straight,
            count, "account")),
        successes(count, 0) {
    for (std::size_t i = 0; i < count; ++i) {
      ++running;
      asio::co_spawn(io, live(i), [this](std::exception_ptr e) {
        BOOST_TEST(!e);
        --running;
      });
    }
  }
  asio::awaitable<void> live(std::size_t i) {
    account& a = accounts[i];
    while (!stop) {
      const auto [ec, d] = co_await a.where.record(a.subject, {.cost = a.cost},
                                                   asio::as_tuple(asio::deferred));
      if (ec) {
        ++failures;
        BOOST_CHECK_MESSAGE(ec == error::outcome_unknown || ec == error::no_reply, ec.message());
      }
      if (a.hear(ec, d, ec == condition::not_counted)) ++successes[i];
    }
  }
  /// Everybody has succeeded so many times more.
  void run_on(std::size_t times) {
    const auto before = successes;
    run_until(io, [&] {
      for (std::size_t i = 0; i < successes.size(); ++i) {
        if (successes[i] < before[i] + times) return false;
      }
      return true;
    });
  }
  void end() {
    stop = true;
    run_until(io, [&] { return running == 0; });
    check_in_the_end(io, accounts, straight);
  }

  asio::io_context& io;
  std::vector<limiter> straight;
  std::vector<account> accounts;
  std::vector<std::size_t> successes;
  std::size_t failures = 0;
  std::size_t running = 0;
  bool stop = false;
};

BOOST_FIXTURE_TEST_SUITE(crashes_suite, fixture)

BOOST_AUTO_TEST_CASE(ended_in_the_middle_of_the_load) {
  load all(*this, 60);
  for (int round = 0; round < 12; ++round) {
    all.run_on(5);
    round % 2 == 0 ? server.kill() : server.terminate();
    server.restart();
  }
  all.run_on(5);
  all.end();
  BOOST_TEST(all.failures > 0u);  // or it was not in the middle of anything
}

// Shorter than the silence that is borne: no caller notices anything but the wait.
BOOST_AUTO_TEST_CASE(stopped_and_continued_in_the_middle_of_the_load) {
  load all(*this, 60);
  for (int round = 0; round < 10; ++round) {
    all.run_on(3);
    server.pause();
    io.restart();
    while (io.poll() != 0) {
    }
    server.resume();
  }
  all.run_on(3);
  all.end();
  BOOST_TEST(all.failures == 0u);
}

// Longer: the connection is given up, and what lies in it is run when the server wakes, unknown to
// the callers.
BOOST_AUTO_TEST_CASE(stopped_for_longer_than_silence_is_borne) {
  options.silence_timeout = 40ms;
  options.connect_timeout = 40ms;
  load all(*this, 60);
  for (int round = 0; round < 5; ++round) {
    all.run_on(3);
    const std::size_t before = all.failures;
    server.pause();
    run_until(io, [&] { return all.failures >= before + 60; });
    server.resume();
  }
  all.run_on(3);
  all.end();
}

BOOST_AUTO_TEST_CASE(scripts_flushed_and_connections_killed_at_once) {
  load all(*this, 60);
  redis_client admin(server);
  for (int round = 0; round < 30; ++round) {
    all.run_on(2);
    admin.send("SCRIPT", "FLUSH");
    admin.send("CLIENT", "KILL", "TYPE", "normal");
    admin.send("SCRIPT", "FLUSH");
    for (int i = 0; i < 3; ++i) BOOST_TEST(!admin.read().is_error());
  }
  all.run_on(2);
  all.end();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace crashes_test

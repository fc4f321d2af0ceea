// A server that crashes, restarts, forgets its scripts, hangs up or falls silent: every call comes
// to an end that is true, and the store finds its way back by itself.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "support/limiter_fixture.hpp"
#include "support/load.hpp"
#include "weir/weir.hpp"

namespace reconnect_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::condition;
using weir::error;
using weir::test::caller;
using weir::test::crowd;
using weir::test::data_loss;
using weir::test::load;
using weir::test::redis_client;
using weir::test::run_until;
using weir::test::run_until_complete;

const weir::policy plenty = weir::fixed_window{.limit = weir::max_units, .window = 24h};

struct fixture : weir::test::server_fixture {
  weir::limiter connected(const weir::store& s) {
    const weir::limiter l(s, "r", plenty);
    crowd c;
    l.fetch("connected?", c.caller());
    run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed());
    return l;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(reconnect_suite, fixture)

BOOST_AUTO_TEST_CASE(a_crash_in_the_middle_of_the_load) {
  const auto l = connected(open());
  load all(io, l, 100, data_loss::everything);
  for (int round = 0; round < 5; ++round) {
    all.run_on(5);
    server.kill();
    if (round % 2 == 1) run_ready();  // with the loss noticed before the return, and without
    server.restart();
  }
  all.run_on(5);
  all.end();
  std::int64_t failures = 0;
  for (const auto& c : all.callers) failures += c->failures;
  BOOST_TEST(failures > 0);  // or it was not in the middle of anything
}

BOOST_AUTO_TEST_CASE(connections_that_are_killed_lose_no_count) {
  const auto l = connected(open());
  load all(io, l, 100);
  redis_client admin(server);
  for (int round = 0; round < 20; ++round) {
    all.run_on(3);
    admin.must("CLIENT", "KILL", "TYPE", "normal");
  }
  all.run_on(3);
  all.end();
  // The server's count: what succeeded, and of what is unknown, any part.
  crowd c;
  for (const auto& one : all.callers) l.fetch(one->subject, c.caller());
  run_until_complete(io, c);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const caller& one = *all.callers[i];
    BOOST_TEST(c[i].d.used >= one.successes);
    BOOST_TEST(c[i].d.used <= one.successes + one.failures);
  }
}

// NOSCRIPT means that nothing ran: the calls are sent again, no caller hears of it, and nothing is
// counted twice.
BOOST_AUTO_TEST_CASE(scripts_that_are_flushed_come_back_unnoticed) {
  const auto s = open();
  redis_client admin(server);
  for (const auto& [name, policy] : weir::test::slow_policies(2000)) {
    BOOST_TEST_CONTEXT(name) {
      const weir::limiter l(s, name, policy);
      std::int64_t allowed = 0, refused = 0, errors = 0, used = 0, answers = 0;
      int running = 64;
      for (int i = 0; i < 64; ++i) {
        asio::co_spawn(
            io,
            [&]() -> asio::awaitable<void> {
              for (int n = 0; n < 40; ++n) {
                const auto [ec, d] = co_await l.record("everyone's",
                                                       asio::as_tuple(asio::deferred));
                if (ec) {
                  ++errors;
                } else if (d.allowed) {
                  ++allowed;
                  used += d.used;
                } else {
                  ++refused;
                }
                if (++answers % 300 == 0) admin.must("SCRIPT", "FLUSH");
              }
            },
            [&](std::exception_ptr e) {
              BOOST_TEST(!e);
              --running;
            });
      }
      run_until(io, [&] { return running == 0; });
      BOOST_TEST(errors == 0);
      BOOST_TEST(allowed == 2000);
      BOOST_TEST(refused == 64 * 40 - 2000);
      BOOST_TEST(used == 2000 * 2001 / 2);
    }
  }
}

// All kinds of scripts and plain commands in one write, each script missing.
BOOST_AUTO_TEST_CASE(only_what_did_not_run_is_sent_again) {
  const auto s = open();
  connected(s);
  redis_client(server).must("SCRIPT", "FLUSH");
  crowd c;
  const auto policies = weir::test::slow_policies(10);
  for (int i = 0; i < 3; ++i) {
    for (const auto& [name, policy] : policies) {
      const weir::limiter l(s, name, policy);
      l.record("a", c.caller());
      l.fetch("b", c.caller());
    }
  }
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == c.size());
  for (std::size_t i = 0; i < c.size(); i += 2) {
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(i / 2 / policies.size() + 1));
  }
}

BOOST_AUTO_TEST_CASE(calls_that_were_not_sent_wait_for_the_server) {
  const auto l = connected(open());
  server.kill();
  // The next connection is taken and not answered: it may not fail before the calls are made, as
  // calls that come later would end at once.
  const auto port = static_cast<std::uint16_t>(server.port());
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), port});
  run_ready();
  crowd c;
  for (int i = 0; i < 100; ++i) l.record("s" + std::to_string(i % 10), c.caller());
  run_ready();
  BOOST_TEST(c.answered() == 0u);
  silent.close();
  server.restart();
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 100u);
  // In their order, and each once.
  for (std::size_t i = 0; i < c.size(); ++i) {
    BOOST_TEST(c[i].d.used == static_cast<std::int64_t>(i / 10 + 1));
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_is_down_from_the_start_may_come_later) {
  server.kill();
  const weir::limiter l(open(), "r", plenty);
  crowd early, patient;
  l.record("a", {.timeout = 50ms}, early.caller());
  l.record("a", patient.caller());
  run_until_complete(io, early);
  WEIR_TEST_ERROR(early[0].ec, error::connection_refused);
  BOOST_CHECK(early[0].ec == condition::not_counted);
  BOOST_CHECK(early[0].ec == boost::system::errc::connection_refused);
  BOOST_TEST(patient.answered() == 0u);
  server.restart();
  run_until_complete(io, patient);
  BOOST_TEST(patient[0].d.used == 1);
}

BOOST_AUTO_TEST_CASE(the_default_deadline_needs_no_asking) {
  server.pause();
  const weir::limiter never_connected(weir::open_store(io.get_executor(), server.url()), "r",
                                      plenty);
  crowd c;
  never_connected.record("a", c.caller());
  never_connected.fetch("a", c.caller());
  never_connected.reset("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.failed(error::timed_out) == 3u);
  server.resume();
}

BOOST_AUTO_TEST_CASE(deadlines_of_all_lengths_end_in_their_order) {
  server.kill();
  const weir::limiter l(open(), "r", plenty);
  std::vector<int> order;
  // Beyond one turn of the timing wheel, too.
  const int lengths[] = {900, 30, 1500, 5, 300, 60};
  for (const int ms : lengths) {
    l.record("a", {.timeout = std::chrono::milliseconds(ms)},
             [&order, ms](weir::error_code ec, weir::decision) {
               // A busy machine may need longer than the shortest one to learn more.
               BOOST_CHECK(ec == error::connection_refused || ec == error::timed_out);
               order.push_back(ms);
             });
  }
  run_until(io, [&] { return order.size() == std::size(lengths); });
  BOOST_TEST(std::is_sorted(order.begin(), order.end()));
}

// Replies that come after their callers have given up go to no caller; those after them, to their
// own.
BOOST_AUTO_TEST_CASE(late_replies_reach_nobody_else) {
  const auto l = connected(open());
  constexpr std::size_t count = 50;
  const auto each = [&](std::int64_t cost, bool own_pattern, std::chrono::microseconds timeout,
                        crowd& c) {
    for (std::size_t i = 0; i < count; ++i) {
      l.record("s" + std::to_string(i),
               {.cost = own_pattern ? static_cast<std::int64_t>(i + 1) : cost, .timeout = timeout},
               c.caller());
    }
  };
  crowd first, lost, last;
  each(0, true, 0us, first);
  run_until_complete(io, first);
  server.pause();
  each(1000, false, 30ms, lost);
  run_until_complete(io, lost);
  BOOST_TEST(lost.failed(error::no_reply) == count);
  for (const auto& o : lost) BOOST_CHECK(o.ec == condition::may_have_counted);
  each(100'000, false, 0us, last);
  run_ready();
  server.resume();
  run_until_complete(io, last);
  for (std::size_t i = 0; i < count; ++i) {
    BOOST_TEST(last[i].d.used == static_cast<std::int64_t>(101'000 + i + 1));
    BOOST_TEST(lost[i].times == 1);
  }
}

// More than the socket takes: what is behind the write under way has not been sent, and the error
// says so.
BOOST_AUTO_TEST_CASE(behind_a_write_that_is_stuck_nothing_was_counted) {
  const auto l = connected(open());
  server.pause();
  crowd stuck, behind;
  for (int i = 0; i < 300; ++i) {
    l.record(std::string(65'530, 's') + std::to_string(i), stuck.caller());
  }
  run_ready();
  for (int i = 0; i < 10; ++i) l.record("b", {.timeout = 20ms}, behind.caller());
  run_until_complete(io, behind);
  BOOST_TEST(behind.failed(error::timed_out) == 10u);
  BOOST_TEST(stuck.answered() == 0u);
  server.resume();
  run_until_complete(io, stuck);
  BOOST_TEST(stuck.allowed() == 300u);
  crowd after;
  l.record("b", after.caller());
  run_until_complete(io, after);
  BOOST_TEST(after[0].d.used == 1);
}

// The connection breaks inside a write: what the server cannot have seen whole is sent again, the
// rest is unknown.
BOOST_AUTO_TEST_CASE(a_crash_inside_a_write) {
  auto options = weir::test::patient_options(server);
  options.max_keys_per_call = 1;  // many calls in that write
  const auto l = connected(weir::make_redis_store(io.get_executor(), options));
  server.pause();
  crowd c;
  for (int i = 0; i < 500; ++i) l.record(std::string(65'530, 's') + std::to_string(i), c.caller());
  run_ready();
  crowd later;  // behind all of them, for the last one's subject
  l.record(std::string(65'530, 's') + "499", later.caller());
  run_ready();
  BOOST_TEST(c.answered() + later.answered() == 0u);
  server.restart();
  run_until_complete(io, c);
  run_until_complete(io, later);
  BOOST_TEST(later[0].d.used == 2);  // no call was overtaken
  BOOST_TEST(c.allowed() + c.failed(error::outcome_unknown) == 500u);
  BOOST_TEST(c.allowed() > 0u);
  BOOST_TEST(c.failed(error::outcome_unknown) > 0u);
  for (const auto& o : c) BOOST_TEST((o.ec.failed() || o.d.used == 1));
}

BOOST_AUTO_TEST_CASE(silence_during_the_handshake_is_survived) {
  server.pause();
  auto options = weir::test::patient_options(server);
  options.connect_timeout = 20ms;
  const weir::limiter l(weir::make_redis_store(io.get_executor(), options), "r", plenty);
  crowd early, patient;
  l.record("a", {.timeout = 100ms}, early.caller());
  l.record("a", patient.caller());
  run_until_complete(io, early);
  WEIR_TEST_ERROR(early[0].ec, error::timed_out);
  server.resume();
  run_until_complete(io, patient);
  BOOST_TEST(patient[0].d.used == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reconnect_test

// A server that crashes, restarts, forgets its scripts, hangs up or falls silent: every call comes
// to an end that is true, and the store finds its way back by itself.
#include "support/limiter_fixture.hpp"
#include "support/load.hpp"

namespace reconnect_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(reconnect_suite, server_fixture)

// NOSCRIPT means that nothing ran: the calls are sent again, no caller hears of it, and nothing is
// counted twice.
BOOST_AUTO_TEST_CASE(scripts_that_are_flushed_come_back_unnoticed) {
  const auto s = open();
  redis_client admin(server);
  for (const auto& [name, policy] : slow_policies(2000)) {
    BOOST_TEST_CONTEXT(name) {
      const limiter l(s, name, policy);
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
  const auto policies = slow_policies(10);
  for (int i = 0; i < 3; ++i) {
    for (const auto& [name, policy] : policies) {
      const limiter l(s, name, policy);
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
  const limiter l(open(), "r", plenty_a_day);
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
  const limiter never_connected(open_store(io.get_executor(), server.url()), "r", plenty_a_day);
  crowd c;
  never_connected.record("a", c.caller());
  never_connected.fetch("a", c.caller());
  never_connected.reset("a", c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.failed(error::timed_out) == 3u);
  server.resume();
}

// The connection breaks inside a write: what the server cannot have seen whole is sent again, the
// rest is unknown.
BOOST_AUTO_TEST_CASE(a_crash_inside_a_write) {
  auto options = patient_options(server);
  options.max_keys_per_call = 1;  // many calls in that write
  const auto l = connected(make_redis_store(io.get_executor(), options));
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reconnect_test

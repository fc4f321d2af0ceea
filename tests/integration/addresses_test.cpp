// Names with several addresses, of which some are dead in one way or another, and IPv6. The
// resolver is the test's own (own_resolver.hpp), for the name several.test.
#include <netdb.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "net/resolver.hpp"
#include "own_resolver.hpp"
#include "support/run.hpp"
#include "support/sentinel_group.hpp"
#include "support/stores.hpp"
#include "unhelpful_peers.hpp"
#include "weir/weir.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;
using weir::error;
using weir::net::resolver;
using weir::test::black_hole;
using weir::test::crowd;
using weir::test::impostor;
using weir::test::mute;
using weir::test::redis_server;

struct fixture {
  redis_server server;
  asio::io_context io;

  weir::redis_options options() {
    auto o = weir::test::patient_options(server);
    o.host = "several.test";
    return o;
  }
  weir::error_code record(const weir::store& s) {
    crowd c;
    weir::limiter(s, "r", weir::fixed_window{.limit = 5, .window = 24h}).record("a", c.caller());
    weir::test::run_until_complete(io, c);
    return c[0].ec;
  }
  weir::error_code record(const weir::redis_options& o) {
    return record(weir::make_redis_store(io.get_executor(), o));
  }
  /// At the server's port, on another loopback address.
  tcp::endpoint neighbour(const char* address) {
    return {asio::ip::make_address(address), static_cast<std::uint16_t>(server.port())};
  }
};

bool has_ipv6() {
  asio::io_context io;
  weir::error_code ec;
  tcp::acceptor probe(io);
  probe.open(tcp::v6(), ec);
  if (!ec) probe.bind({asio::ip::address_v6::loopback(), 0}, ec);
  return !ec;
}

/// Asks a resolver of its own.
struct asker {
  explicit asker(asio::io_context& context)
      : io(context),
        busy(asio::make_work_guard(context)),
        lookup(std::make_shared<std::optional<resolver>>(std::in_place, s)) {}
  // As a session does: the look-up's thread may hold the last handle, and the context goes next.
  ~asker() { lookup->reset(); }

  void ask(const std::string& host, std::uint16_t port) {
    reported = false;
    (*lookup)->ask(host, port, lookup, [this](resolver::endpoints&& all) {
      reported = true;
      found.clear();
      for (const auto& e : all) {
        tcp::endpoint address;
        std::memcpy(address.data(), e.data(), e.size());
        std::ostringstream text;
        text << address;
        found += (found.empty() ? "" : " ") + text.str();
      }
    });
  }
  void wait_for_report() {
    weir::test::run_until(io, [&] { return reported; });
  }
  /// The name server is silent from now on, and the question is left.
  void ask_in_vain(const std::string& host, std::uint16_t port) {
    const int inside = name_server.inside;
    name_server.silent = true;
    ask(host, port);
    name_server.wait_until_inside(inside + 1);
    (*lookup)->leave(lookup);
    wait_for_report();
    BOOST_TEST(found == "");
  }
  /// The name server answers a question that was left.
  void hear_late_answer() {
    name_server.speak_again();
    bool heard = false;
    weir::test::run_until(io, [&] { return std::exchange(heard, true); });
  }

  asio::io_context& io;
  asio::executor_work_guard<asio::io_context::executor_type> busy;
  weir::net::strand s{weir::detail::direct_executor::of(io.get_executor())};
  std::shared_ptr<std::optional<resolver>> lookup;
  std::string found;  // the last report
  bool reported = false;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(addresses_suite, fixture)

BOOST_AUTO_TEST_CASE(an_ipv6_address_in_a_url) {
  // Without IPv6, as in some containers, the address is one that cannot be reached.
  if (!has_ipv6()) {
    const auto s = weir::open_store(io.get_executor(), "redis://[::1]:6379?timeout=50ms");
    WEIR_TEST_ERROR(record(s), error::host_unreachable);
    return;
  }
  redis_server six({.address = "::1"});
  BOOST_TEST(six.url().starts_with("redis://[::1]:"));
  const auto s = weir::open_store(io.get_executor(), six.url() + "?timeout=50s");
  BOOST_TEST(!record(s).failed());
}

BOOST_AUTO_TEST_CASE(localhost) {
  auto o = options();
  o.host = "localhost";
  BOOST_TEST(!record(o).failed());
}

// As "localhost" does where it is ::1 first, and the server listens on 127.0.0.1 alone.
BOOST_AUTO_TEST_CASE(addresses_that_refuse_are_passed_over) {
  addresses_of_name = {"::1", "127.0.0.2", "127.0.0.1"};
  auto o = options();
  o.backoff_min = o.backoff_max = 1h;  // one attempt must do
  BOOST_TEST(!record(o).failed());
  addresses_of_name = {"127.0.0.1", "::1", "127.0.0.2"};
  BOOST_TEST(!record(o).failed());
}

BOOST_AUTO_TEST_CASE(an_address_that_does_not_answer_leaves_time_for_the_next) {
  const black_hole first(io, neighbour("127.0.0.2")), second(io, neighbour("127.0.0.3"));
  addresses_of_name = {"127.0.0.2", "127.0.0.3", "127.0.0.1"};
  auto o = options();
  o.backoff_min = o.backoff_max = 1h;
  o.connect_timeout = 3s;  // a second each
  BOOST_TEST(!record(o).failed());
}

BOOST_AUTO_TEST_CASE(an_address_that_only_connects_is_not_tried_first_for_ever) {
  const mute first(io, neighbour("127.0.0.2"));
  addresses_of_name = {"127.0.0.4", "127.0.0.2", "127.0.0.1"};
  auto o = options();
  o.connect_timeout = 50ms;
  const auto s = weir::make_redis_store(io.get_executor(), o);
  BOOST_TEST(!record(s).failed());
  BOOST_TEST(first.peers.size() >= 1u);
  // The one that answers stays the one.
  const std::size_t before = first.peers.size();
  weir::test::redis_client(server).must("CLIENT", "KILL", "TYPE", "normal");
  weir::test::run_until(io, [&] { return !record(s).failed(); });
  BOOST_TEST(first.peers.size() == before);
}

// Each of these was once asked again and again, though the server was behind the next address.
BOOST_AUTO_TEST_CASE(behind_an_address_that_greets_and_serves_nothing_another_is_tried) {
  using manner = impostor::manner;
  for (const manner m : {manner::silent, manner::drips, manner::hangs_up, manner::talks_nonsense}) {
    BOOST_TEST_CONTEXT("manner " << static_cast<int>(m)) {
      const impostor first(io, neighbour("127.0.0.2"), m);
      addresses_of_name = {"127.0.0.2", "127.0.0.1"};
      auto o = options();
      o.silence_timeout = 50ms;
      const auto s = weir::make_redis_store(io.get_executor(), o);
      weir::test::run_until(io, [&] { return !record(s).failed(); });
      BOOST_TEST(first.connections() == 1u);
    }
  }
}

// A replica connects and greets as well as a primary.
BOOST_AUTO_TEST_CASE(behind_a_replica_another_address_is_tried) {
  const redis_server replica(
      {.address = "127.0.0.2",
       .arguments = {"--port", std::to_string(server.port()), "--replicaof", "127.0.0.1", "1"}});
  addresses_of_name = {"127.0.0.2", "127.0.0.1"};
  const auto s = weir::make_redis_store(io.get_executor(), options());
  BOOST_TEST(!record(s).failed());
  BOOST_TEST(weir::test::redis_client(replica)
                 .must("INFO", "commandstats")
                 .text.find("cmdstat_eval:calls=1,") != std::string::npos);
}

// Each of its answers was once thrown away, because connect_timeout had passed, and the name asked
// for anew: for ever.
BOOST_AUTO_TEST_CASE(a_name_server_slower_than_an_attempt_is_waited_for) {
  addresses_of_name = {"127.0.0.1"};
  name_server.delay = 100ms;
  auto o = options();
  o.connect_timeout = 40ms;
  o.backoff_max = 20ms;
  BOOST_TEST(!record(o).failed());
  name_server.delay = 0ms;
}

// Asio has one thread for all names of a context. While a name server hung, no store of the context
// connected anew, not even those whose address was a number.
BOOST_AUTO_TEST_CASE(a_name_that_is_not_answered_hurts_only_its_own_store) {
  addresses_of_name = {"127.0.0.1"};
  name_server.silent = true;
  auto o = options();
  o.connect_timeout = 20ms;
  o.backoff_max = 1ms;
  o.timeout = 200ms;
  const auto hanging = weir::make_redis_store(io.get_executor(), o);
  const int asked = name_server.asked;
  BOOST_TEST(record(hanging).failed());
  name_server.wait_until_inside(1);
  BOOST_TEST(name_server.asked == asked + 1);  // in several attempts
  auto numeric = options();
  numeric.host = "127.0.0.1";
  BOOST_TEST(!record(numeric).failed());
  BOOST_TEST(name_server.asked == asked + 1);  // what is a number already is asked for nowhere
  auto named = options();
  named.host = "localhost";
  BOOST_TEST(!record(named).failed());
  name_server.speak_again();
  weir::test::run_until(io, [&] { return !record(hanging).failed(); });
}

// An answer that came between two attempts was once thrown away.
BOOST_AUTO_TEST_CASE(an_answer_that_nobody_waits_for_is_kept_for_the_next_attempt) {
  addresses_of_name = {"127.0.0.1"};
  name_server.silent = true;
  auto o = options();
  o.connect_timeout = 1s;  // also for the attempt that succeeds, on a slow machine
  o.backoff_min = o.backoff_max = 50ms;
  const auto s = weir::make_redis_store(io.get_executor(), o);
  const int asked = name_server.asked;
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 5, .window = 24h});
  crowd early, patient;
  l.record("a", {.timeout = 1020ms}, early.caller());
  l.record("a", patient.caller());
  weir::test::run_until_complete(io, early);
  name_server.speak_again();
  weir::test::run_until_complete(io, patient);
  BOOST_TEST(!patient[0].ec.failed());
  BOOST_TEST(name_server.asked == asked + 1);
}

BOOST_AUTO_TEST_CASE(a_store_may_be_closed_while_its_name_is_looked_up) {
  addresses_of_name = {"127.0.0.1"};
  name_server.silent = true;
  auto s = std::make_unique<weir::store>(weir::make_redis_store(io.get_executor(), options()));
  crowd c;
  weir::limiter(*s, "r", weir::fixed_window{.limit = 5, .window = 24h}).record("a", c.caller());
  io.poll();
  s->close();
  weir::test::run_until_complete(io, c);
  WEIR_TEST_ERROR(c[0].ec, error::store_closed);
  s.reset();
  weir::test::run_out(io);  // run() does not wait for the name server
  name_server.wait_until_inside(1);
  name_server.speak_again();
  name_server.wait_until_inside(0);
  weir::test::run_out(io);
}

// The end of the context does not wait for the name server either. The question once kept the
// connection, and the connection the question: a leak, for the sanitizer to see.
BOOST_AUTO_TEST_CASE(a_context_may_end_while_a_name_is_looked_up) {
  addresses_of_name = {"127.0.0.1"};
  name_server.silent = true;
  for (const bool store_first : {false, true}) {
    std::optional<asio::io_context> ends(std::in_place);
    crowd c;
    std::optional<weir::store> s(weir::make_redis_store(ends->get_executor(), options()));
    weir::limiter(*s, "r", weir::fixed_window{.limit = 5, .window = 24h}).record("a", c.caller());
    ends->poll();
    if (store_first) s.reset();
    ends.reset();
  }
  name_server.wait_until_inside(2);
  name_server.speak_again();
  name_server.wait_until_inside(0);
}

// The answer comes at the same time as the end of the context, or a little before or after.
BOOST_AUTO_TEST_CASE(a_context_may_end_just_when_a_name_is_found) {
  addresses_of_name = {"127.0.0.1"};
  for (int i = 0; i < 50; ++i) {
    name_server.silent = true;
    std::optional<asio::io_context> ends(std::in_place);
    const auto s = weir::make_redis_store(ends->get_executor(), options());
    ends->poll();
    name_server.wait_until_inside(1);
    name_server.speak_again();
    if (i % 2 == 0) ends->poll();
    ends.reset();
    name_server.wait_until_inside(0);
  }
}

// The thread of this look-up is there until the test's process ends, and must not disturb that.
BOOST_AUTO_TEST_CASE(a_process_may_end_while_a_name_is_looked_up) {
  auto o = options();
  o.host = "never.test";
  o.timeout = 50ms;
  BOOST_TEST(record(o).failed());
}

BOOST_AUTO_TEST_CASE(a_name_without_a_server_is_waited_for) {
  addresses_of_name = {"127.0.0.2", "127.0.0.4"};
  auto o = options();
  o.timeout = 250ms;  // the look-up has its own thread, which may come late
  WEIR_TEST_ERROR(record(o), error::connection_refused);
  addresses_of_name = std::vector<std::string>();  // no such name
  WEIR_TEST_ERROR(record(o), error::host_not_found);
}

// The running look-up of the first name was taken for one of the second, which was never looked up.
BOOST_AUTO_TEST_CASE(a_sentinel_whose_name_is_not_answered_is_passed_over) {
  const weir::test::sentinel_group group({.replicas = 0, .sentinels = 1});
  const auto port = static_cast<std::uint16_t>(group.sentinels.front().port());
  name_server.silent = true;
  auto o = group.options();
  o.sentinel.addresses = {{"several.test", port}, {"localhost", port}};
  o.connect_timeout = 100ms;
  o.backoff_min = o.backoff_max = 20ms;
  BOOST_TEST(record(o).message() == weir::error_code().message());
  name_server.speak_again();
  name_server.wait_until_inside(0);
}

// After a failover to a master with another name, the store connected to the old master.
BOOST_AUTO_TEST_CASE(a_name_does_not_get_the_late_answer_of_another_name) {
  addresses_of_name = {"127.0.0.9"};
  asker a(io);
  a.ask_in_vain("old.several.test", 1);
  a.ask("localhost", 2);
  name_server.speak_again();
  a.wait_for_report();
  BOOST_TEST(!a.found.starts_with("127.0.0.9"));
  BOOST_TEST(a.found.ends_with(":2"));
  name_server.wait_until_inside(0);
}

BOOST_AUTO_TEST_CASE(a_numeric_address_does_not_get_the_late_answer_of_a_name) {
  addresses_of_name = {"127.0.0.9"};
  asker a(io);
  a.ask_in_vain("several.test", 1);
  name_server.speak_again();
  name_server.wait_until_inside(0);
  a.ask("127.0.0.3", 2);
  a.wait_for_report();
  BOOST_TEST(a.found == "127.0.0.3:2");
}

// The late answer had the port of the first question.
BOOST_AUTO_TEST_CASE(a_late_answer_gets_the_port_that_is_asked_for) {
  addresses_of_name = {"127.0.0.9", "::1"};
  asker a(io);
  for (const bool joins : {true, false}) {
    const int asked = name_server.asked;
    a.ask_in_vain("several.test", 1);
    if (!joins) a.hear_late_answer();
    a.ask("several.test", 2);
    name_server.speak_again();
    a.wait_for_report();
    BOOST_TEST(a.found == "127.0.0.9:2 [::1]:2");
    BOOST_TEST(name_server.asked == asked + 1);
    name_server.wait_until_inside(0);
  }
}

// With several Sentinels, the next one is asked while the look-up of a slow name continues.
BOOST_AUTO_TEST_CASE(a_slow_name_keeps_its_look_up_while_another_name_is_asked_for) {
  addresses_of_name = {"127.0.0.9"};
  asker a(io);
  for (const bool joins : {true, false}) {
    const int asked = name_server.asked;
    a.ask_in_vain("several.test", 1);
    if (!joins) a.hear_late_answer();
    a.ask("localhost", 2);
    a.wait_for_report();
    BOOST_TEST(a.found.ends_with(":2"));
    a.ask("several.test", 1);
    name_server.speak_again();
    a.wait_for_report();
    BOOST_TEST(a.found == "127.0.0.9:1");
    BOOST_TEST(name_server.asked == asked + 2);
    name_server.wait_until_inside(0);
  }
}

BOOST_AUTO_TEST_CASE(the_number_of_look_ups_in_progress_is_bounded) {
  addresses_of_name = {"127.0.0.9"};
  asker a(io);
  for (std::size_t i = 0; i < resolver::max_names; ++i) {
    a.ask_in_vain(std::to_string(i) + ".several.test", 1);
  }
  const int asked = name_server.asked;
  a.ask("localhost", 2);
  a.wait_for_report();
  BOOST_TEST(a.found == "");
  BOOST_TEST(name_server.asked == asked);
  a.hear_late_answer();  // an answer makes room
  a.ask("localhost", 2);
  a.wait_for_report();
  BOOST_TEST(a.found.ends_with(":2"));
  name_server.wait_until_inside(0);
}

BOOST_AUTO_TEST_SUITE_END()

// The proxy itself: each fault is what its name says, at the byte that was named, and nothing else
// happens.
#include "support/fault_proxy.hpp"

#include "support/run.hpp"

namespace proxy_test {

using namespace weir;
using namespace weir::test;
using asio::ip::tcp;
using boost::system::error_code;

/// A plain connection that keeps what it reads.
struct talk : std::enable_shared_from_this<talk> {
  talk(asio::io_context& context, const fault_proxy& proxy) : io(context), socket(context) {
    socket.connect({asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(proxy.port())});
  }
  void say(const std::string& bytes) {
    asio::async_write(socket, asio::buffer(said.emplace_back(bytes)),
                      [self = shared_from_this()](error_code, std::size_t) {});
  }
  void read() {
    socket.async_read_some(asio::buffer(room),
                           [self = shared_from_this()](error_code ec, std::size_t n) {
                             self->heard.append(self->room.data(), n);
                             if (ec) {
                               self->end = ec;
                             } else {
                               self->read();
                             }
                           });
  }
  void hear(const std::string& expected) {
    run_until(io, [&] { return heard.size() >= expected.size() || end.failed(); });
    BOOST_TEST(heard == expected);
  }

  asio::io_context& io;
  tcp::socket socket;
  std::deque<std::string> said;
  std::array<char, 4096> room{};
  std::string heard;
  error_code end;
};

/// Its handlers may outlive the scope.
struct peer : std::shared_ptr<talk> {
  peer(asio::io_context& io, const fault_proxy& proxy)
      : std::shared_ptr<talk>(std::make_shared<talk>(io, proxy)) {
    get()->read();
  }
  ~peer() { get()->socket.close(); }
};

const std::string pong = "+PONG\r\n";

struct fixture {
  redis_server server;
  asio::io_context io;
  fault_proxy proxy{io, server};

  std::size_t count(fault::kind k) const { return proxy.counts().of(k); }
  /// Another connection's question has been answered: whatever could happen to the first one has
  /// happened.
  void let_pass() {
    peer other(io, proxy);
    other->say("PING\r\n");
    other->hear(pong);
  }
};

BOOST_FIXTURE_TEST_SUITE(proxy_suite, fixture)

BOOST_AUTO_TEST_CASE(without_a_fault_everything_passes) {
  peer p(io, proxy);
  const std::string big(300'000, 'x');
  p->say("*2\r\n$4\r\nECHO\r\n$300000\r\n" + big + "\r\nPING\r\n");
  p->hear("$300000\r\n" + big + "\r\n" + pong);
  BOOST_TEST(proxy.counts().all_faults() == 0u);
  BOOST_TEST(proxy.counts().accepted == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_delayed_or_throttled_keeps_its_order) {
  for (const way w : {way::requests, way::replies}) {
    peer p(io, proxy);
    let_pass();
    proxy.strike({.what = fault::kind::delay, .way = w, .after = 3, .pause = 1ms, .again = 50});
    std::string expected;
    for (int i = 100; i < 200; ++i) {
      p->say("ECHO " + std::to_string(i) + "\r\n");
      expected += "$3\r\n" + std::to_string(i) + "\r\n";
    }
    p->hear(expected);
    proxy.strike({.what = fault::kind::throttle, .way = w, .after = 3, .rate = 100'000});
    p->say("ECHO 7\r\nECHO 8\r\n");
    p->hear(expected + "$1\r\n7\r\n$1\r\n8\r\n");
    proxy.lift();
  }
  BOOST_TEST(count(fault::kind::delay) >= 20u);
  BOOST_TEST(count(fault::kind::throttle) == 2u);
}

BOOST_AUTO_TEST_CASE(a_connection_is_cut_in_order_or_broken_off_at_its_byte) {
  for (const auto what : {fault::kind::cut, fault::kind::reset}) {
    peer p(io, proxy);
    p->say("PING\r\n");
    p->hear(pong);
    proxy.strike({.what = what, .after = 4});
    p->say("PING\r\n");
    run_until(io, [&] { return p->end.failed(); });
    const error_code expected = what == fault::kind::cut
                                    ? error_code(asio::error::eof)
                                    : error_code(asio::error::connection_reset);
    BOOST_TEST(p->end == expected);
    if (what == fault::kind::cut) BOOST_TEST(p->heard == pong + "+PON");
    p->socket.close();
    run_until(io, [&] { return proxy.open_connections() == 0; });
  }
  BOOST_TEST(count(fault::kind::cut) == 1u);
  BOOST_TEST(count(fault::kind::reset) == 1u);
}

BOOST_AUTO_TEST_CASE(a_half_open_connection_stays_and_says_nothing) {
  peer p(io, proxy);
  p->say("PING\r\n");
  p->hear(pong);
  proxy.strike({.what = fault::kind::half_open});
  p->say("SET a 1\r\n");
  server.restart();  // nor does it tell that the other end is gone
  let_pass();
  proxy.lift();
  p->say("PING\r\n");
  let_pass();
  BOOST_TEST(p->heard == pong);
  BOOST_TEST(!p->end.failed());
  peer other(io, proxy);
  other->say("EXISTS a\r\n");
  other->hear(":0\r\n");
}

BOOST_AUTO_TEST_CASE(a_truncated_reply_never_goes_on_but_requests_do) {
  peer p(io, proxy);
  p->say("PING\r\n");
  p->hear(pong);
  proxy.strike({.what = fault::kind::truncate, .after = 2});
  p->say("SET a 1\r\n");
  p->hear(pong + "+O");
  p->say("SET b 1\r\n");
  peer other(io, proxy);
  run_until(io, [&] {
    other->say("EXISTS b\r\n");
    const std::size_t before = other->heard.size();
    run_until(io, [&] { return other->heard.size() >= before + 4; });
    return other->heard.ends_with(":1\r\n");
  });
  BOOST_TEST(p->heard == pong + "+O");
  BOOST_TEST(!p->end.failed());
}

BOOST_AUTO_TEST_CASE(what_is_stalled_goes_on_when_the_fault_is_lifted) {
  peer p(io, proxy);
  p->say("PING\r\n");
  p->hear(pong);
  proxy.strike({.what = fault::kind::stall, .way = way::requests});
  p->say("PING\r\n");
  let_pass();
  BOOST_TEST(p->heard == pong);
  proxy.lift();
  p->hear(pong + pong);
}

BOOST_AUTO_TEST_CASE(bytes_come_in_between) {
  peer p(io, proxy);
  p->say("PING\r\n");
  p->hear(pong);
  proxy.strike({.what = fault::kind::stray, .after = 7});
  p->say("PING\r\nPING\r\n");
  p->hear(pong + pong + "+stray\r\n" + pong);
  proxy.strike({.what = fault::kind::garbage});
  p->say("PING\r\n");
  run_until(io, [&] { return p->heard.ends_with("#garbage" + pong); });
  proxy.strike({.what = fault::kind::garbage, .way = way::requests});
  run_until(io, [&] { return p->end.failed(); });
  BOOST_TEST(p->heard.find("Protocol error") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(connections_are_planned_refused_and_sent_elsewhere) {
  proxy.plan([](std::size_t number) {
    return number == 0 ? std::vector<fault>{{.what = fault::kind::cut, .after = 1}}
                       : std::vector<fault>{};
  });
  peer first(io, proxy), second(io, proxy);
  first->say("PING\r\n");
  second->say("PING\r\n");
  second->hear(pong);
  run_until(io, [&] { return first->end.failed(); });
  BOOST_TEST(first->heard == "+");

  proxy.refuse(true);
  peer third(io, proxy);
  run_until(io, [&] { return third->end.failed(); });
  BOOST_TEST(proxy.counts().refused == 1u);
  proxy.lift();

  redis_server elsewhere({.arguments = {"--databases", "3"}});
  proxy.aim_at(elsewhere);
  peer fourth(io, proxy);
  fourth->say("CONFIG GET databases\r\n");
  fourth->hear("*2\r\n$9\r\ndatabases\r\n$1\r\n3\r\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace proxy_test

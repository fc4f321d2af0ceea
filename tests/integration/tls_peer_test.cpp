// TLS with peers of the test's own: what the client says first, and what it makes of peers that
// answer strangely.
#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "support/run.hpp"
#include "support/tls_certificates.hpp"

namespace tls_peer_test {

using namespace weir;
using namespace weir::test;
using asio::ip::tcp;

/// Accepts connections for ever and hands each to the test.
class listener {
 public:
  using handler = std::function<void(std::shared_ptr<tcp::socket>)>;
  listener(asio::io_context& io, handler h)
      : acceptor_(io, {asio::ip::address_v4::loopback(), 0}), handler_(std::move(h)) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code ec, tcp::socket peer) {
      if (ec) return;
      handler_(std::make_shared<tcp::socket>(std::move(peer)));
      accept();
    });
  }
  tcp::acceptor acceptor_;
  handler handler_;
};

/// A TLS server that notes what it was asked for, and hangs up after the handshake.
class tls_peer {
 public:
  tls_peer(asio::io_context& io, const tls_files& files)
      : context_(asio::ssl::context::tls_server), listener_(io, [this](auto s) { serve(s); }) {
    context_.use_certificate_chain_file(files.certificate);
    context_.use_private_key_file(files.key, asio::ssl::context::pem);
  }
  std::uint16_t port() const { return listener_.port(); }
  void up_to(int version) {
    SSL_CTX_set_max_proto_version(context_.native_handle(), version);
    SSL_CTX_set_min_proto_version(context_.native_handle(), 0);
    SSL_CTX_set_security_level(context_.native_handle(),
                               0);  // above, OpenSSL 3 refuses old ones itself
  }

  std::vector<std::string> names;  ///< SNI of each handshake; "-" for none
  int handshakes = 0;              ///< those that succeeded

 private:
  void serve(std::shared_ptr<tcp::socket> socket) {
    auto stream = std::make_shared<asio::ssl::stream<tcp::socket&>>(*socket, context_);
    stream->async_handshake(asio::ssl::stream_base::server, [this, socket, stream](error_code ec) {
      const char* name = SSL_get_servername(stream->native_handle(), TLSEXT_NAMETYPE_host_name);
      names.emplace_back(name ? name : "-");
      if (!ec) ++handshakes;
    });
  }
  asio::ssl::context context_;
  listener listener_;
};

struct fixture {
  certificate_authority ca;
  asio::io_context io;

  redis_options to(std::uint16_t port) const {
    redis_options o;
    o.port = port;
    o.tls = true;
    o.tls_ca_file = ca.file();
    o.timeout = 50s;
    o.backoff_max = o.backoff_min = 1ms;
    o.breaker_failures = 0;
    return o;
  }
  error_code record(const redis_options& o) {
    crowd c;
    limiter(make_redis_store(io.get_executor(), o), "r", fixed_window{.limit = 5, .window = 24h})
        .record("a", c.caller());
    run_until_complete(io, c);
    return c[0].ec;
  }
  /// Calls wait for something better; what they hear at their deadlines is what happened.
  void told_in_the_end(std::uint16_t port, error expected) {
    auto o = to(port);
    o.timeout = 50ms;
    run_until(io, [&] {
      const auto ec = record(o);
      // No attempt has come to its end, or to TLS.
      if (ec == error::timed_out || ec == error::host_unreachable) return false;
      WEIR_TEST_ERROR(ec, expected);
      return true;
    });
  }
};

BOOST_FIXTURE_TEST_SUITE(tls_peer_suite, fixture)

BOOST_AUTO_TEST_CASE(names_are_asked_for_and_addresses_are_not) {
  tls_peer peer(io, ca.issue("DNS:localhost,DNS:redis.example,IP:127.0.0.1,IP:::1"));
  auto o = to(peer.port());
  const auto asked_for = [&] {
    peer.names.clear();
    peer.handshakes = 0;
    const auto s = make_redis_store(io.get_executor(), o);
    run_until(io, [&] { return !peer.names.empty(); });
    BOOST_TEST(peer.handshakes == 1);
    return peer.names[0];
  };
  BOOST_TEST(asked_for() == "-");
  o.host = "localhost";
  BOOST_TEST(asked_for() == "localhost");
  o.tls_server_name = "redis.example.";
  BOOST_TEST(asked_for() == "redis.example");
  o.tls_server_name = "::1";
  BOOST_TEST(asked_for() == "-");
  o.tls_server_name = "anything.example";
  o.tls_verify = false;
  o.tls_ca_file.clear();
  BOOST_TEST(asked_for() == "anything.example");
}

BOOST_AUTO_TEST_CASE(old_versions_are_refused) {
  tls_peer peer(io, ca.issue("IP:127.0.0.1"));
  peer.up_to(TLS1_1_VERSION);
  WEIR_TEST_ERROR(record(to(peer.port())), error::tls_failed);
  BOOST_TEST(peer.handshakes == 0);
}

BOOST_AUTO_TEST_CASE(a_peer_that_hangs_up_after_the_handshake_is_told_in_the_end) {
  tls_peer peer(io, ca.issue("IP:127.0.0.1"));
  told_in_the_end(peer.port(), error::closed_by_peer);
  BOOST_TEST(peer.handshakes > 0);
}

BOOST_AUTO_TEST_CASE(what_is_not_tls_is_refused_at_once) {
  for (const std::string text : {"HTTP/1.1 400 Bad Request\r\n\r\n", "-ERR unknown command\r\n"}) {
    listener other(io, [&](auto s) {
      asio::async_write(*s, asio::buffer(text), [s](error_code, std::size_t) {
        auto room = std::make_shared<char>();
        s->async_read_some(asio::buffer(room.get(), 1), [s, room](error_code, std::size_t) {});
      });
    });
    WEIR_TEST_ERROR(record(to(other.port())), error::tls_failed);
  }
}

// It may be a proxy whose server is just starting: no certificate has been refused, so calls wait.
BOOST_AUTO_TEST_CASE(a_peer_that_hangs_up_before_the_handshake_is_waited_for) {
  listener other(io, [](auto) {});
  told_in_the_end(other.port(), error::closed_by_peer);
}

BOOST_AUTO_TEST_CASE(a_deadline_during_the_handshake_is_told_as_tls_failed) {
  std::vector<std::shared_ptr<tcp::socket>> peers;
  listener silent(io, [&](auto s) { peers.push_back(std::move(s)); });
  told_in_the_end(silent.port(), error::tls_failed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tls_peer_test

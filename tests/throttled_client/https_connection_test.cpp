// The example's connection: what is read as an answer, and when another request may follow.
#include "https_connection.hpp"

#include <boost/asio/ssl/error.hpp>

#include "https_peer.hpp"
#include "support/run.hpp"

namespace https_connection_test {

using namespace weir;
using namespace weir::test;
namespace beast = boost::beast;
namespace http = beast::http;
using throttled::http_request;
using throttled::http_response;
using throttled::https_connection;
using throttled::may_pass;

constexpr auto patience = 30s;  // of exchanges that are to end by themselves
constexpr auto any_idle = 1h;

/// Not asked for: what a server says that has waited in vain.
const std::string unasked = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";

struct fixture {
  certificate_authority ca;
  const tls_files files = ca.issue("DNS:localhost,IP:127.0.0.1");
  asio::io_context io;
  asio::ssl::context tls{asio::ssl::context::tls_client};
  std::optional<https_connection> client;
  http_request request{http::verb::get, "/", 11};

  fixture() {
    tls.load_verify_file(ca.file());
    renew();
  }
  void renew() { client.emplace(io.get_executor(), tls); }

  asio::awaitable<void> connect(const https_peer& peer, std::string host = "localhost") {
    renew();
    const asio::ip::tcp::endpoint there(asio::ip::address_v4::loopback(), peer.port());
    const auto to = throttled::addresses::create(there, host, "");
    co_await client->connect(to, host, patience);
  }
  /// One exchange, and the body of its answer.
  asio::awaitable<std::string> ask() {
    const http_response response = co_await client->exchange(request, patience);
    co_return response.body();
  }
  /// What an exchange over a new connection comes to.
  error_code failure_of(https_peer::script to_say, std::chrono::milliseconds timeout = patience,
                        std::uint64_t body_limit = 1000) {
    https_peer peer(io, files, std::move(to_say));
    const error_code ec = error_of([&] {
      run(io, [&]() -> asio::awaitable<void> {
        co_await connect(peer);
        (void)co_await client->exchange(request, timeout, body_limit);
      });
    });
    BOOST_TEST(client->is_usable(any_idle) == !ec.failed());
    return ec;
  }
  /// Whether the connection may be used once more, after one answer that is read as "one".
  bool usable_after(https_peer::script to_say) {
    https_peer peer(io, files, std::move(to_say));
    run(io, [&]() -> asio::awaitable<void> {
      co_await connect(peer);
      BOOST_TEST(co_await ask() == "one");
      co_await peer.done(0);
    });
    return client->is_usable(any_idle);
  }
};

BOOST_FIXTURE_TEST_SUITE(https_connection_suite, fixture)

BOOST_AUTO_TEST_CASE(one_connection_serves_many_requests) {
  BOOST_TEST(!client->is_usable(any_idle));  // it was never opened
  https_peer peer(io, files, {{{ok("one")}, {ok("two")}, {ok("three")}}});
  run(io, [&]() -> asio::awaitable<void> {
    co_await connect(peer);
    for (const std::string body : {"one", "two", "three"}) {
      BOOST_TEST(client->is_usable(any_idle));
      const std::string got = co_await ask();
      BOOST_TEST(got == body);
    }
  });
  BOOST_TEST(client->is_usable(any_idle));
  BOOST_TEST(peer.accepted() == 1u);
  BOOST_TEST(peer.seen().size() == 3u);
}

// The tickets for later sessions, which a server sends behind its handshake: they are not an answer
// to anything.
BOOST_AUTO_TEST_CASE(a_new_connection_with_session_tickets_is_used) {
  https_peer peer(io, files);
  run(io, [&]() -> asio::awaitable<void> {
    co_await connect(peer);
    BOOST_TEST(client->is_usable(any_idle));
    co_await peer.done(0);  // now they are here
    BOOST_TEST(client->is_usable(any_idle));
    co_await peer.say(0, ok("one"));
    BOOST_TEST(co_await ask() == "one");
    BOOST_TEST(client->is_usable(any_idle));
  });
}

BOOST_AUTO_TEST_CASE(a_new_connection_that_the_server_closed_is_not_used) {
  for (const ending how : {ending::goodbye, ending::cut}) {
    https_peer peer(io, files);
    run(io, [&]() -> asio::awaitable<void> {
      co_await connect(peer);
      co_await peer.end(0, how);
    });
    BOOST_TEST(!client->is_usable(any_idle));
  }
}

BOOST_AUTO_TEST_CASE(what_follows_an_answer_decides_whether_the_connection_is_used_again) {
  const std::string head = "HTTP/1.1 200 OK\r\n", three = "Content-Length: 3\r\n\r\none";
  const struct {
    const char* what;
    answer said;
    bool is_usable;
  } table[] = {
      {"the server closes", {ok("one"), ending::goodbye}, false},
      {"it breaks", {ok("one"), ending::cut}, false},
      {"the server means to close", {head + "Connection: close\r\n" + three}, false},
      {"the body ends with the connection", {head + "\r\none", ending::goodbye}, false},
      {"words to go on are no answer",
       {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok("one")},
       true},
  };
  for (const auto& [what, said, is_usable] : table) {
    BOOST_TEST(usable_after({{said}}) == is_usable, what);
  }
  request.keep_alive(false);
  BOOST_TEST(!usable_after({{{ok("one")}}}));
}

BOOST_AUTO_TEST_CASE(a_connection_that_was_idle_for_too_long_is_not_used_again) {
  https_peer peer(io, files, {{{ok("one")}}});
  run(io, [&]() -> asio::awaitable<void> {
    co_await connect(peer);
    BOOST_TEST(!client->is_usable(-1ms));
    BOOST_TEST(co_await ask() == "one");
  });
  BOOST_TEST(client->is_usable(any_idle));
  BOOST_TEST(!client->is_usable(-1ms));
}

BOOST_AUTO_TEST_CASE(the_length_in_an_answer_to_head_is_not_waited_for) {
  https_peer peer(io, files, {{{"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"}, {ok("two")}}});
  run(io, [&]() -> asio::awaitable<void> {
    co_await connect(peer);
    request.method(http::verb::head);
    BOOST_TEST(co_await ask() == "");
    BOOST_TEST(client->is_usable(any_idle));
    request.method(http::verb::get);
    BOOST_TEST(co_await ask() == "two");
  });
}

// A body without end would fill the memory. And anybody on the way can end a connection, without a
// close_notify.
BOOST_AUTO_TEST_CASE(an_answer_that_is_too_long_or_not_whole_is_an_error) {
  const std::string no_length = "HTTP/1.1 200 OK\r\n\r\none";
  const std::string half = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\none";
  const error_code truncated = asio::ssl::error::stream_truncated;
  const struct {
    answer said;
    error_code is;
  } table[] = {
      {{ok(std::string(1000, 'x'))}, {}},
      {{ok(std::string(1001, 'x'))}, http::error::body_limit},
      {{no_length, ending::cut}, truncated},
      {{half, ending::cut}, truncated},
      {{half, ending::goodbye}, http::error::partial_message},
  };
  for (const auto& [said, is] : table) {
    BOOST_TEST_CONTEXT(is.message()) { WEIR_TEST_ERROR(failure_of({{said}}), is); }
  }
}

// Else they would be the answer to the next request: another caller's, maybe. They may be where
// no check looks: behind what was read of a record, whatever the answer's length.
BOOST_AUTO_TEST_CASE(what_stands_behind_an_answer_is_not_taken_for_the_next) {
  for (std::size_t padding = 0; padding < 1200; padding += padding < 400 ? 200 : 1) {
    if (padding > 500 && padding < 900) padding = 900;
    const std::string one = "HTTP/1.1 200 OK\r\nX-Padding: " + std::string(padding, 'x') +
                            "\r\nContent-Length: 3\r\n\r\none";
    const bool usable = usable_after({{{one + unasked}}});
    BOOST_TEST(!usable, "of an answer of " << one.size() << " bytes");
  }
}

// As before, in a record of its own: behind the answer, or together with it; then it may lie
// deciphered nowhere, but no longer in the socket either.
BOOST_AUTO_TEST_CASE(what_came_with_or_after_an_answer_is_not_taken_for_the_next) {
  for (const bool together : {true, false}) {
    https_peer peer(io, files);
    run(io, [&]() -> asio::awaitable<void> {
      co_await connect(peer);
      co_await peer.say(0, ok("one"));
      if (together) co_await peer.say(0, unasked);
      BOOST_TEST(co_await ask() == "one");
      if (together) co_return;
      BOOST_TEST(client->is_usable(any_idle));
      co_await peer.say(0, unasked);
    });
    BOOST_TEST(!client->is_usable(any_idle));
  }
}

BOOST_AUTO_TEST_CASE(a_silent_server_is_not_waited_for_for_ever) {
  WEIR_TEST_ERROR(failure_of({}, 50ms), beast::error::timeout);
  // One that does not even greet.
  asio::ip::tcp::acceptor mute(io, {asio::ip::address_v4::loopback(), 0});
  const auto to = throttled::addresses::create(mute.local_endpoint(), "localhost", "");
  const std::string host = "localhost";
  renew();
  WEIR_TEST_ERROR(error_of([&] { run(io, [&] { return client->connect(to, host, 50ms); }); }),
                  beast::error::timeout);
}

// Servers may refuse an address.
BOOST_AUTO_TEST_CASE(a_name_is_asked_for_and_an_address_is_not) {
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    https_peer peer(io, files, {{{ok("one")}}});
    run(io, [&]() -> asio::awaitable<void> {
      co_await connect(peer, host);
      BOOST_TEST(co_await ask() == "one");
    });
    BOOST_TEST(peer.seen().at(0).server_name == (host == "localhost" ? host : ""));
  }
}

BOOST_AUTO_TEST_CASE(a_server_of_another_name_or_authority_is_told_nothing) {
  certificate_authority stranger;
  for (const tls_files& shown : {ca.issue("DNS:elsewhere.example,IP:127.0.0.2"),
                                 stranger.issue("DNS:localhost,IP:127.0.0.1")}) {
    https_peer peer(io, shown);
    for (const std::string host : {"localhost", "127.0.0.1"}) {
      const error_code ec = error_of([&] { run(io, [&] { return connect(peer, host); }); });
      BOOST_TEST((ec.category() == asio::error::get_ssl_category()), ec.message());
      BOOST_TEST(!may_pass(ec));
      BOOST_TEST(!client->is_usable(any_idle));
    }
  }
}

BOOST_AUTO_TEST_CASE(only_what_may_pass_is_tried_again) {
  const error_code passing[] = {asio::error::connection_refused,
                                asio::error::connection_reset,
                                asio::error::timed_out,
                                asio::error::broken_pipe,
                                asio::error::host_unreachable,
                                asio::error::network_unreachable,
                                asio::error::operation_aborted,  // the place was lost
                                asio::error::eof,
                                asio::error::host_not_found_try_again,
                                asio::ssl::error::stream_truncated,
                                beast::error::timeout,
                                http::error::end_of_stream,
                                http::error::partial_message};
  for (const error_code& ec : passing) BOOST_TEST(may_pass(ec), ec.message());
  const error_code lasting[] = {asio::error::host_not_found,
                                asio::error::service_not_found,
                                error_code(1, asio::error::get_ssl_category()),
                                http::error::body_limit,
                                http::error::header_limit,
                                http::error::bad_version,
                                make_error_code(error::timed_out)};
  for (const error_code& ec : lasting) BOOST_TEST(!may_pass(ec), ec.message());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace https_connection_test

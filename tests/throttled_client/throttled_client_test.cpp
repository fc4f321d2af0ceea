// The example's client against a server of the test's own: what is sent, how often, and when
// nothing may be.
#include "throttled_client.hpp"

#include <boost/asio/ssl/error.hpp>
#include <thread>

#include "https_peer.hpp"
#include "support/leases.hpp"

namespace throttled_client_test {

using namespace weir;
using namespace weir::test;
namespace http = boost::beast::http;
using throttled::client_options;
using throttled::http_request;
using throttled::http_response;
using throttled::too_busy;
using throttled::vendor_limits;

const answer breaks{.then = ending::cut};
const answer silence{};
const answer later{"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"};

struct fixture {
  certificate_authority ca;
  const tls_files files = ca.issue("IP:127.0.0.1");
  asio::io_context io;
  asio::ssl::context tls{asio::ssl::context::tls_client};
  std::chrono::microseconds ahead{0};  // the store's clock is
  std::optional<time_point> stopped;   // it is, there
  weir::store store = make_memory_store(
      io.get_executor(), {.clock = [this] {
        const auto now = std::chrono::system_clock::now();
        return stopped.value_or(std::chrono::time_point_cast<time_point::duration>(now)) + ahead;
      }});
  vendor_limits limits{.per_second = 100, .rate = 100, .saved_up = 100, .at_once = 2};
  client_options options{
      .host = "127.0.0.1", .account = "a", .timeout = 30s, .idle = 1h, .lease = 1h};
  std::optional<https_peer> peer;
  std::optional<throttled::throttled_client> client;
  int displaced = 0;
  int paused = 0;

  fixture() {
    tls.load_verify_file(ca.file());
    options.displaced = [this] { ++displaced; };
    options.paused = [this] { ++paused; };
  }
  ~fixture() { client.reset(); }  // its connections, before their context

  void begin(https_peer::script to_say) {
    client.reset();
    peer.emplace(io, files, std::move(to_say));
    options.port = std::to_string(peer->port());
    client.emplace(store, tls, limits, options);
  }
  /// The vendor's limit of calls at once, as another program would keep it.
  concurrency_limiter gate() {
    return {store, options.host, {.limit = limits.at_once, .lease_duration = 1h}};
  }
  std::vector<lease> take_all_places() {
    std::vector<lease> places;
    for (int i = 0; i < limits.at_once; ++i) places.push_back(enter(io, gate(), "a"));
    return places;
  }
  std::int64_t places_taken() { return fetch(io, gate(), "a").used; }

  /// One call, and the status of its answer.
  unsigned call(http_request& request) {
    unsigned status = 0;
    run(io, [&]() -> asio::awaitable<void> {
      const http_response response = co_await client->call(request);
      status = response.result_int();
    });
    return status;
  }
  unsigned call(http::verb method, bool with_key = false) {
    http_request request(method, "/things", 11);
    if (with_key) request.set("Idempotency-Key", "7");
    return call(request);
  }
  void construct() { throttled::throttled_client(store, tls, limits, options); }
};

BOOST_FIXTURE_TEST_SUITE(throttled_client_suite, fixture)

BOOST_AUTO_TEST_CASE(limits_and_leases_that_could_not_be_kept_are_refused) {
  for (const auto& [per_second, saved_up] : {std::pair(10, 20), std::pair(20, 10)}) {
    limits = {.per_second = per_second, .rate = 5, .saved_up = saved_up, .at_once = 9};
    BOOST_CHECK_NO_THROW(construct());
    for (const int too_many : {10, 11}) {  // nothing would be left of a second, or of what is saved
      limits.at_once = too_many;
      BOOST_CHECK_THROW(construct(), std::invalid_argument);
    }
  }
  limits.at_once = 9;
  options.timeout = 1000ms;
  options.lease = 1500ms;
  BOOST_CHECK_NO_THROW(construct());
  options.lease = 1499ms;
  BOOST_CHECK_THROW(construct(), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(calls_share_a_connection) {
  begin({{{ok("one")}, {ok("two")}}});
  BOOST_TEST(call(http::verb::get) == 200u);
  BOOST_TEST(call(http::verb::post) == 200u);
  BOOST_TEST(peer->accepted() == 1u);
  BOOST_TEST(peer->seen().size() == 2u);
  BOOST_TEST(places_taken() == 0);
}

BOOST_AUTO_TEST_CASE(connections_that_were_opened_beforehand_are_used) {
  begin({{{ok("one")}, {ok("two")}}, {{ok("one")}, {ok("two")}}});
  run(io, [&] { return client->connect(2); });
  BOOST_TEST(peer->accepted() == 2u);
  BOOST_TEST(call(http::verb::post) == 200u);
  BOOST_TEST(peer->accepted() == 2u);
}

// A caller that sent a POST over it could not know whether it was done.
BOOST_AUTO_TEST_CASE(a_kept_connection_that_the_server_closed_costs_no_call) {
  for (const ending how : {ending::goodbye, ending::cut}) {
    begin({{{ok("one"), how}}, {{ok("two")}}});
    BOOST_TEST(call(http::verb::get) == 200u);
    run(io, [&] { return peer->done(0); });
    BOOST_TEST(call(http::verb::post) == 200u);
    BOOST_TEST(peer->accepted() == 2u);
    BOOST_TEST_REQUIRE(peer->seen().size() == 2u);
    BOOST_TEST(peer->seen()[1].connection == 1u);
  }
}

// A lookup may take any time: a caller that waited for one inside would keep others out.
BOOST_AUTO_TEST_CASE(a_name_is_looked_up_before_a_place_is_taken) {
  options.attempts = 1;
  options.longest_wait = 20ms;
  begin({});
  options.port = "no-such-service";
  client.emplace(store, tls, limits, options);
  const auto places = take_all_places();
  WEIR_TEST_ERROR(error_of([&] { call(http::verb::get); }), asio::error::service_not_found);
}

// One whose body was cut off was an error, of which the store did not hear: the client called five
// times in the pause, and other processes went on.
BOOST_AUTO_TEST_CASE(a_pause_that_the_vendor_asks_for_is_kept) {
  const answer cut_off{
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{\"err",
      ending::cut};
  for (const bool is_whole : {true, false}) {
    begin(is_whole ? https_peer::script{{later, {ok("two")}}}
                   : https_peer::script{{cut_off}, {{ok("two")}}});
    paused = 0;
    BOOST_TEST(call(is_whole ? http::verb::post : http::verb::get) == 200u);
    BOOST_TEST(paused == 1);
    BOOST_TEST_REQUIRE(peer->seen().size() == 2u);
    // The store counts by the system's clock, which may be adjusted meanwhile.
    BOOST_TEST((peer->seen()[1].at - peer->seen()[0].at >= 990ms));
    BOOST_TEST(peer->accepted() == (is_whole ? 1u : 2u));
  }
}

// Turned away, it was not done: it may be called again whatever it is, but not for ever. Other
// answers are returned as they are.
BOOST_AUTO_TEST_CASE(the_last_refusal_and_other_answers_are_returned_as_they_are) {
  options.attempts = 2;
  begin({{later, later, {ok("three")}}});
  BOOST_TEST(call(http::verb::post) == 429u);
  BOOST_TEST(peer->seen().size() == 2u);
  BOOST_TEST(paused == 2);
  options.account = "another";
  begin({{{"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"}}});
  BOOST_TEST(call(http::verb::get) == 500u);
  BOOST_TEST(peer->seen().size() == 1u);
  BOOST_TEST(paused == 2);
}

BOOST_AUTO_TEST_CASE(what_may_have_been_done_is_not_sent_twice) {
  limits.at_once = 1;
  for (const auto method : {http::verb::post, http::verb::patch}) {
    begin({{breaks}, {{ok("two")}, {ok("three")}}});
    WEIR_TEST_ERROR(error_of([&] { call(method); }), asio::ssl::error::stream_truncated);
    BOOST_TEST(peer->seen().size() == 1u);
    BOOST_TEST(places_taken() == 0);
    BOOST_TEST(call(method) == 200u);
    BOOST_TEST(peer->accepted() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(what_may_be_done_twice_is_sent_again_when_a_connection_breaks) {
  using http::verb;
  limits.at_once = 1;
  for (const auto method :
       {verb::get, verb::head, verb::options, verb::put, verb::delete_, verb::post, verb::patch}) {
    begin({{breaks}, {{ok("")}}});
    const bool with_key = method == verb::post || method == verb::patch;
    BOOST_TEST(call(method, with_key) == 200u, http::to_string(method));
    BOOST_TEST_REQUIRE(peer->seen().size() == 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& seen = peer->seen()[i];
      BOOST_TEST(seen.connection == i);
      BOOST_TEST(seen.message.method_string() == http::to_string(method));
      BOOST_TEST(seen.message.target() == "/things");
      BOOST_TEST((seen.message["Idempotency-Key"] == (with_key ? "7" : "")));
    }
    BOOST_TEST(places_taken() == 0);
  }
}

BOOST_AUTO_TEST_CASE(what_always_breaks_is_not_sent_for_ever) {
  options.attempts = 2;
  begin({{breaks}, {breaks}, {{ok("three")}}});
  WEIR_TEST_ERROR(error_of([&] { call(http::verb::get); }), asio::ssl::error::stream_truncated);
  BOOST_TEST(peer->seen().size() == 2u);
}

BOOST_AUTO_TEST_CASE(every_request_is_prepared_anew) {
  int prepared = 0;
  options.prepare = [&](http_request& r) { r.set("X-Signature", std::to_string(++prepared)); };
  begin({{breaks}, {{ok("two")}}});
  BOOST_TEST(call(http::verb::get) == 200u);
  BOOST_TEST_REQUIRE(peer->seen().size() == 2u);
  const auto signature = [&](std::size_t i) {
    return std::stoi(std::string(peer->seen()[i].message["X-Signature"]));
  };
  BOOST_TEST(signature(0) > 0);
  BOOST_TEST(signature(1) > signature(0));
  BOOST_TEST(signature(1) == prepared);
}

BOOST_AUTO_TEST_CASE(no_call_waits_for_a_lease_for_ever) {
  options.longest_wait = 20ms;
  begin({{{ok("one")}}});
  auto places = take_all_places();
  BOOST_CHECK_THROW(call(http::verb::get), too_busy);
  BOOST_TEST(peer->seen().empty());
  places.pop_back();
  BOOST_TEST(call(http::verb::get) == 200u);
}

BOOST_AUTO_TEST_CASE(no_call_waits_for_a_reservation_for_ever) {
  stopped = time_point(1'000'000s);
  limits = {.per_second = 2, .rate = 1, .saved_up = 10, .at_once = 1};
  options.longest_wait = 20ms;
  begin({{{ok("one")}, {ok("two")}}});
  BOOST_TEST(call(http::verb::get) == 200u);
  BOOST_CHECK_THROW(call(http::verb::get), too_busy);
  BOOST_TEST(peer->seen().size() == 1u);
  BOOST_TEST(places_taken() == 0);
  ahead = 2s;
  BOOST_TEST(call(http::verb::get) == 200u);
}

// Another process may have it, and the vendor allows no more at once.
BOOST_AUTO_TEST_CASE(a_call_whose_place_is_lost_does_not_go_on) {
  options.timeout = 4s;
  options.lease = 6s;
  for (const auto method : {http::verb::post, http::verb::get}) {
    displaced = 0;
    begin({{silence}, {{ok("two")}}});
    http_request request(method, "/things", 11);
    std::optional<unsigned> status;
    error_code failure;
    run(io, [&]() -> asio::awaitable<void> {
      asio::co_spawn(io, peer->asked(1), [&](std::exception_ptr) { ahead += 24h; });
      try {
        const http_response response = co_await client->call(request);
        status = response.result_int();
      } catch (const boost::system::system_error& e) {
        failure = e.code();
      }
    });
    BOOST_TEST(displaced == 1);
    if (method == http::verb::get) {
      BOOST_TEST((status == 200u));
      BOOST_TEST(peer->seen().size() == 2u);
    } else {
      WEIR_TEST_ERROR(failure, asio::error::operation_aborted);
      BOOST_TEST(peer->seen().size() == 1u);
    }
  }
}

// A process that was stopped, or a machine that slept: the lease is another's before anybody
// could be told.
BOOST_AUTO_TEST_CASE(a_process_that_slept_through_its_lease_sends_nothing_without_a_new_one) {
  options.timeout = 1s;
  options.lease = 1500ms;
  bool slept = false;
  std::size_t sent_meanwhile = 0;
  options.prepare = [&](http_request&) {
    if (std::exchange(slept, true)) return;
    std::this_thread::sleep_for(options.lease);
    ahead += 24h;
  };
  options.displaced = [&] {
    ++displaced;
    sent_meanwhile = peer->seen().size();
  };
  begin({{{ok("one")}}, {{ok("one")}}});
  BOOST_TEST(call(http::verb::post) == 200u);  // it never left, and so may be tried again
  BOOST_TEST(displaced >= 1);
  BOOST_TEST(sent_meanwhile == 0u);
  BOOST_TEST(peer->seen().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace throttled_client_test

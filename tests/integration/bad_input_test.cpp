// Mistakes of the caller and of the configuration, and servers that cannot serve: each has a clear
// error of its own, and harms no other call.
#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace bad_input_test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::condition;
using weir::error;
using weir::test::crowd;
using weir::test::error_of;
using weir::test::redis_client;
using weir::test::redis_server;

const weir::fixed_window five{.limit = 5, .window = 24h};

redis_server& server() {
  static redis_server s;
  return s;
}

struct fixture {
  asio::io_context io;
  redis_client client{server()};
  fixture() { client.must("FLUSHALL"); }

  weir::store open() {
    return weir::make_redis_store(io.get_executor(), weir::test::patient_options(server()));
  }
  weir::error_code record(const weir::store& s, std::string_view subject = "a") {
    crowd c;
    weir::limiter(s, "r", five).record(subject, c.caller());
    weir::test::run_until_complete(io, c);
    return c[0].ec;
  }
  weir::error_code record(weir::redis_options options) {
    return record(weir::make_redis_store(io.get_executor(), std::move(options)));
  }
};

/// Accepts connections for ever, says its piece to each and waits for the other side to hang up.
class babbler {
 public:
  babbler(asio::io_context& io, std::string text)
      : acceptor_(io, {asio::ip::address_v4::loopback(), 0}), text_(std::move(text)) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int connections = 0;

 private:
  void accept() {
    acceptor_.async_accept([this](weir::error_code ec, asio::ip::tcp::socket peer) {
      if (ec) return;
      ++connections;
      auto socket = std::make_shared<asio::ip::tcp::socket>(std::move(peer));
      asio::async_write(*socket, asio::buffer(text_), [socket](weir::error_code, std::size_t) {
        auto room = std::make_shared<std::array<char, 4096>>();
        drain(socket, room);
      });
      accept();
    });
  }
  static void drain(std::shared_ptr<asio::ip::tcp::socket> socket,
                    std::shared_ptr<std::array<char, 4096>> room) {
    socket->async_read_some(asio::buffer(*room), [=](weir::error_code ec, std::size_t) {
      if (!ec) drain(socket, room);
    });
  }

  asio::ip::tcp::acceptor acceptor_;
  std::string text_;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(bad_input_suite, fixture)

BOOST_AUTO_TEST_CASE(impossible_policies_are_refused_with_the_bound_in_the_text) {
  const auto s = weir::open_store(io.get_executor(), "memory://");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max() - 1;
  const struct {
    weir::policy policy;
    const char* says;
  } cases[] = {
      {weir::fixed_window{}, "limit must be between 1"},
      {weir::fixed_window{.limit = 0, .window = 1s},
       "limit must be between 1 and 4503599627370495"},
      {weir::fixed_window{.limit = -5, .window = 1s}, "got -5"},
      {weir::fixed_window{.limit = huge, .window = 1s}, "limit must be between"},
      {weir::fixed_window{.limit = 1, .window = -1s}, "window (us) must be between 1"},
      {weir::fixed_window{.limit = 1, .window = std::chrono::microseconds::max()}, "window (us)"},
      {weir::fixed_window{.limit = 1, .window = 1s, .offset = 1us}, "anchor::epoch"},
      {weir::fixed_window{.limit = 1, .window = 1s, .anchor = weir::anchor::epoch, .offset = 1s},
       "offset (us) must be between 0 and 999999"},
      {weir::fixed_window{.limit = 1, .window = 1s, .anchor = static_cast<weir::anchor>(2)},
       "anchor must be between 0 and 1, got 2"},
      {weir::sliding_log{.limit = 0, .window = 1s}, "limit must be between 1"},
      {weir::sliding_log{.limit = 1, .window = 0s}, "window (us) must be between 1"},
      {weir::sliding_log{.limit = 1, .window = 1s, .resolution = 2s}, "resolution (us)"},
      {weir::sliding_log{.limit = 1, .window = 1s, .resolution = -1us}, "resolution (us)"},
      {weir::sliding_window{.limit = 0, .window = 1s}, "limit must be between 1"},
      {weir::sliding_window{.limit = 1, .window = 0s}, "window (us) must be between 1"},
      {weir::sliding_window{.limit = weir::max_units, .window = 24h}, "limit must be between 1"},
      {weir::token_bucket{.capacity = 0, .refill = weir::per_second(1)},
       "capacity must be between 1"},
      {weir::token_bucket{.capacity = 1, .refill = weir::per_second(0)}, "count must be between 1"},
      {weir::token_bucket{.capacity = 1, .refill = {1, 0s}}, "period (us) must be between 1"},
      {weir::token_bucket{.capacity = weir::max_units, .refill = weir::per_day(1)},
       "capacity must not exceed"},
      {weir::gcra{.rate = weir::per_second(-1), .burst = 1}, "count must be between 1"},
      {weir::gcra{.rate = weir::per_second(1), .burst = 0}, "burst must be between 1"},
      {weir::leaky_bucket{.capacity = -1, .leak = weir::per_second(1)},
       "capacity must be between 1"},
      {weir::leaky_bucket{.capacity = 1, .leak = {1, -1s}}, "period (us) must be between 1"}};
  for (const auto& [policy, says] : cases) {
    try {
      const weir::limiter l(s, "vendor \"3\"", policy);
      BOOST_ERROR("nothing was thrown where the text should have said: " << says);
    } catch (const boost::system::system_error& e) {
      WEIR_TEST_ERROR(e.code(), error::invalid_policy);
      BOOST_TEST(std::string_view(e.what()).starts_with("resource \"vendor \\\"3\\\"\": "));
      // Boost's general text stands once.
      const std::string general = ": " + e.code().what();
      BOOST_TEST(std::string_view(e.what()).find(general) ==
                 std::string_view(e.what()).size() - general.size());
      BOOST_TEST(std::string(e.what()).find(says) != std::string::npos,
                 "\"" << e.what() << "\" does not say: " << says);
    }
  }
}

// on_failure(4) allowed what the store could not decide.
BOOST_AUTO_TEST_CASE(a_number_that_is_no_enumerator_is_refused) {
  const auto s = weir::open_store(io.get_executor(), "memory://");
  const auto with = [&](const weir::limiter_options& options) {
    return error_of([&] { weir::limiter(s, "vendor", five, options); });
  };
  using weir::on_failure, weir::on_overflow, weir::vendor_count, weir::reset_unit;
  WEIR_TEST_ERROR(with({.on_failure = on_failure(4)}), error::invalid_policy);
  WEIR_TEST_ERROR(with({.cool_downs = true, .sync_remaining_with = vendor_count(3)}),
                  error::invalid_policy);
  WEIR_TEST_ERROR(with({.cool_downs = true, .response_parsing = {.reset = reset_unit(5)}}),
                  error::invalid_policy);
  WEIR_TEST_ERROR(with({.overflow = on_overflow(2)}), error::invalid_policy);
  BOOST_TEST(!with({.overflow = on_overflow::drop_lowest_priority}).failed());
}

BOOST_AUTO_TEST_CASE(a_resource_needs_a_name_of_bounded_length) {
  const auto s = weir::open_store(io.get_executor(), "memory://");
  const auto make = [&](std::string name) {
    return error_of([&] { weir::limiter(s, name, five); });
  };
  WEIR_TEST_ERROR(make(""), error::invalid_resource);
  WEIR_TEST_ERROR(make(std::string(1025, 'r')), error::invalid_resource);
  BOOST_TEST(!make(std::string(1024, 'r')).failed());
}

BOOST_AUTO_TEST_CASE(bad_calls_send_nothing) {
  for (const bool in_memory : {true, false}) {
    BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis")) {
      const auto s = in_memory ? weir::open_store(io.get_executor(), "memory://") : open();
      const weir::limiter l(s, "r", five);
      const weir::limiter all(
          s, "r", weir::sliding_log{.limit = weir::unlimited, .window = 1s, .resolution = 1s});
      crowd c;
      const auto expect = [&](error e, auto&& call) {
        crowd one;
        call(one.caller());
        weir::test::run_until_complete(io, one);
        WEIR_TEST_ERROR(one[0].ec, e);
        BOOST_CHECK(one[0].ec == condition::invalid_input);
        BOOST_CHECK(one[0].ec == condition::not_counted);
        BOOST_CHECK(one[0].ec == boost::system::errc::invalid_argument);
      };
      const std::string long_subject(65'537, 's');
      const std::string longer_subject(10'000'000, 's');
      for (const std::string& subject : {std::string(), long_subject, longer_subject}) {
        expect(error::invalid_subject, [&](auto h) { l.record(subject, h); });
        expect(error::invalid_subject, [&](auto h) { l.fetch(subject, h); });
        expect(error::invalid_subject, [&](auto h) { l.reset(subject, h); });
      }
      for (const std::int64_t cost :
           {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
            weir::max_units + 1, weir::unlimited}) {
        expect(error::invalid_cost, [&](auto h) { l.record("a", {.cost = cost}, h); });
        expect(error::invalid_cost, [&](auto h) { all.fetch("a", {.cost = cost}, h); });
      }
      expect(error::cost_exceeds_limit, [&](auto h) { l.record("a", {.cost = 6}, h); });
      expect(error::cost_exceeds_limit,
             [&](auto h) { l.fetch("a", {.cost = weir::max_units}, h); });
      l.fetch("a", {.cost = 5}, c.caller());
      all.record("a", {.cost = weir::max_units}, c.caller());
      weir::test::run_until_complete(io, c);
      BOOST_TEST(c[0].d.allowed);
      BOOST_TEST(c[0].d.used == 0);
      BOOST_TEST(c[1].d.allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(absurd_timeouts_end_no_other_call) {
  const auto s = open();
  const weir::limiter l(s, "r", five);
  BOOST_TEST(!record(s).failed());  // connected
  crowd c;
  l.record("b", {.timeout = -1s}, c.caller());
  l.record("b", {.timeout = std::chrono::microseconds::min()}, c.caller());
  l.record("b", {.timeout = std::chrono::microseconds::max()}, c.caller());
  weir::test::run_until_complete(io, c);
  for (const std::size_t i : {0, 1}) WEIR_TEST_ERROR(c[i].ec, error::invalid_duration);
  BOOST_TEST(!c[2].ec.failed());
}

BOOST_AUTO_TEST_CASE(a_url_that_makes_no_sense_is_refused_at_once) {
  const auto open_url = [&](const char* url) {
    return error_of([&] { (void)weir::open_store(io.get_executor(), url); });
  };
  for (const char* url :
       {"", "redis", "127.0.0.1:6379", "redis://", "redis://host:port", "redis://h/x",
        "redis://h:0", "redis://h:65536", "redis://h?timeout=never", "unix://", "unix://relative",
        "memory://host", "redis://h?unknown=1", "redis://h?tls_verify=false"}) {
    BOOST_TEST_CONTEXT(url) { WEIR_TEST_ERROR(open_url(url), error::invalid_url); }
  }
  for (const char* url : {"http://127.0.0.1", "postgres://u:p@h/db"}) {
    BOOST_TEST_CONTEXT(url) { WEIR_TEST_ERROR(open_url(url), error::unsupported_scheme); }
  }
  BOOST_TEST(io.poll() == 0u);  // nothing was started
}

BOOST_AUTO_TEST_CASE(a_wrong_or_missing_password_is_told_to_every_caller) {
  redis_server locked({.password = "right"});
  auto options = weir::test::patient_options(locked);
  BOOST_TEST(!record(options).failed());
  for (const char* password : {"", "wrong"}) {
    BOOST_TEST_CONTEXT("password '" << password << "'") {
      options.password = password;
      const auto s = weir::make_redis_store(io.get_executor(), options);
      for (int i = 0; i < 3; ++i) {
        const auto ec = record(s);
        WEIR_TEST_ERROR(ec, error::authentication_failed);
        BOOST_CHECK(ec == condition::not_counted);
      }
    }
  }
  redis_client locked_client(locked);
  BOOST_TEST(weir::test::keys_of(locked_client).size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_store_recovers_when_the_password_is_put_right) {
  redis_server locked({.password = "other"});
  auto options = weir::test::patient_options(locked);
  options.password = "right";
  const auto s = weir::make_redis_store(io.get_executor(), options);
  WEIR_TEST_ERROR(record(s), error::authentication_failed);
  redis_client(locked).must("CONFIG", "SET", "requirepass", "right");
  // It keeps trying with pauses; each call tells how far it has come.
  int refused = 0;
  weir::test::run_until(io, [&] {
    const auto ec = record(s);
    if (ec) ++refused;
    return !ec;
  });
  BOOST_TEST_MESSAGE(refused << " calls were refused meanwhile");
}

BOOST_AUTO_TEST_CASE(users_that_may_not_are_told_so) {
  client.must("ACL", "SETUSER", "alice", "on", ">secret", "~weir:*", "+@all");
  client.must("ACL", "SETUSER", "bob", "on", ">secret", "~other:*", "+@all");
  client.must("ACL", "SETUSER", "carol", "on", ">secret", "~*", "+hello", "+auth", "+client");
  client.must("ACL", "SETUSER", "dave", "off", ">secret", "~*", "+@all");
  auto options = weir::test::patient_options(server());
  const auto as = [&](const char* user, const char* password) {
    options.username = user;
    options.password = password;
    return record(options);
  };
  BOOST_TEST(!as("alice", "secret").failed());
  WEIR_TEST_ERROR(as("alice", "wrong"), error::authentication_failed);
  WEIR_TEST_ERROR(as("nobody", "secret"), error::authentication_failed);
  WEIR_TEST_ERROR(as("dave", "secret"), error::authentication_failed);
  WEIR_TEST_ERROR(as("bob", "secret"), error::permission_denied);    // the keys
  WEIR_TEST_ERROR(as("carol", "secret"), error::permission_denied);  // the commands
}

BOOST_AUTO_TEST_CASE(a_database_that_does_not_exist) {
  auto options = weir::test::patient_options(server());
  options.database = 16;
  WEIR_TEST_ERROR(record(options), error::invalid_database);
  options.database = 4'000'000'000;
  WEIR_TEST_ERROR(record(options), error::invalid_database);
}

BOOST_AUTO_TEST_CASE(a_port_where_something_else_answers) {
  const std::string texts[] = {"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
                               "220 mail.example.com ESMTP\r\n",
                               "SSH-2.0-OpenSSH_9.2\r\n",
                               std::string("\0\x01\xff garbage", 10),
                               "$999999999999\r\n",
                               "*2147483647\r\n",
                               std::string(5000, '*')};
  for (const std::string& text : texts) {
    BOOST_TEST_CONTEXT(text.substr(0, 30)) {
      babbler other(io, text);
      weir::redis_options options;
      options.port = other.port();
      options.timeout = 100ms;
      options.backoff_min = options.backoff_max = 1ms;
      // Nothing of the caller's was sent to it.
      const auto ec = record(options);
      WEIR_TEST_ERROR(ec, error::not_redis);
      BOOST_CHECK(ec == condition::not_counted);
    }
  }
}

// It may be starting or dying: the calls wait for something better, within their deadlines.
BOOST_AUTO_TEST_CASE(a_port_where_nobody_speaks) {
  babbler silent(io, "");
  weir::redis_options options;
  options.port = silent.port();
  options.timeout = 200ms;
  options.connect_timeout = 20ms;
  options.backoff_min = options.backoff_max = 1ms;
  const auto ec = record(options);
  WEIR_TEST_ERROR(ec, error::timed_out);
  BOOST_CHECK(ec == condition::not_counted);
  BOOST_TEST(silent.connections > 1);
}

BOOST_AUTO_TEST_CASE(a_unix_socket_that_is_not_there_or_not_a_socket) {
  for (const char* path : {"/nonexistent/redis.sock", "/dev/null"}) {
    weir::redis_options options;
    options.unix_path = path;
    options.timeout = 100ms;
    WEIR_TEST_ERROR(record(options), error::connection_refused);
  }
}

BOOST_AUTO_TEST_CASE(a_server_without_memory_says_so_and_may_be_asked_again) {
  const auto s = open();
  BOOST_TEST(!record(s).failed());
  client.must("CONFIG", "SET", "maxmemory", "1");
  const auto ec = record(s, "b");
  client.must("CONFIG", "SET", "maxmemory", "0");
  WEIR_TEST_ERROR(ec, error::out_of_memory);
  BOOST_CHECK(ec == condition::not_counted);
  BOOST_TEST(!record(s, "b").failed());
}

BOOST_AUTO_TEST_CASE(a_replica_refuses_writes) {
  const auto s = open();
  const weir::limiter l(s, "r", five);
  BOOST_TEST(!record(s).failed());
  client.must("REPLICAOF", "127.0.0.1", "1");
  crowd patient;
  l.record("b", patient.caller());  // it may become a primary again: this one waits for that
  // Those with less time are told why, unless time is up while they are asking once more.
  weir::test::run_until(io, [&] {
    crowd hasty;
    l.record("b", {.timeout = 40ms}, hasty.caller());
    weir::test::run_until_complete(io, hasty);
    if (hasty[0].ec == error::no_reply) return false;
    WEIR_TEST_ERROR(hasty[0].ec, error::read_only);
    BOOST_CHECK(hasty[0].ec == condition::not_counted);
    return true;
  });
  BOOST_TEST(patient.answered() == 0u);
  client.must("REPLICAOF", "NO", "ONE");
  weir::test::run_until_complete(io, patient);
  BOOST_TEST(patient[0].d.used == 1);
}

BOOST_AUTO_TEST_CASE(one_more_than_may_wait_is_refused_at_once) {
  redis_server paused;
  auto options = weir::test::patient_options(paused);
  options.max_pending = 10;
  const auto s = weir::make_redis_store(io.get_executor(), options);
  const weir::limiter l(s, "r", weir::fixed_window{.limit = 100, .window = 24h});
  BOOST_TEST(!record(s).failed());
  paused.pause();
  crowd waiting, refused;
  for (int i = 0; i < 10; ++i) l.record("a", waiting.caller());
  l.record("a", refused.caller());
  weir::test::run_until_complete(io, refused);
  WEIR_TEST_ERROR(refused[0].ec, error::overloaded);
  BOOST_CHECK(refused[0].ec == condition::not_counted);
  BOOST_TEST(waiting.answered() == 0u);
  paused.resume();
  weir::test::run_until_complete(io, waiting);
  BOOST_TEST(waiting.allowed() == 10u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bad_input_test

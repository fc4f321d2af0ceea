// Mistakes of the caller and of the configuration, and servers that cannot serve: each has a clear
// error of its own, and harms no other call.
#include "support/limiter_fixture.hpp"

namespace bad_input_test {

using namespace weir;
using namespace weir::test;

const fixed_window five{.limit = 5, .window = 24h};

struct fixture : server_fixture {
  error_code record(const store& s, std::string_view subject = "a") {
    crowd c;
    limiter(s, "r", five).record(subject, c.caller());
    run_until_complete(io, c);
    return c[0].ec;
  }
  error_code record(redis_options options) {
    return record(make_redis_store(io.get_executor(), std::move(options)));
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
    acceptor_.async_accept([this](error_code ec, asio::ip::tcp::socket peer) {
      if (ec) return;
      ++connections;
      auto socket = std::make_shared<asio::ip::tcp::socket>(std::move(peer));
      asio::async_write(*socket, asio::buffer(text_), [socket](error_code, std::size_t) {
        auto room = std::make_shared<std::array<char, 4096>>();
        drain(socket, room);
      });
      accept();
    });
  }
  static void drain(std::shared_ptr<asio::ip::tcp::socket> socket,
                    std::shared_ptr<std::array<char, 4096>> room) {
    socket->async_read_some(asio::buffer(*room), [=](error_code ec, std::size_t) {
      if (!ec) drain(socket, room);
    });
  }

  asio::ip::tcp::acceptor acceptor_;
  std::string text_;
};

BOOST_FIXTURE_TEST_SUITE(bad_input_suite, fixture)

// unit.policy_validation has all of them.
BOOST_AUTO_TEST_CASE(impossible_policies_are_refused_with_the_resource_and_the_bound) {
  const auto s = open_store(io.get_executor(), "memory://");
  const std::pair<weir::policy, const char*> cases[] = {
      {fixed_window{}, "limit must be between 1"},
      {leaky_bucket{.capacity = 1, .leak = {1, -1s}}, "period (us) must be between 1"}};
  for (const auto& [policy, says] : cases) {
    try {
      const limiter l(s, "vendor \"3\"", policy);
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
  const auto s = open_store(io.get_executor(), "memory://");
  const auto with = [&](const limiter_options& options) {
    return error_of([&] { limiter(s, "vendor", five, options); });
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
  const auto s = open_store(io.get_executor(), "memory://");
  const auto make = [&](std::string name) { return error_of([&] { limiter(s, name, five); }); };
  WEIR_TEST_ERROR(make(""), error::invalid_resource);
  WEIR_TEST_ERROR(make(std::string(1025, 'r')), error::invalid_resource);
  BOOST_TEST(!make(std::string(1024, 'r')).failed());
}

BOOST_AUTO_TEST_CASE(bad_calls_send_nothing) {
  for (const bool in_memory : {true, false}) {
    BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis")) {
      const auto s = in_memory ? open_store(io.get_executor(), "memory://") : open();
      const limiter l(s, "r", five);
      const limiter all(s, "r", sliding_log{.limit = unlimited, .window = 1s, .resolution = 1s});
      crowd c;
      const auto expect = [&](error e, auto&& call) {
        crowd one;
        call(one.caller());
        run_until_complete(io, one);
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
            max_units + 1, unlimited}) {
        expect(error::invalid_cost, [&](auto h) { l.record("a", {.cost = cost}, h); });
        expect(error::invalid_cost, [&](auto h) { all.fetch("a", {.cost = cost}, h); });
      }
      expect(error::cost_exceeds_limit, [&](auto h) { l.record("a", {.cost = 6}, h); });
      expect(error::cost_exceeds_limit, [&](auto h) { l.fetch("a", {.cost = max_units}, h); });
      l.fetch("a", {.cost = 5}, c.caller());
      all.record("a", {.cost = max_units}, c.caller());
      run_until_complete(io, c);
      BOOST_TEST(c[0].d.allowed);
      BOOST_TEST(c[0].d.used == 0);
      BOOST_TEST(c[1].d.allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_store_recovers_when_the_password_is_put_right) {
  redis_server locked({.password = "other"});
  auto options = patient_options(locked);
  options.password.clear();
  WEIR_TEST_ERROR(record(options), error::authentication_failed);
  options.password = "right";
  const auto s = make_redis_store(io.get_executor(), options);
  WEIR_TEST_ERROR(record(s), error::authentication_failed);
  redis_client(locked).must("CONFIG", "SET", "requirepass", "right");
  // It keeps trying with pauses; each call tells how far it has come.
  int refused = 0;
  run_until(io, [&] {
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
  auto options = patient_options(server);
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
  auto options = patient_options(server);
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
      redis_options options;
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
  redis_options options;
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
    redis_options options;
    options.unix_path = path;
    options.timeout = 100ms;
    WEIR_TEST_ERROR(record(options), error::connection_refused);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bad_input_test

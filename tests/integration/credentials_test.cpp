// Credentials that a callback gives at each attempt to connect, on a real server.
#include "support/limiter_fixture.hpp"

namespace credentials_test {

using namespace weir;
using namespace weir::test;

constexpr fixed_window many_a_day{.limit = 1'000'000, .window = 24h};

struct fixture : server_fixture {
  void accept(const std::string& token) {
    client.must("ACL", "SETUSER", "u", "reset", "on", ">" + token, "~*", "&*", "+@all");
  }
  /// Ends the store's connection.
  void disconnect() { client.must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); }
  error_code record(const limiter& l) {
    return outcome_of([&](auto caller) { l.record("a", caller); }).ec;
  }
};

BOOST_FIXTURE_TEST_SUITE(credentials_suite, fixture)

BOOST_AUTO_TEST_CASE(each_connection_logs_in_with_the_token_of_its_time) {
  int tokens = 0;
  redis_options o = patient_options(server);
  o.credentials = [&] {
    const std::string token = "token" + std::to_string(++tokens);
    accept(token);  // the one before has expired
    return redis_credentials{"u", token};
  };
  const limiter l(make_redis_store(io.get_executor(), o), "r", many_a_day);
  for (int connection = 1; connection <= 4; ++connection) {
    BOOST_TEST(!record(l).failed());
    BOOST_TEST(tokens == connection);
    disconnect();
    // The store notices the loss at its next read, before or with the next call.
    poll_until([&] { return tokens > connection; });
  }
}

BOOST_AUTO_TEST_CASE(a_callback_that_throws_fails_this_attempt_and_not_the_next) {
  client.must("ACL", "SETUSER", "default", "off");
  int asked = 0;
  redis_options o = patient_options(server);
  o.credentials = [&]() -> redis_credentials {
    if (++asked < 5) throw std::runtime_error("the token service is away");
    accept("t");
    return {"u", "t"};
  };
  o.timeout = 20s;
  const limiter l(make_redis_store(io.get_executor(), o), "r", many_a_day);
  BOOST_TEST(!record(l).failed());
  BOOST_TEST(asked == 5);

  o.credentials = []() -> redis_credentials { throw 1; };
  o.timeout = 100ms;
  const limiter never(make_redis_store(io.get_executor(), o), "r", many_a_day);
  BOOST_TEST((record(never) == error::authentication_failed));
}

// The store was served as the default user, who may do everything.
BOOST_AUTO_TEST_CASE(a_user_without_a_password_is_not_logged_in) {
  redis_options o = patient_options(server);
  o.credentials = [] { return weir::redis_credentials{"u", ""}; };
  o.timeout = 100ms;
  const limiter l(make_redis_store(io.get_executor(), o), "r", many_a_day);
  BOOST_TEST((record(l) == error::authentication_failed));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace credentials_test

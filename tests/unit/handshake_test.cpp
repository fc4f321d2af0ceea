#include "redis/handshake.hpp"

#include "redis/script/scripts.hpp"
#include "support/test.hpp"

namespace handshake_test {

using namespace weir;
using weir::redis::handshake;
using step = handshake::step;

const std::string hello_reply = "%1\r\n+proto\r\n:3\r\n";

/// To SCRIPT EXISTS.
std::string scripts_known(int each = 1) {
  std::string all = "*" + std::to_string(weir::redis::scripts().size()) + "\r\n";
  for (std::size_t i = 0; i < weir::redis::scripts().size(); ++i) {
    all += ":" + std::to_string(each) + "\r\n";
  }
  return all;
}

const std::string thanks = "+OK\r\n+OK\r\n";  // for CLIENT SETINFO

/// Feeds the bytes; returns the last step.
step feed(handshake& h, const std::string& bytes) {
  weir::redis::reply_reader reader;
  const auto room = reader.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  reader.commit(bytes.size());
  error_code ec;
  step last = step::going;
  while (const auto* reply = reader.next(ec)) last = h.on_reply(*reply);
  BOOST_TEST_REQUIRE(!ec);
  return last;
}

bool says(const handshake& h, std::string_view what) {
  return h.output().find(what) != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(handshake_suite)

// A server takes no more than 10 words at a time from a client that has not logged in, and hangs up
// on more.
BOOST_AUTO_TEST_CASE(scripts_are_asked_for_behind_the_login) {
  redis_options o;
  o.username = "alice";
  o.password = "p w";
  o.database = 3;
  o.client_name = "billing";
  handshake h(o);
  BOOST_TEST(
      h.output().starts_with("*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n"
                             "$3\r\np w\r\n$7\r\nSETNAME\r\n$7\r\nbilling\r\n"
                             "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
                             "*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n"
                             "$8\r\nLIB-NAME\r\n$4\r\nweir\r\n"
                             "*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n"
                             "$7\r\nLIB-VER\r\n"));
  BOOST_TEST((feed(h, hello_reply + "+OK\r\n" + thanks) == step::again));
  BOOST_TEST(says(h, "\r\n$6\r\nSCRIPT\r\n$6\r\nEXISTS\r\n$40\r\n"));
  BOOST_TEST((feed(h, scripts_known()) == step::done));
}

BOOST_AUTO_TEST_CASE(without_options_it_is_hello_and_then_the_scripts) {
  redis_options o;
  o.client_name.clear();
  handshake h(o);
  BOOST_TEST(h.output().starts_with("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*4\r\n$6\r\nCLIENT\r\n"));
  BOOST_TEST(!says(h, "AUTH"));
  BOOST_TEST(!says(h, "SELECT"));
  BOOST_TEST((feed(h, hello_reply) == step::going));
  BOOST_TEST(!says(h, "SCRIPT"));
  BOOST_TEST((feed(h, thanks) == step::again));
  BOOST_TEST(says(h, "SCRIPT"));
  BOOST_TEST((feed(h, scripts_known()) == step::done));
}

BOOST_AUTO_TEST_CASE(a_server_without_hello_gets_a_second_round) {
  redis_options o;
  o.password = "secret";
  o.database = 1;
  const std::string no_login = "-NOAUTH Authentication required.\r\n";
  // The second one is of Valkey 9: every call failed, though the password was right.
  for (const std::string& unknown :
       {std::string("-ERR unknown command `HELLO`, with args beginning with: `3`\r\n"), no_login}) {
    handshake h(o);
    BOOST_TEST((feed(h, unknown + no_login + no_login + no_login) == step::again));
    BOOST_TEST(h.output().starts_with("*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"));
    BOOST_TEST(!says(h, "HELLO"));
    BOOST_TEST(says(h, "SELECT"));
    BOOST_TEST((feed(h, "+OK\r\n+OK\r\n+OK\r\n" + thanks) == step::again));
    BOOST_TEST((feed(h, scripts_known()) == step::done));
  }
}

BOOST_AUTO_TEST_CASE(a_password_refused_in_the_second_round_is_a_failure) {
  redis_options o;
  o.password = "secret";
  o.client_name.clear();
  handshake h(o);
  BOOST_TEST((feed(h, "-NOPROTO sorry\r\n" + thanks) == step::again));
  BOOST_TEST((feed(h, "-ERR invalid password\r\n" + thanks) == step::failed));
  BOOST_TEST((h.failure() == error::authentication_failed));
}

BOOST_AUTO_TEST_CASE(each_refusal_has_its_own_error) {
  const auto failure = [](const std::string& hello, const std::string& select,
                          const std::string& known) {
    redis_options o;
    o.database = 99;
    handshake h(o);
    std::string replies = hello + select + thanks;
    replies += known;
    BOOST_TEST((feed(h, replies) == step::failed));
    return h.failure();
  };
  const std::string ok = "+OK\r\n";
  BOOST_TEST(
      (failure("-WRONGPASS invalid\r\n", ok, scripts_known()) == error::authentication_failed));
  BOOST_TEST((failure("-NOAUTH HELLO must be called\r\n", "-NOAUTH x\r\n", "-NOAUTH x\r\n") ==
              error::authentication_failed));
  BOOST_TEST((failure(hello_reply, "-ERR DB index is out of range\r\n", scripts_known()) ==
              error::invalid_database));
  BOOST_TEST((failure(hello_reply, ok, "-NOAUTH no\r\n") == error::authentication_failed));
  BOOST_TEST((failure(hello_reply, ok, "-LOADING Redis is loading\r\n") == error::server_loading));
}

BOOST_AUTO_TEST_CASE(a_server_that_a_sentinel_named_must_be_a_master) {
  const auto outcome = [](const std::string& role) {
    redis_options o;
    o.sentinel.addresses = {{"s", 26379}};
    handshake h(o);
    BOOST_TEST((feed(h, hello_reply + thanks) == step::again));
    BOOST_TEST(says(h, "ROLE"));
    BOOST_TEST((feed(h, role + scripts_known()) != step::going));
    return h.failure();
  };
  BOOST_TEST((outcome("*3\r\n+master\r\n:0\r\n*0\r\n") == error{}));
  BOOST_TEST((outcome("*5\r\n+slave\r\n+h\r\n:1\r\n+connected\r\n:0\r\n") == error::read_only));
  BOOST_TEST((outcome("*2\r\n+sentinel\r\n*0\r\n") == error::read_only));
  BOOST_TEST((outcome("+OK\r\n") == error::read_only));
  BOOST_TEST((outcome("-NOPERM no\r\n") == error{}));

  const redis_options plain;
  handshake h(plain);
  BOOST_TEST((feed(h, hello_reply + thanks) == step::again));
  BOOST_TEST(!says(h, "ROLE"));
}

BOOST_AUTO_TEST_CASE(the_scripts_that_the_server_has_are_known) {
  const auto known = [](const std::string& reply) {
    const redis_options o;
    handshake h(o);
    BOOST_TEST((feed(h, hello_reply + thanks + reply) == step::done));
    return h.known_scripts();
  };
  BOOST_TEST(known(scripts_known(1)).count() == weir::redis::scripts().size());
  BOOST_TEST(known(scripts_known(0)).none());
  std::string one = scripts_known(0);
  one.replace(one.find(":0") + 4, 2, ":1");
  BOOST_TEST(known(one).count() == 1u);
  BOOST_TEST(known(one)[1]);
  // An ACL may forbid to ask, a server or a proxy may not know SCRIPT. Then NOSCRIPT tells.
  BOOST_TEST(known("-NOPERM User x has no permissions to run 'script|exists'\r\n").all());
  BOOST_TEST(known("-ERR unknown command 'SCRIPT', with args beginning with: 'EXISTS'\r\n").all());
  BOOST_TEST(known("-ERR command 'SCRIPT' is not allowed\r\n").all());
  // And what no server says is no answer.
  BOOST_TEST(known("+OK\r\n").none());
  BOOST_TEST(known("*1\r\n:1\r\n").none());
}

// Keys of a cluster lie on several nodes, and a Sentinel keeps none.
BOOST_AUTO_TEST_CASE(a_node_of_a_cluster_and_a_sentinel_are_known_by_their_greeting) {
  const auto greeted = [](const std::string& mode) {
    const redis_options o;
    handshake h(o);
    const step s = feed(h,
                        "%4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nmodules\r\n"
                        "*1\r\n%1\r\n$4\r\nmode\r\n$7\r\ncluster\r\n"
                        "$4\r\nmode\r\n" +
                            mode + "$4\r\nrole\r\n$6\r\nmaster\r\n" + thanks);
    BOOST_TEST((s == (h.failure() == error{} ? step::again : step::failed)));
    return h.failure();
  };
  BOOST_TEST((greeted("$7\r\ncluster\r\n") == error::server_is_cluster));
  BOOST_TEST((greeted("$8\r\nsentinel\r\n") == error::server_is_sentinel));
  BOOST_TEST((greeted("$10\r\nstandalone\r\n") == error{}));
  BOOST_TEST((greeted(":7\r\n") == error{}));
}

// Redis knows CLIENT SETINFO from 7.2 on, and an ACL may forbid it.
BOOST_AUTO_TEST_CASE(a_server_that_takes_no_library_name_is_none_the_worse) {
  for (const char* no : {"-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n",
                         "-NOPERM User x has no permissions to run 'client|setinfo'\r\n"}) {
    for (const std::uint32_t database : {0, 1}) {
      redis_options o;
      o.database = database;
      handshake h(o);
      const std::string selected = database == 0 ? "" : "+OK\r\n";
      BOOST_TEST((feed(h, hello_reply + selected + no + no + scripts_known()) == step::done));
      // What comes before and behind counts.
      handshake select(o), asked(o);
      if (database != 0) {
        BOOST_TEST((feed(select, hello_reply + no + thanks + scripts_known()) == step::failed));
      }
      BOOST_TEST((feed(asked, hello_reply + selected + thanks + "-NOAUTH no\r\n") == step::failed));
    }
  }
}

BOOST_AUTO_TEST_CASE(pushes_in_between_are_ignored) {
  redis_options o;
  handshake h(o);
  BOOST_TEST((feed(h, ">1\r\n+hi\r\n" + hello_reply + ">1\r\n+hi\r\n" + thanks + scripts_known()) ==
              step::done));
}

BOOST_AUTO_TEST_CASE(it_is_done_with_the_last_reply_and_not_before) {
  redis_options o;
  o.password = "secret";
  o.database = 1;
  const std::string push = ">1\r\n+hi\r\n";
  handshake h(o);
  BOOST_TEST(
      (feed(h, push + "-ERR unknown command `HELLO`\r\n+OK\r\n+OK\r\n" + push) == step::going));
  BOOST_TEST((feed(h, "+OK\r\n") == step::again));
  BOOST_TEST((feed(h, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n" + push) == step::going));
  BOOST_TEST((feed(h, "+OK\r\n") == step::again));
  BOOST_TEST((feed(h, push) == step::going));
  BOOST_TEST((feed(h, scripts_known()) == step::done));
}

BOOST_AUTO_TEST_CASE(the_second_round_names_the_user_too) {
  redis_options o;
  o.username = "alice";
  o.password = "secret";
  handshake h(o);
  BOOST_TEST((feed(h, "-NOPROTO sorry\r\n" + thanks) == step::again));
  BOOST_TEST(h.output().starts_with("*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\nsecret\r\n"));
}

BOOST_AUTO_TEST_CASE(a_failed_log_in_has_no_third_round) {
  redis_options o;
  o.password = "secret";
  handshake h(o);
  BOOST_TEST((feed(h, "-ERR unknown command\r\n" + thanks) == step::again));
  BOOST_TEST((feed(h, "-ERR unknown command\r\n+OK\r\n" + thanks) == step::failed));
}

BOOST_AUTO_TEST_CASE(the_first_refusal_is_the_reason_and_that_to_select_has_a_meaning_of_its_own) {
  const auto failure = [](std::int64_t database, const std::string& hello, const std::string& rest,
                          const std::string& known) {
    redis_options o;
    o.database = static_cast<decltype(o.database)>(database);
    handshake h(o);
    std::string replies = hello + rest + thanks;
    replies += known;
    BOOST_TEST((feed(h, replies) == step::failed));
    return h.failure();
  };
  const std::string odd = "-WHATEVER\r\n";
  BOOST_TEST((failure(99, hello_reply, odd, scripts_known()) == error::invalid_database));
  BOOST_TEST((failure(99, hello_reply, odd, "-NOPERM no\r\n") == error::invalid_database));
  BOOST_TEST(
      (failure(99, hello_reply, "-NOPERM no\r\n", scripts_known()) == error::permission_denied));
  BOOST_TEST((failure(99, odd, "+OK\r\n", scripts_known()) == error::server_error));
  BOOST_TEST((failure(0, odd, "", scripts_known()) == error::server_error));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace handshake_test

#include "redis/resp/error_reply.hpp"

#include "support/test.hpp"

namespace error_reply_test {

using namespace weir;
using weir::redis::classify_error;

BOOST_AUTO_TEST_SUITE(error_reply_suite)

BOOST_AUTO_TEST_CASE(error_replies_are_told_apart_by_their_first_words) {
  const std::pair<std::string_view, error> table[] = {
      {"NOSCRIPT No matching script. Please use EVAL.", error::script_missing},
      {"NOAUTH Authentication required.", error::authentication_failed},
      {"WRONGPASS invalid username-password pair or user is disabled.",
       error::authentication_failed},
      {"ERR invalid password", error::authentication_failed},
      {"ERR AUTH <password> called without any password configured", error::authentication_failed},
      {"ERR Client sent AUTH, but no password is set", error::authentication_failed},
      {"NOPERM this user has no permissions to run the 'evalsha' command",
       error::permission_denied},
      {"NOPERM ACL failure in script: User x has no permissions to run the 'get' command",
       error::permission_denied},
      // Redis 7.0, inside a script.
      {"ERR The user executing the script can't run this command or subcommand script: 01ab, on "
       "@user_script:1.",
       error::permission_denied},
      {"ERR The user executing the script can't access at least one of the keys mentioned in the "
       "command arguments",
       error::permission_denied},
      // Redis 7.2 and Valkey, inside a script.
      {"ERR ACL failure in script: User x has no permissions to run the 'time' command script: "
       "01ab",
       error::permission_denied},
      {"ERR DB index is out of range", error::invalid_database},
      {"LOADING Redis is loading the dataset in memory", error::server_loading},
      {"BUSY Redis is busy running a script.", error::server_busy},
      {"READONLY You can't write against a read only replica.", error::read_only},
      {"OOM command not allowed when used memory > 'maxmemory'.", error::out_of_memory},
      {"MISCONF Redis is configured to save RDB snapshots", error::server_misconfigured},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", error::wrong_type},
      {"MOVED 3999 127.0.0.1:6381", error::server_is_cluster},
      {"ASK 3999 127.0.0.1:6381", error::server_is_cluster},
      {"CROSSSLOT Keys in request don't hash to the same slot", error::server_is_cluster},
      {"CLUSTERDOWN Hash slot not served", error::server_is_cluster},
      {"TRYAGAIN Multiple keys request during rehashing of slot", error::server_is_cluster},
      {"ERR Script attempted to access a non local key in a cluster node script: 01ab, on "
       "@user_script:1.",
       error::server_is_cluster},
      {"ERR unknown command 'EVAL', with args beginning with: 'x'", error::command_missing},
      {"ERR Unknown Redis command called from script script: 01ab, on @user_script:1.",
       error::command_missing},
      {"ERR unsupported command 'SCRIPT'", error::command_missing},
      {"ERR something else", error::server_error},
      {"", error::server_error},
  };
  for (const auto& [text, code] : table) BOOST_TEST((classify_error(text) == code), text);
}

BOOST_AUTO_TEST_CASE(redis_6_wraps_the_errors_of_commands_inside_scripts) {
  BOOST_TEST((classify_error("@user_script: 31: -OOM command not allowed when used memory > "
                             "'maxmemory'.") == error::out_of_memory));
  BOOST_TEST((classify_error("@user_script: 1: -READONLY You can't write against a read only "
                             "replica.") == error::read_only));
  BOOST_TEST((classify_error("@user_script: 1: The user executing the script can't run this "
                             "command or subcommand") == error::permission_denied));
  BOOST_TEST((classify_error("ERR Error running script (call to f_0123): @user_script:31: -OOM "
                             "command not allowed when used memory > 'maxmemory'.") ==
              error::out_of_memory));
  BOOST_TEST((classify_error("ERR Error running script (call to f_0123): @user_script:8: "
                             "@user_script: 8: The user executing the script can't run this "
                             "command or subcommand") == error::permission_denied));
  BOOST_TEST(
      (classify_error("ERR Error running script (call to f_0123): @user_script:3: "
                      "user_script:3: attempt to index a nil value") == error::server_error));
}

// The name is one of this library's own, so nothing of a key or an argument is passed on.
BOOST_AUTO_TEST_CASE(a_missing_or_forbidden_command_is_named_if_the_reply_tells_it) {
  const std::string_view
      script = "local a\ncall('GET', key)\nif call('SET', k) then call('DEL', k)";
  const auto named = [&](std::string_view reply) {
    const auto e = classify_error(reply);
    const auto code = weir::redis::name_command(e, reply, script);
    BOOST_TEST((code == e));
    return code.has_location() ? std::string(code.location().file_name()) : std::string();
  };
  const std::string in_script = " script: 01ab, on @user_script:";
  const std::pair<std::string, std::string> table[] = {
      {"NOPERM this user has no permissions to run the 'evalsha' command", "command EVALSHA"},
      {"NOPERM User x has no permissions to run the 'cluster|slots' command", "command CLUSTER"},
      {"ERR unknown command `EVAL`, with args beginning with: `get`, ", "command EVAL"},
      {"ERR unknown command 'secret', with args beginning with: 'get'", ""},
      {"ERR unknown command", ""},
      {"ERR ACL failure in script: User x has no permissions to run the 'time' command" +
           in_script + "2.",
       "command TIME"},
      {"ERR Unknown Redis command called from script" + in_script + "2.", "command GET"},
      {"ERR Unknown Redis command called from script" + in_script + "3.", ""},  // two commands
      {"ERR Unknown Redis command called from script" + in_script + "4.", ""},
      {"ERR Unknown Redis command called from script" + in_script + "x", ""},
      {"ERR Error running script (call to f_01): @user_script:2: @user_script: 2: Unknown Redis "
       "command called from Lua script",
       "command GET"},
      {"ERR Unknown Redis command called from script",
       "command GET, INCRBY, LINDEX, LRANGE, MGET, PTTL, SET, SETRANGE or ZRANGE"},
      {"NOPERM No permissions to access a key", ""},
      {"ERR The user executing the script can't access at least one of the keys" + in_script + "2.",
       ""},
      {"ERR something else in script", ""},
  };
  for (const auto& [reply, name] : table) BOOST_TEST(named(reply) == name, reply);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace error_reply_test

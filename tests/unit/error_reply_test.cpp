#include "redis/error_reply.hpp"

#include <boost/test/unit_test.hpp>

namespace error_reply_test {

using weir::error;
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace error_reply_test

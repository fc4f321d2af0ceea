// Servers that do not know a command, or whose ACL forbids it, one command after the other: every
// call works, or its error names the command.
#include "every_call.hpp"
#include "redis/slot.hpp"
#include "support/redis_cluster.hpp"
#include "support/sentinel_group.hpp"

namespace missing_commands_test {

using namespace weir;
using namespace weir::test;

struct lacking {
  const char* command;
  bool works = false;  ///< all calls succeed without it
  /// What the error names in its place: the connection cannot be made, and the text is all there
  /// is.
  const char* named = nullptr;
};

/// What the store sends, and what its scripts call. Without EXISTS and ZREM the server does more
/// work, or keeps an entry for longer.
constexpr lacking table[] = {
    {"HELLO", true},  {"CLIENT", true}, {"PING", true}, {"SCRIPT", true},
    {"EXISTS", true}, {"ZREM", true},   {"SELECT"},     {"EVALSHA"},
    {"EVAL"},         {"UNLINK"},       {"TIME"},       {"GET"},
    {"MGET"},         {"SET"},          {"SETRANGE"},   {"INCRBY"},
    {"PEXPIRE"},      {"PEXPIREAT"},    {"PTTL"},       {"DEL"},
    {"LRANGE"},       {"LINDEX"},       {"LLEN"},       {"LPOP"},
    {"LTRIM"},        {"LSET"},         {"RPUSH"},      {"ZADD"},
    {"ZRANGE"},       {"ZCOUNT"},       {"ZSCORE"},     {"ZREMRANGEBYSCORE"},
};

/// Of all that the calls ended with: which failed, and whether each names the command.
void judge(const std::vector<error_code>& told, const lacking& l, error reason) {
  const std::string named = l.named == nullptr ? l.command : l.named;
  std::size_t failed = 0;
  for (const auto& ec : told) {
    if (!ec) continue;
    ++failed;
    WEIR_TEST_ERROR(ec, reason);
    BOOST_TEST(ec.what().find(named) != std::string::npos, ec.what());
    BOOST_TEST((ec == condition::not_counted));
  }
  BOOST_TEST((failed == 0) == l.works, failed << " of " << told.size() << " calls failed");
}

redis_options options_of_user(redis_options o) {
  o.username = "weir";
  o.password = "password";
  return o;
}

template <class... Less>
void set_user(redis_client& admin, const Less&... less) {
  admin.must("ACL", "DELUSER", "weir");
  admin.must("ACL", "SETUSER", "weir", "on", ">password", "~*", "&*", "+@all", less...);
}

std::vector<error_code> record_once(asio::io_context& io, const store& s,
                                    std::string_view subject = "a") {
  crowd c;
  limiter(s, "r", fixed_window{.limit = 5, .window = 24h}).record(subject, c.caller());
  run_until_complete(io, c);
  return {c[0].ec};
}

BOOST_AUTO_TEST_SUITE(missing_commands_suite)

BOOST_AUTO_TEST_CASE(each_command_renamed_works_or_is_named) {
  for (const lacking& l : table) {
    BOOST_TEST_CONTEXT("without " << l.command) {
      asio::io_context io;
      const std::string command = l.command;
      redis_server server({.arguments = {"--rename-command", command, command + ".x"}});
      redis_client admin(server);
      auto options = patient_options(server);
      options.database = 1;
      const auto s = make_redis_store(io.get_executor(), options);
      judge(every_call{io, admin, 1, command}.make(s), l, error::command_missing);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_command_forbidden_works_or_is_named) {
  asio::io_context io;
  redis_server server;
  redis_client admin(server);
  for (lacking l : table) {
    BOOST_TEST_CONTEXT("without " << l.command) {
      // The ACL LOG names it.
      if (l.command == std::string("SELECT")) l.named = "ACL LOG";
      set_user(admin, "-" + std::string(l.command));
      auto options = options_of_user(patient_options(server));
      options.database = 1;
      const auto s = make_redis_store(io.get_executor(), options);
      judge(every_call{io, admin, 1}.make(s), l, error::permission_denied);
    }
  }
}

// The text goes once with each script, and the name afterwards.
BOOST_AUTO_TEST_CASE(without_the_command_script_each_text_goes_once) {
  asio::io_context io;
  redis_server server({.arguments = {"--rename-command", "SCRIPT", ""}});
  redis_client client(server);
  const auto s = make_redis_store(io.get_executor(), patient_options(server));
  for (int i = 0; i < 5; ++i) {
    for (const auto& ec : record_once(io, s)) BOOST_TEST(!ec.failed(), ec.what());
  }
  BOOST_TEST(runs_of(client, "eval") == 1);
}

BOOST_AUTO_TEST_CASE(a_cluster_without_a_command_works_or_names_it) {
  asio::io_context io;
  redis_cluster cluster(2, 0);
  redis_client first(cluster.node(0)), second(cluster.node(1));
  const std::uint16_t slot = weir::redis::slot_of_tag("r:a");
  const std::size_t from = cluster.owner_of(slot), to = 1 - from;
  cluster.begin_move(slot, from, to);  // so the first check asks
  for (const lacking& l : {lacking{"script", true},
                           {"evalsha", false, "EVALSHA"},
                           {"eval", false, "EVAL"},
                           {"asking", false, "ASKING"},
                           {"cluster", false, "ACL LOG"},
                           {"time", false, "TIME"}}) {
    BOOST_TEST_CONTEXT("without " << l.command) {
      for (redis_client* node : {&first, &second}) {
        node->must("FLUSHALL");
        node->must("SCRIPT", "FLUSH");
        set_user(*node, "-" + std::string(l.command));
      }
      auto o = parse_redis_url(cluster.url());
      o.timeout = 50s;
      const auto s = make_redis_store(io.get_executor(), options_of_user(o));
      auto told = record_once(io, s);
      told.push_back(record_once(io, s).front());  // by its name
      judge(told, l, error::permission_denied);
    }
  }
}

BOOST_AUTO_TEST_CASE(sentinels_without_a_command_work_or_name_it) {
  asio::io_context io;
  sentinel_group group({.replicas = 1, .sentinels = 1});
  redis_client master(group.servers.front()), sentinel(group.sentinels.front());
  for (const lacking& l : {lacking{"hello", true},
                           {"client", true},
                           {"subscribe", false, "ACL LOG"},
                           {"sentinel", false, "ACL LOG"}}) {
    BOOST_TEST_CONTEXT("a Sentinel without " << l.command) {
      set_user(sentinel, "-" + std::string(l.command));
      auto o = group.options();
      o.sentinel.username = "weir";
      o.sentinel.password = "password";
      judge(record_once(io, make_redis_store(io.get_executor(), o)), l, error::permission_denied);
    }
  }
  for (const lacking& l : {lacking{"role", true}, {"script", true}, {"eval", false, "EVAL"}}) {
    BOOST_TEST_CONTEXT("a master without " << l.command) {
      master.must("FLUSHALL");
      master.must("SCRIPT", "FLUSH");
      set_user(master, "-" + std::string(l.command));
      const auto o = options_of_user(group.options());
      judge(record_once(io, make_redis_store(io.get_executor(), o)), l, error::permission_denied);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace missing_commands_test

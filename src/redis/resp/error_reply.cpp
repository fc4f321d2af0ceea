#include "redis/resp/error_reply.hpp"

#include <algorithm>
#include <boost/assert/source_location.hpp>
#include <optional>

#include "text/ascii.hpp"
#include "text/number.hpp"

namespace weir::redis {
namespace {

struct meaning {
  std::string_view prefix;
  error code;
};

constexpr meaning meanings[] = {
    {"NOSCRIPT", error::script_missing},
    {"NOAUTH", error::authentication_failed},
    {"WRONGPASS", error::authentication_failed},
    {"ERR invalid password", error::authentication_failed},
    {"ERR AUTH", error::authentication_failed},
    {"ERR Client sent AUTH", error::authentication_failed},
    {"NOPERM", error::permission_denied},
    {"ERR The user executing the script can't", error::permission_denied},  // 7.0
    {"ERR ACL failure in script", error::permission_denied},                // Redis 7.2, Valkey
    {"ERR unknown command", error::command_missing},
    {"ERR Unknown Redis command called from script", error::command_missing},
    {"ERR unsupported command", error::command_missing},  // proxies
    {"unsupported command", error::command_missing},
    {"ERR DB index", error::invalid_database},
    {"ERR invalid DB index", error::invalid_database},
    {"LOADING", error::server_loading},
    {"BUSY", error::server_busy},
    {"UNKILLABLE", error::server_busy},
    {"READONLY", error::read_only},
    {"MASTERDOWN", error::read_only},
    {"ERR This instance has cluster support disabled", error::server_is_not_cluster},
    {"OOM", error::out_of_memory},
    {"MISCONF", error::server_misconfigured},
    {"WRONGTYPE", error::wrong_type},
    {"MOVED", error::server_is_cluster},
    {"ASK ", error::server_is_cluster},
    {"CROSSSLOT", error::server_is_cluster},
    {"CLUSTERDOWN", error::server_is_cluster},
    {"TRYAGAIN", error::server_is_cluster},
};

/// What a node of a Redis Cluster says inside the error of a script.
constexpr std::string_view cluster_errors_in_scripts[] = {
    "cript attempted to access keys that do not hash to the same slot",
    "cript attempted to access a non local key in a cluster node",
    "TRYAGAIN Slot is being trimmed",
};

/// The commands that the store sends and that its scripts call, as locations.
constexpr boost::source_location command(const char* name) { return {name, 1, ""}; }
// clang-format off
constexpr boost::source_location commands[] = {
    command("command ASKING"), command("command AUTH"), command("command CLUSTER"),
    command("command DEL"), command("command EVAL"), command("command EVALSHA"),
    command("command EXISTS"), command("command GET"), command("command INCRBY"),
    command("command LINDEX"), command("command LLEN"), command("command LPOP"),
    command("command LRANGE"), command("command LSET"), command("command LTRIM"),
    command("command MGET"), command("command PEXPIRE"), command("command PEXPIREAT"),
    command("command PTTL"), command("command RPUSH"), command("command SELECT"),
    command("command SET"), command("command SETRANGE"), command("command TIME"),
    command("command UNLINK"), command("command ZADD"), command("command ZCOUNT"),
    command("command ZRANGE"), command("command ZREM"), command("command ZSCORE"),
    command("command ZREMRANGEBYSCORE"),
};
// clang-format on

/// What scripts call by pcall: Redis 6.2 and 7.0 name neither the command nor the line.
constexpr boost::source_location called_by_pcall = command(
    "command GET, INCRBY, LINDEX, LRANGE, MGET, PTTL, SET, SETRANGE or ZRANGE");

std::string_view name_of(const boost::source_location& command) noexcept {
  return std::string_view(command.file_name()).substr(sizeof "command");
}

/// The command of this name, in upper or lower case, or null.
const boost::source_location* find_command(std::string_view name) noexcept {
  const auto is_same = [](char a, char b) { return text::lower(a) == text::lower(b); };
  for (const boost::source_location& c : commands) {
    if (std::ranges::equal(name_of(c), name, is_same)) return &c;
  }
  return nullptr;
}

/// The first word between quotes, which begins with any of `quotes`; `text` then begins behind it.
std::optional<std::string_view> take_quoted(std::string_view& text,
                                            std::string_view quotes) noexcept {
  const auto begin = text.find_first_of(quotes);
  if (begin == text.npos) return std::nullopt;
  const auto end = text.find(text[begin], begin + 1);
  if (end == text.npos) return std::nullopt;
  const std::string_view word = text.substr(begin + 1, end - begin - 1);
  text.remove_prefix(end + 1);
  return word;
}

/// The only command on the line of the script that the reply names ("@user_script:31"), or null.
const boost::source_location* command_on_line(std::string_view reply,
                                              std::string_view script) noexcept {
  constexpr std::string_view mark = "user_script:";
  const auto at = reply.find(mark);
  if (at == reply.npos) return nullptr;
  reply.remove_prefix(at + mark.size());
  const auto digits = std::ranges::find_if_not(reply, text::is_digit) - reply.begin();
  const auto line = text::read_number<std::uint32_t>(
      reply.substr(0, static_cast<std::size_t>(digits)));
  for (std::uint32_t i = 1; line && i < *line; ++i) {
    script.remove_prefix(std::min(script.find('\n'), script.size() - 1) + 1);
    if (script.empty()) return nullptr;
  }
  std::string_view words = script.substr(0, script.find('\n'));
  const boost::source_location* found = nullptr;
  while (const auto word = take_quoted(words, "'")) {
    const boost::source_location* const one = find_command(*word);
    if (one != nullptr && found != nullptr && one != found) return nullptr;
    if (one != nullptr) found = one;
  }
  return found;
}

}  // namespace

error_code name_command(error e, std::string_view reply, std::string_view script) noexcept {
  if (e != error::command_missing && e != error::permission_denied) return e;
  std::string_view rest = reply;
  const boost::source_location* found = nullptr;
  // Behind the command, the arguments may follow.
  if (const auto word = take_quoted(rest, "'`")) {
    found = find_command(word->substr(0, word->find('|')));
  }
  const bool is_of_script = found == nullptr && reply.find("script") != reply.npos;
  if (is_of_script && reply.find(" key") == reply.npos) {  // else: a key is forbidden
    const bool has_line = reply.find("user_script:") != reply.npos;
    found = has_line ? command_on_line(reply, script) : &called_by_pcall;
  }
  return {static_cast<int>(e), error_category(), found};
}

bool names_command(const error_code& code, std::string_view command) noexcept {
  return code.has_location() && find_command(command) == &code.location();
}

error classify_error(std::string_view text) noexcept {
  // Redis 6.2 says first where in a script a command failed: "@user_script: 31: -OOM command not
  // allowed ...". If the script does not catch the error, "ERR Error running script (call to
  // f_...): " comes before that. Later versions begin with the code.
  if (text.starts_with("@user_script") || text.starts_with("ERR Error running script")) {
    if (const auto inner = text.find(": -"); inner != std::string_view::npos) {
      text.remove_prefix(inner + 3);
    } else if (text.find(": The user executing the script can't") != std::string_view::npos) {
      return error::permission_denied;
    } else if (text.find(": Unknown Redis command called from") != std::string_view::npos) {
      return error::command_missing;
    }
  }
  for (const auto& [prefix, code] : meanings) {
    if (text.starts_with(prefix)) return code;
  }
  for (const std::string_view part : cluster_errors_in_scripts) {
    if (text.find(part) != text.npos) return error::server_is_cluster;
  }
  return error::server_error;
}

bool is_passing(error e) noexcept {
  return e == error::server_loading || e == error::server_busy || e == error::read_only;
}

}  // namespace weir::redis

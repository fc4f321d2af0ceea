#include "redis/error_reply.hpp"

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

}  // namespace

error classify_error(std::string_view text) noexcept {
  // Redis 6.2 says first where in a script a command failed: "@user_script: 31: -OOM command not
  // allowed ...". If the script does not catch the error, "ERR Error running script (call to
  // f_...): " comes before that. Later versions begin with the code.
  if (text.starts_with("@user_script") || text.starts_with("ERR Error running script")) {
    if (const auto inner = text.find(": -"); inner != std::string_view::npos) {
      text.remove_prefix(inner + 3);
    } else if (text.find(": The user executing the script can't") != std::string_view::npos) {
      return error::permission_denied;
    }
  }
  for (const auto& [prefix, code] : meanings) {
    if (text.starts_with(prefix)) return code;
  }
  return error::server_error;
}

bool is_passing(error e) noexcept {
  return e == error::server_loading || e == error::server_busy || e == error::read_only;
}

}  // namespace weir::redis

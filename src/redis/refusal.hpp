#pragma once

#include <string_view>
#include <utility>

#include "redis/slot_map.hpp"
#include "weir/error.hpp"

namespace weir::redis {

/// What follows an error reply to a script call. Checks are sent again only if the script certainly
/// did not run.
struct refusal {
  enum class step : std::uint8_t {
    answer,          ///< the checks end: the script may have run, or would be refused again
    again,           ///< the server lacks the script: sent again, at last with its text
    after_pause,     ///< the server cannot run it at present: sent again after a pause
    elsewhere,       ///< the checks go to the node that `where` names, or wait for another slot map
    new_connection,  ///< the server serves others: sent again on the next connection
  };
  step what = step::answer;
  error why{};          ///< for the checks, at once or at their deadlines; zero: nothing is wrong
  bool leaves = false;  ///< this connection cannot be used any more
  redirection where{};  ///< of checks that are sent again in a Redis Cluster
};

/// The table of refusals. `e`: what the reply means (classify_error()). `in_cluster`: the server is
/// a node of a Redis Cluster, so it may send checks elsewhere. `has_more_keys`: the call has
/// several keys.
inline refusal refusal_of(error e, std::string_view text, bool in_cluster, bool has_more_keys) {
  using step = refusal::step;
  using kind = redirection::kind;
  if (in_cluster) {
    redirection to = read_redirection(text);
    // Redis 6.2 says ASK if it lacks any of the keys; later versions, if it lacks all of them.
    if (to.what == kind::ask && has_more_keys) to = {kind::try_again};
    if (to.what != kind::none) {
      const bool is_named = e != error::server_is_cluster && e != error::server_error;
      const error why = to.what == kind::try_again ? error::slot_migrating
                        : to.what == kind::lost    ? error::too_many_redirects
                        : to.what != kind::down    ? error{}
                        : is_named                 ? e
                                                   : error::cluster_down;
      return {step::elsewhere, why, false, std::move(to)};
    }
    if (e == error::server_is_cluster) {
      // The script may have run up to there: the call may have counted.
      const bool crosses = text.starts_with("CROSSSLOT") ||
                           text.find("hash to the same slot") != text.npos;
      return {step::answer, crosses ? error::cross_slot : error::outcome_unknown};
    }
  }
  const redirection stays{kind::again};
  switch (e) {
    case error::script_missing:
      return {step::again, {}, false, stays};
    case error::server_loading:
    case error::server_busy:
      return {step::after_pause, e, false, stays};
    case error::read_only:
      return {step::new_connection, e, true, stays};
    case error::authentication_failed:
      return {step::answer, e, true};
    default:
      return {step::answer, e};
  }
}

}  // namespace weir::redis

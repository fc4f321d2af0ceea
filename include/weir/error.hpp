#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/error_condition.hpp>

namespace weir {

using boost::system::error_code;

/// What went wrong, for every failure this library reports itself. A cancelled call is the one
/// exception: it completes with `boost::asio::error::operation_aborted`, as everywhere in Asio.
///
/// A refusal is never an error: it is a `decision` whose `allowed` is false.
enum class error {
  // The caller's input. Nothing was sent.
  /// A limit, window, capacity or rate out of range; the exception's text names the bound.
  invalid_policy = 1,
  invalid_rate,        ///< rate text that does not parse
  invalid_url,         ///< store URL that does not parse
  unsupported_scheme,  ///< store URL with a scheme that no store answers to
  invalid_resource,    ///< empty or oversized resource name
  invalid_subject,     ///< empty or oversized subject
  invalid_cost,        ///< cost below 1 or beyond 2^52 - 1
  invalid_options,     ///< options of a store that contradict each other or are out of range
  invalid_tls_file,    ///< a file of certificates or a key that cannot be read or used
  cost_exceeds_limit,  ///< the cost can never fit the policy: waiting would not help
  /// Limiters asked together that are not of one store and group, or do not fit otherwise.
  cannot_combine,
  /// cool_down() or on_response() of a limiter without limiter_options::cool_downs.
  cool_downs_disabled,
  cannot_wait,  ///< acquire() or acquire_all() of a limiter with count_refused

  /// refund(), settle() or settle_all() of a decision that is not of these limiters,.
  cannot_settle,
  ///< their policies and the subjects, in this order; or of more than four limiters

  // The way to the store. Nothing was counted, except where the text says so.
  timed_out,        ///< the deadline passed before the check was sent
  no_reply,         ///< sent, and the deadline passed before the answer came: may have been counted
  outcome_unknown,  ///< sent, and the connection was lost, or the store closed, before the answer
  ///< came: may have been counted
  overloaded,    ///< the waiting line is full: the store's, or that of acquire() for this subject
  circuit_open,  ///< the store failed repeatedly, and is left alone until a probe succeeds
  store_full,    ///< the in-memory store holds as many live subjects as it may
  /// The in-memory store remembers as many settled decisions as it may; this one was not settled.
  settlements_full,
  store_closed,  ///< the store was closed

  // What the server said. Nothing was counted.
  authentication_failed,  ///< wrong or missing user or password
  permission_denied,      ///< the user may not run this command or touch this key
  invalid_database,       ///< the database number does not exist
  server_loading,         ///< the server is loading its data
  server_busy,            ///< the server is busy with a slow script
  read_only,              ///< the server is a replica
  out_of_memory,          ///< the server is at maxmemory and may not evict
  server_misconfigured,   ///< the server refuses writes because it cannot persist (MISCONF)
  wrong_type,             ///< the key holds something that is not this policy's state
  script_missing,         ///< the server lost a script repeatedly, right after it was loaded
  server_error,           ///< any other error reply

  /// No TLS with this server: it or its certificate was not accepted, or it did not accept ours,
  /// or.
  tls_failed,
  ///< it did not answer in TLS at all; nothing was counted
  /// The deadline passed, and the server ended the connections without a word; nothing was counted.
  closed_by_peer,

  // No connection: the deadline passed, and this is what the last attempt met. Nothing was sent.
  host_not_found,      ///< the host's name has no address, or was not resolved in time
  connection_refused,  ///< nobody takes connections at the address, or there is no such Unix socket
  host_unreachable,    ///< the address did not answer, or there is no way to it
  not_redis,           ///< what answers does not speak RESP

  // The server is none that a store can use; every call gets this until another one answers.
  server_is_cluster,   ///< a node of a Redis Cluster
  server_is_sentinel,  ///< a Sentinel, which keeps no data

  protocol_error,  ///< the bytes received are not RESP, or beyond a bound; may have been counted
};

/// Coarse questions a caller asks of an error: `if (ec == weir::condition::may_have_counted) ...`.
enum class condition {
  invalid_input = 1,  ///< a mistake in the call or the configuration: do not retry
  not_counted,        ///< the check did not happen: retrying cannot count twice
  may_have_counted,   ///< the check may or may not have happened: retrying could count twice
};

const boost::system::error_category& error_category() noexcept;
const boost::system::error_category& condition_category() noexcept;

inline error_code make_error_code(error e) noexcept {
  return error_code(static_cast<int>(e), error_category());
}
inline boost::system::error_condition make_error_condition(condition c) noexcept {
  return boost::system::error_condition(static_cast<int>(c), condition_category());
}

}  // namespace weir

template <>
struct boost::system::is_error_code_enum<weir::error> : std::true_type {};
template <>
struct boost::system::is_error_condition_enum<weir::condition> : std::true_type {};

#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/error_condition.hpp>
#include <cstdint>
#include <string_view>

#include "weir/detail/export.hpp"

namespace weir {

using boost::system::error_code;

/// Every failure that this library reports itself; docs/errors.md says what to do about each. One
/// exception: a cancelled call completes with `boost::asio::error::operation_aborted`, as
/// everywhere in Asio. A refusal is not an error: it is a `decision` whose `allowed` is false.
///
/// **Store errors.** A call with valid arguments can end with these values of weir::error
/// (docs/errors.md explains each):
///
/// - no connection: `host_not_found`, `connection_refused`, `host_unreachable`, `closed_by_peer`,
///   `not_redis`, `not_memcached`, `master_unknown`, `timed_out`, `circuit_open`;
/// - the server is not ready: `server_loading`, `server_busy`, `read_only`;
/// - the server turns the store away: `authentication_failed`, `permission_denied`,
///   `invalid_database`, `tls_failed`, `server_is_cluster`, `server_is_not_cluster`,
///   `server_is_sentinel`;
/// - a Redis Cluster cannot run the call: `too_many_redirects`, `cluster_down`, `slot_migrating`;
/// - the server refuses the call: `out_of_memory`, `server_misconfigured`, `wrong_type`,
///   `newer_state`, `script_missing`, `command_missing`, `cross_slot`, `server_error`;
/// - a Memcached store cannot run the call: `clock_skew`, `store_contention`, `state_too_large`;
/// - no answer: `no_reply`, `outcome_unknown`, `protocol_error`. These equal
///   condition::may_have_counted; all others in this list equal condition::not_counted;
/// - the store's own bounds: `overloaded` (max_pending), `store_full` (a memory store has no room
///   for a new subject, or no memory), `store_closed`.
enum class error : std::int16_t {
  // Mistakes in the call or the configuration. Nothing was sent.
  /// a number of a policy, of a gate or of limiter_options is out of range, two options contradict
  /// each other, the store cannot do what an option asks, or the text of a policy does not parse;
  /// the exception says which
  invalid_policy = 1,
  /// rate text does not parse
  invalid_rate,
  /// a store URL does not parse
  invalid_url,
  /// no store has this URL scheme
  unsupported_scheme,
  /// the resource name is empty, or it or the group is longer than 1024 bytes
  invalid_resource,
  /// the subject is empty or longer than 65,536 bytes
  invalid_subject,
  /// the cost is below 1 (an actual cost: below 0) or above 2^52 - 1
  invalid_cost,
  /// a timeout, a max_wait or the length of a cool-down is negative
  invalid_duration,
  /// options of a store or of local_keyed_limiter contradict each other or are out of range; an
  /// empty executor, or a store that was moved from
  invalid_options,
  /// a certificate or key file cannot be read or used
  invalid_tls_file,
  /// the cost can never fit the policy: waiting would not help
  cost_exceeds_limit,
  /// limiters asked together belong to different stores or groups, share a key, have more than 16
  /// tiers, or have count_refused
  cannot_combine,
  /// cool_down() or on_response() of a limiter without limiter_options::cool_downs
  cool_downs_disabled,
  /// acquire() or acquire_all() of a limiter with count_refused
  cannot_wait,

  /// refund(), settle(), refund_all() or settle_all(): the decision belongs to other limiters,
  /// policies or subjects, or to these in another order; or there are more than four limiters
  cannot_settle,

  // Deadlines, bounds and the connection. Nothing was counted, except where the text says so.
  /// the deadline passed before the check was sent
  timed_out,
  /// the check was sent, and the deadline passed before the reply came: may have counted
  no_reply,
  /// the check was sent, and the connection was lost or the store was closed before the reply came:
  /// may have counted
  outcome_unknown,
  /// max_pending calls are pending; or the queue of acquire() is full, or it dropped this waiter
  overloaded,
  /// no call got an answer for a whole timeout; until one is answered, further calls fail at once
  circuit_open,
  /// the memory store holds max_subjects subjects that still count, and this would be a new one; or
  /// it has no memory for the check
  store_full,
  /// the memory store remembers max_settled settled decisions, or a Memcached value has no room for
  /// one more; the decision was not settled
  settlements_full,
  store_closed,  ///< the store was closed

  // The server answered with an error. Nothing was counted.
  /// user or password is wrong or missing
  authentication_failed,
  /// the user's ACL forbids the command or the key
  permission_denied,
  /// the server, or a proxy before it, does not know a command; the code's what() names it if the
  /// reply told it
  command_missing,
  /// the server has no database of this number
  invalid_database,
  server_loading,  ///< the server is loading its data
  server_busy,     ///< the server is busy with a slow script
  read_only,       ///< the server is a replica
  out_of_memory,   ///< the server is at maxmemory and may not evict
  /// the server refuses writes because it cannot persist (MISCONF)
  server_misconfigured,
  /// the key holds something that is not this policy's state
  wrong_type,
  /// the state is of a newer version of weir, which this one cannot read (also in Memcached)
  newer_state,
  /// the server answered NOSCRIPT although the call carried the script
  script_missing,
  server_error,  ///< any other error reply

  // A Redis Cluster could not run the check before its deadline. Nothing was counted.
  /// nodes redirected the check three times or more, or to themselves, or to no address, and none
  /// had run it at its deadline
  too_many_redirects,
  /// no node serves the slot of the check's keys
  cluster_down,
  /// the slot of the check's keys is being moved to another node, and its keys were at both
  slot_migrating,
  /// a node finds the keys of one check in several slots
  cross_slot,

  // No connection: the last attempt to connect failed with this error; or the first one has come so
  // far when the deadline passes. Nothing was counted.
  /// the server closed the connections without a reply
  closed_by_peer,
  /// the host's name has no address, or the name server did not answer in time
  host_not_found,
  /// no server listens at the address, or the Unix socket does not exist
  connection_refused,
  /// the address did not answer, or there is no route to it
  host_unreachable,
  /// the peer does not speak RESP
  not_redis,
  /// no Sentinel could name the master
  master_unknown,

  // A store cannot use this server. Every call gets this until an attempt to connect succeeds.
  // Nothing was counted, except where the text says so.
  /// the server's certificate was not accepted, the server did not accept the client's, or the peer
  /// did not speak TLS; or, at a call's deadline, a handshake did not end in time
  tls_failed,
  /// the server is a node of a Redis Cluster, and the store's URL is not one of a cluster
  server_is_cluster,
  /// the URL is one of a Redis Cluster, and the server is not a node of one
  server_is_not_cluster,
  /// the server is a Sentinel, which keeps no data
  server_is_sentinel,

  /// the bytes received are not the server's protocol (RESP, or memcached's meta protocol), exceed
  /// a bound, or are no reply to what was sent: may have counted
  protocol_error,

  // A Memcached store. Nothing was counted.
  /// the call names several limiters, and this store changes one key at a time
  joint_not_supported,
  /// this process's clock differs from the server's by more than memcached_options::max_clock_skew
  clock_skew,
  /// other processes changed the subject's state before each attempt of this call
  store_contention,
  /// the subject's state would exceed memcached_options::max_value_size
  state_too_large,
  /// the peer does not speak memcached's meta protocol (memcached 1.6.10 or later)
  not_memcached,
};

/// What a caller can ask about an error: `if (ec == weir::condition::may_have_counted) ...`.
enum class condition {
  invalid_input = 1,  ///< a mistake in the call or the configuration: do not retry
  /// the request did not change the state: a retry cannot count twice. A waiter that was dropped
  /// (overloaded) or ended by store::close() (store_closed) may have had a reservation: it is given
  /// back as far as possible (docs/waiting.md)
  not_counted,
  /// the check was sent and not answered: a retry could count twice
  may_have_counted,
};

WEIR_EXPORT const boost::system::error_category& error_category() noexcept;
WEIR_EXPORT const boost::system::error_category& condition_category() noexcept;

/// A short name for the label of a metric: that of the enumerator, such as "timed_out", or
/// "cancelled" (operation_aborted), "other" (an error that is not this library's) or "success".
/// Later versions keep these names, while the numbers may change.
[[nodiscard]] WEIR_EXPORT std::string_view name_of(const error_code& ec) noexcept;

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

#include "weir/error.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <string>
#include <string_view>

namespace weir {
namespace {

/// The condition of an error. `none`: the number is not a weir::error.
enum class group { none, input, not_counted, may_have_counted };

/// What this library knows of an error.
struct description {
  error number;
  const char* name;
  group in;
  const char* text;
};

// By number, from 1.
constexpr description table[] = {
    {error::invalid_policy, "invalid_policy", group::input,
     "a policy or an option is not valid: choose values within the documented bounds that do not "
     "contradict each other, and write a policy's text as \"token_bucket 20, 100/s\""},
    {error::invalid_rate, "invalid_rate", group::input,
     "the rate text is not valid: write a rate as \"100/s\" or \"10 per 5s\""},
    {error::invalid_url, "invalid_url", group::input,
     "the store URL is not valid: write it as \"memory://\", \"redis://:password@host:6379/0\" or "
     "\"memcached://host:11211\""},
    {error::unsupported_scheme, "unsupported_scheme", group::input,
     "no store has this URL scheme: use redis://, rediss://, redis-cluster://, rediss-cluster://, "
     "redis-sentinel://, rediss-sentinel:// (or these with valkey), unix://, memcached://, "
     "memcached+unix:// or memory://"},
    {error::invalid_resource, "invalid_resource", group::input,
     "the name of the resource or of the group is out of range: give it 1 to 1024 bytes"},
    {error::invalid_subject, "invalid_subject", group::input,
     "the subject is empty or too long: pass a shorter identifier, such as a hash of it"},
    {error::invalid_cost, "invalid_cost", group::input,
     "the cost is out of range: pass a whole number from 1 (an actual cost: from 0) to 2^52 - 1"},
    {error::invalid_duration, "invalid_duration", group::input,
     "a timeout, a max_wait or the length of a cool-down is negative: pass 0 or more, and do not "
     "call if no time is left"},
    {error::invalid_options, "invalid_options", group::input,
     "an option is out of range or contradicts another one, or an executor or store is empty: give "
     "what the documentation names"},
    {error::invalid_tls_file, "invalid_tls_file", group::input,
     "a TLS file cannot be used: give PEM files that this process may read, and a key without a "
     "passphrase that belongs to the certificate"},
    {error::cost_exceeds_limit, "cost_exceeds_limit", group::input,
     "the cost is larger than the policy can ever allow: split the request or raise the limit"},
    {error::cannot_combine, "cannot_combine", group::input,
     "these limiters cannot share one call: give them one store and one group, name no key twice, "
     "use at most 16 tiers, and no count_refused"},
    {error::cool_downs_disabled, "cool_downs_disabled", group::input,
     "cool-downs are switched off for this limiter: set limiter_options::cool_downs in every "
     "process that shares its counts"},
    {error::cannot_wait, "cannot_wait", group::input,
     "acquire() cannot wait for a policy with count_refused, because each attempt would count: set "
     "count_refused to false"},
    {error::cannot_settle, "cannot_settle", group::input,
     "this decision cannot be settled here: pass it to the limiters that made it (at most four), "
     "with the same subjects and policies in the same order, without count_refused, and, if it is "
     "a "
     "joint_decision, not as a copy that is a decision"},
    {error::timed_out, "timed_out", group::not_counted,
     "the deadline passed before the check was sent, and nothing was counted: check that the "
     "server answers at the store's address, or allow more time"},
    {error::no_reply, "no_reply", group::may_have_counted,
     "the check was sent, and its deadline passed before the reply came: it may have been counted; "
     "allow more time if this repeats"},
    {error::outcome_unknown, "outcome_unknown", group::may_have_counted,
     "the check was sent, and the connection was lost or the store was closed before the reply "
     "came: it may have been counted"},
    {error::overloaded, "overloaded", group::not_counted,
     "too many calls wait for the store or for a reservation: pause before you call again, send "
     "fewer at a time, or raise max_pending or max_waiting"},
    {error::circuit_open, "circuit_open", group::not_counted,
     "calls got no answer, so checks are not sent to it for a moment: pause before you call again, "
     "find out why it cannot be reached, or choose a failure policy"},
    {error::store_full, "store_full", group::not_counted,
     "the memory store holds max_subjects live subjects: raise that bound, or use fewer distinct "
     "subjects; or this process has no memory for the check"},
    {error::settlements_full, "settlements_full", group::not_counted,
     "the store remembers as many settled decisions as it may (memory_options::max_settled, or a "
     "Memcached value's size), so this one was not settled: raise that bound, or try again later"},
    {error::store_closed, "store_closed", group::not_counted,
     "the store was closed: open a new one, and keep its execution context running"},
    {error::authentication_failed, "authentication_failed", group::not_counted,
     "the server refused the user name or password: correct the credentials of the store"},
    {error::permission_denied, "permission_denied", group::not_counted,
     "the server does not let this user run the command or touch the key: extend the user's ACL; "
     "error_code::what() or the server's ACL LOG names the command"},
    {error::command_missing, "command_missing", group::not_counted,
     "the server, or a proxy before it, does not know a command that the store needs: AUTH, "
     "SELECT, EVALSHA, EVAL, UNLINK, ASKING, CLUSTER SLOTS, or one that a script calls; do not "
     "rename or forbid it; error_code::what() names it if the server did"},
    {error::invalid_database, "invalid_database", group::not_counted,
     "the server has no database with this number: choose a lower one, or raise `databases` in its "
     "configuration"},
    {error::server_loading, "server_loading", group::not_counted,
     "the server is still loading its data: try again in a moment"},
    {error::server_busy, "server_busy", group::not_counted,
     "the server is busy with a slow script: try again later, or end that script with SCRIPT KILL"},
    {error::read_only, "read_only", group::not_counted,
     "the server is a read-only replica: connect to the master"},
    {error::out_of_memory, "out_of_memory", group::not_counted,
     "the server has reached maxmemory and may not evict: give it more memory (a server that "
     "evicts forgets limits)"},
    {error::server_misconfigured, "server_misconfigured", group::not_counted,
     "the server refuses writes because it cannot persist (MISCONF): repair its snapshots or its "
     "disk"},
    {error::wrong_type, "wrong_type", group::not_counted,
     "the key holds a value that is not this policy's state: choose another key prefix or resource "
     "name, or delete the key"},
    {error::newer_state, "newer_state", group::not_counted,
     "the state was written by a newer version of weir, and nothing was changed: upgrade this "
     "process"},
    {error::script_missing, "script_missing", group::not_counted,
     "the server answered NOSCRIPT to EVAL, which carries the script: check that host and port "
     "name a Redis or Valkey server, and what a proxy before it does"},
    {error::server_error, "server_error", group::not_counted,
     "the server answered with an error: read the server's log"},
    {error::too_many_redirects, "too_many_redirects", group::not_counted,
     "the nodes of the Redis Cluster sent the check from one to the other, to themselves or to no "
     "address: check that they agree on their slots (redis-cli --cluster check), and which "
     "addresses they announce (CLUSTER SLOTS)"},
    {error::cluster_down, "cluster_down", group::not_counted,
     "no node of the Redis Cluster serves the slot of the key: check that each master or one of "
     "its replicas runs (redis-cli --cluster check)"},
    {error::slot_migrating, "slot_migrating", group::not_counted,
     "the key's slot is being moved to another node, and calls with several keys have to wait for "
     "the end of that: allow more time"},
    {error::cross_slot, "cross_slot", group::not_counted,
     "the node finds the keys of one check in several slots, although they share a hash tag: check "
     "that the nodes, and a proxy before them, use the hash tags of a Redis Cluster"},
    {error::closed_by_peer, "closed_by_peer", group::not_counted,
     "the server closes each connection without a reply, and nothing was counted: check whether it "
     "expects TLS (rediss://), or whether a proxy in front of it can reach it"},
    {error::host_not_found, "host_not_found", group::not_counted,
     "the name of the store's host cannot be resolved, and nothing was sent: check the name, and "
     "the name server of this machine"},
    {error::connection_refused, "connection_refused", group::not_counted,
     "no server listens at the store's address, and nothing was sent: check that the server runs, "
     "and its host and port or the path of its Unix socket"},
    {error::host_unreachable, "host_unreachable", group::not_counted,
     "the store's address does not answer, and nothing was sent: check the address, routes and "
     "firewalls"},
    {error::not_redis, "not_redis", group::not_counted,
     "the server at the store's address does not speak RESP, and nothing was sent: check that host "
     "and port name a Redis or Valkey server"},
    {error::master_unknown, "master_unknown", group::not_counted,
     "no Sentinel could name the master, and nothing was sent: check the Sentinels' addresses and "
     "the master's name in their configuration"},
    {error::tls_failed, "tls_failed", group::not_counted,
     "the TLS handshake failed, and nothing was sent: check that the port speaks TLS, the "
     "certificate of the server (name, dates, authority), and the client certificate if the server "
     "wants one"},
    {error::server_is_cluster, "server_is_cluster", group::not_counted,
     "the server is a node of a Redis Cluster, where each key has its own node: use "
     "redis-cluster://, or a server without cluster mode"},
    {error::server_is_not_cluster, "server_is_not_cluster", group::not_counted,
     "the server is not a node of a Redis Cluster: use redis://, or the address of a cluster's "
     "node"},
    {error::server_is_sentinel, "server_is_sentinel", group::not_counted,
     "the server is a Sentinel, which keeps no data: give the address of the master, or write "
     "redis-sentinel://host/master"},
    {error::protocol_error, "protocol_error", group::may_have_counted,
     "the server sent bytes that are not its protocol, exceed a bound or answer nothing: check "
     "that host and port name a server of the right kind; the check may have been counted"},
    {error::joint_not_supported, "joint_not_supported", group::input,
     "a Memcached store changes one key at a time, so it cannot ask several limiters together: use "
     "tiers of one limiter, or another store"},
    {error::clock_skew, "clock_skew", group::not_counted,
     "this machine's clock and the server's differ too much, so nothing was counted: synchronise "
     "both (NTP), and restart memcached after its clock was set"},
    {error::store_contention, "store_contention", group::not_counted,
     "other processes changed the subject's state before each attempt, and nothing was counted: "
     "allow more time, or spread the load over more subjects"},
    {error::state_too_large, "state_too_large", group::not_counted,
     "the subject's state would exceed max_value_size, and nothing was counted: give the "
     "sliding_log a resolution, or raise that bound and the server's -I"},
    {error::not_memcached, "not_memcached", group::not_counted,
     "the server at the store's address does not speak memcached's meta protocol, and nothing was "
     "sent: check that host and port name a memcached of version 1.6.10 or later"},
};

// Each enumerator has its place: weir/error.hpp numbers them without gaps.
static_assert(std::ranges::all_of(std::views::iota(std::size_t{0}, std::size(table)),
                                  [](std::size_t i) {
                                    return static_cast<std::size_t>(table[i].number) == i + 1;
                                  }));
static_assert(static_cast<std::size_t>(error::not_memcached) == std::size(table),
              "the last enumerator");

constexpr description unknown = {
    error{}, "unknown", group::none,
    "unknown error number: the code was not made by this version of weir"};

const description& describe(int value) noexcept {
  const bool known = value >= 1 && static_cast<std::size_t>(value) <= std::size(table);
  return known ? table[value - 1] : unknown;
}

const char* condition_text_of(int value) noexcept {
  switch (static_cast<condition>(value)) {
    case condition::invalid_input:
      return "the call or the configuration is wrong: correct it, do not retry";
    case condition::not_counted:
      return "the check did not happen: retrying cannot count twice";
    case condition::may_have_counted:
      return "the check may or may not have happened: retrying could count twice";
  }
  return "unknown condition number: the condition was not made by this version of weir";
}

// Categories of one id are equal, also if a program and its plugin each hold a copy of the library.
class error_category_type final : public boost::system::error_category {
 public:
  constexpr error_category_type() noexcept : error_category(0x7f51'9c0e'62d8'a3b1u) {}

  const char* name() const noexcept override { return "weir"; }

  std::string message(int value) const override { return describe(value).text; }
  // The default goes through std::string and may allocate.
  const char* message(int value, char*, std::size_t) const noexcept override {
    return describe(value).text;
  }

  // Lets code that knows only std::errc recognise the plain cases. no_reply is not errc::timed_out
  // on purpose: generic code retries on timed_out and would count twice.
  boost::system::error_condition default_error_condition(int value) const noexcept override {
    namespace errc = boost::system::errc;
    if (value == static_cast<int>(error::timed_out))
      return errc::make_error_condition(errc::timed_out);
    if (value == static_cast<int>(error::connection_refused))
      return errc::make_error_condition(errc::connection_refused);
    if (value == static_cast<int>(error::host_unreachable))
      return errc::make_error_condition(errc::host_unreachable);
    if (describe(value).in == group::input)
      return errc::make_error_condition(errc::invalid_argument);
    return {value, *this};
  }
};

class condition_category_type final : public boost::system::error_category {
 public:
  constexpr condition_category_type() noexcept : error_category(0x7f51'9c0e'62d8'a3b2u) {}

  const char* name() const noexcept override { return "weir.condition"; }

  std::string message(int value) const override { return condition_text_of(value); }
  const char* message(int value, char*, std::size_t) const noexcept override {
    return condition_text_of(value);
  }

  using boost::system::error_category::equivalent;
  bool equivalent(const error_code& code, int value) const noexcept override {
    if (code.category() != weir::error_category()) return false;
    const group is = describe(code.value()).in;
    switch (static_cast<condition>(value)) {
      case condition::invalid_input:
        return is == group::input;
      case condition::not_counted:  // includes wrong input, because nothing was sent
        return is == group::not_counted || is == group::input;
      case condition::may_have_counted:
        return is == group::may_have_counted;
    }
    return false;
  }
};

// Constant-initialised, because error codes may be made and compared before and after main().
constinit const error_category_type the_error_category;
constinit const condition_category_type the_condition_category;

}  // namespace

std::string_view name_of(const error_code& ec) noexcept {
  if (!ec) return "success";
  if (ec.category() == error_category()) return describe(ec.value()).name;
  return ec == boost::asio::error::operation_aborted ? "cancelled" : "other";
}

const boost::system::error_category& error_category() noexcept { return the_error_category; }
const boost::system::error_category& condition_category() noexcept {
  return the_condition_category;
}

}  // namespace weir

#include "weir/error.hpp"

#include <string>

namespace weir {
namespace {

/// The condition of an error. `none`: the number is not a weir::error.
enum class group { none, input, not_counted, may_have_counted };

// The switches below have no default, so that the compiler reports a missing enumerator.

group group_of(int value) noexcept {
  switch (static_cast<error>(value)) {
    case error::invalid_policy:
    case error::invalid_rate:
    case error::invalid_url:
    case error::unsupported_scheme:
    case error::invalid_resource:
    case error::invalid_subject:
    case error::invalid_cost:
    case error::invalid_options:
    case error::invalid_tls_file:
    case error::cost_exceeds_limit:
    case error::cannot_combine:
    case error::cool_downs_disabled:
    case error::cannot_wait:
    case error::cannot_settle:
      return group::input;

    case error::no_reply:
    case error::outcome_unknown:
    case error::protocol_error:
      return group::may_have_counted;

    case error::timed_out:
    case error::overloaded:
    case error::circuit_open:
    case error::store_full:
    case error::settlements_full:
    case error::store_closed:
    case error::authentication_failed:
    case error::permission_denied:
    case error::invalid_database:
    case error::server_loading:
    case error::server_busy:
    case error::read_only:
    case error::out_of_memory:
    case error::server_misconfigured:
    case error::wrong_type:
    case error::script_missing:
    case error::server_error:
    case error::tls_failed:
    case error::closed_by_peer:
    case error::host_not_found:
    case error::connection_refused:
    case error::host_unreachable:
    case error::not_redis:
    case error::server_is_cluster:
    case error::server_is_sentinel:
      return group::not_counted;
  }
  return group::none;
}

const char* text_of(int value) noexcept {
  switch (static_cast<error>(value)) {
    case error::invalid_policy:
      return "a number of the policy is out of range: choose one within the documented bounds";
    case error::invalid_rate:
      return "the rate text is not valid: write a rate as \"100/s\" or \"10 per 5s\"";
    case error::invalid_url:
      return "the store URL is not valid: write it as \"redis://:password@host:6379/0\"";
    case error::unsupported_scheme:
      return "no store answers to this URL scheme: use redis://, rediss://, unix:// or "
             "memory://";
    case error::invalid_resource:
      return "the resource name is empty or too long: give the limiter a short name";
    case error::invalid_subject:
      return "the subject is empty or too long: pass a shorter identifier, such as a hash of it";
    case error::invalid_cost:
      return "the cost is out of range: pass a whole number from 1 to 2^52 - 1";
    case error::invalid_options:
      return "the options of the store contradict each other or are out of range: the exception's "
             "text says which";
    case error::invalid_tls_file:
      return "a TLS file cannot be used: give PEM files that this process may read, and a key "
             "without a passphrase that belongs to the certificate";
    case error::cost_exceeds_limit:
      return "the cost is larger than the policy can ever allow: split the request or raise the "
             "limit";
    case error::cannot_combine:
      return "these limiters cannot be asked together: give them one store and one group, touch no "
             "key twice, use 16 tiers at the most, and no count_refused";
    case error::cool_downs_disabled:
      return "this limiter takes no feedback: make it with limiter_options::cool_downs, in every "
             "process that shares its counts";
    case error::cannot_wait:
      return "nobody can wait for this limiter, which would count each time that it is asked: "
             "use no count_refused";
    case error::cannot_settle:
      return "this decision cannot be settled here: pass it to the limiters that made it (four at "
             "most), with the same subjects and policies in the same order; use no count_refused";
    case error::timed_out:
      return "the deadline passed before the check was sent, nothing was counted: look whether a "
             "Redis or Valkey server answers at the store's address, or allow more time";
    case error::no_reply:
      return "the check was sent, and its deadline passed before the answer came: treat it as "
             "possibly counted, and allow more time if this repeats";
    case error::outcome_unknown:
      return "the check was sent, and the connection was lost before the answer came: treat it as "
             "possibly counted";
    case error::overloaded:
      return "too many calls are waiting, for the store or for a turn: send fewer at a time, or "
             "raise max_pending or max_waiting";
    case error::circuit_open:
      return "the store failed repeatedly and is left alone for a moment, nothing was sent: see "
             "why it cannot be reached, or choose a failure policy";
    case error::store_full:
      return "the in-memory store holds as many live subjects as it may: raise its bound, or use "
             "fewer distinct subjects";
    case error::settlements_full:
      return "the in-memory store remembers as many settled decisions as it may, this one was not "
             "settled: raise memory_options::max_settled, or try again later";
    case error::store_closed:
      return "the store was closed: open a new one, and keep its execution context running";
    case error::authentication_failed:
      return "the server refused the user name or password: correct the credentials of the store";
    case error::permission_denied:
      return "the server does not let this user run the command or touch the key: extend the "
             "user's ACL";
    case error::invalid_database:
      return "the server has no database of this number: choose a lower one, or raise `databases` "
             "in "
             "its configuration";
    case error::server_loading:
      return "the server is still loading its data: try again in a moment";
    case error::server_busy:
      return "the server is busy with a slow script: try again later, or end that script with "
             "SCRIPT "
             "KILL";
    case error::read_only:
      return "the server is a read-only replica: connect to the primary";
    case error::out_of_memory:
      return "the server has reached maxmemory and may not evict: give it more memory (a server "
             "that evicts forgets limits)";
    case error::server_misconfigured:
      return "the server refuses writes because it cannot persist (MISCONF): mend its snapshots or "
             "its disk";
    case error::wrong_type:
      return "the key holds something that is not this policy's state: choose another key prefix "
             "or "
             "resource name, or delete the key";
    case error::script_missing:
      return "the server lost a script again and again, right after it was loaded: find out who "
             "sends SCRIPT FLUSH or restarts it";
    case error::server_error:
      return "the server answered with an error: look into the server's log";
    case error::tls_failed:
      return "no TLS with this server, nothing was sent: check that its port speaks TLS, its "
             "certificate (name, dates, authority), and the client certificate it may ask for";
    case error::closed_by_peer:
      return "the server ends each connection without a word, nothing was counted: check whether "
             "it expects TLS (rediss://), or whether a proxy in between reaches it";
    case error::host_not_found:
      return "the name of the store's host was not resolved, nothing was sent: check the name, and "
             "the name server of this machine";
    case error::connection_refused:
      return "nobody takes connections at the store's address, nothing was sent: check that the "
             "server runs, and its host and port or the path of its Unix socket";
    case error::host_unreachable:
      return "the store's address does not answer, nothing was sent: check the address, routes and "
             "firewalls";
    case error::not_redis:
      return "what answers at the store's address does not speak RESP, nothing was sent: check "
             "that "
             "host and port name a Redis or Valkey server";
    case error::server_is_cluster:
      return "the server is a node of a Redis Cluster, where each key has its own node: use a "
             "server "
             "without cluster mode";
    case error::server_is_sentinel:
      return "the server is a Sentinel, which keeps no data: give the address of the primary, or a "
             "name that follows it";
    case error::protocol_error:
      return "the server sent bytes that are not RESP, or beyond a bound: check that host and port "
             "name a Redis or Valkey server; the check may have been counted";
  }
  return "unknown error number: the code was not made by this version of weir";
}

const char* condition_text_of(int value) noexcept {
  switch (static_cast<condition>(value)) {
    case condition::invalid_input:
      return "a mistake in the call or the configuration: correct it, do not retry";
    case condition::not_counted:
      return "the check did not happen: retrying cannot count twice";
    case condition::may_have_counted:
      return "the check may or may not have happened: retrying could count twice";
  }
  return "unknown condition number: the condition was not made by this version of weir";
}

class error_category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "weir"; }

  std::string message(int value) const override { return text_of(value); }
  // The default goes through std::string and may allocate.
  const char* message(int value, char*, std::size_t) const noexcept override {
    return text_of(value);
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
    if (group_of(value) == group::input) return errc::make_error_condition(errc::invalid_argument);
    return {value, *this};
  }
};

class condition_category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "weir.condition"; }

  std::string message(int value) const override { return condition_text_of(value); }
  const char* message(int value, char*, std::size_t) const noexcept override {
    return condition_text_of(value);
  }

  using boost::system::error_category::equivalent;
  bool equivalent(const error_code& code, int value) const noexcept override {
    if (code.category() != weir::error_category()) return false;
    const group is = group_of(code.value());
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

const boost::system::error_category& error_category() noexcept { return the_error_category; }
const boost::system::error_category& condition_category() noexcept {
  return the_condition_category;
}

}  // namespace weir

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/duration.hpp"
#include "weir/event.hpp"

namespace weir {

/// Where a server listens.
struct redis_address {
  std::string host = {};
  std::uint16_t port = 6379;  ///< 1 to 65,535

  friend bool operator==(const redis_address&, const redis_address&) = default;
};

struct redis_credentials {
  std::string username = {};  ///< ACL user, who needs a password; the default user if empty
  std::string password = {};
};

/// Where the Sentinels are that name the server, and how the store logs in there.
struct redis_sentinel_options {
  /// At most 64. The store asks them in this order until one names the master; it does not look for
  /// further Sentinels. Their usual port is 26379.
  std::vector<redis_address> addresses = {};
  std::string master = "mymaster";  ///< the master's name in the Sentinels' configuration

  std::string username = {};  ///< ACL user, who needs a password; the default user if empty
  std::string password = {};

  /// As in redis_options, for the connections to the Sentinels.
  bool tls = false;
  std::string tls_ca_file = {};
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  std::string tls_server_name = {};
  bool tls_verify = true;
};

/// Options of a Redis store: how it reaches the server, and how it behaves. A number outside its
/// range is error::invalid_options.
struct redis_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;   ///< 1 to 65,535
  std::string unix_path = {};  ///< if not empty, used instead of host and port

  /// If not empty: the store is a Redis Cluster, and these are some of its nodes, at most 64, used
  /// instead of host and port. The store asks them which nodes there are. In a cluster, all other
  /// options hold for each node's connection: max_pending bounds the calls of each node, and the
  /// circuit breaker counts for each. The database is 0. See docs/cluster.md.
  std::vector<redis_address> cluster_seeds = {};

  /// If it has addresses: Sentinels name the server, instead of host and port, before each attempt
  /// to connect, and when they announce a failover. The server must be a master. See
  /// docs/sentinel.md.
  redis_sentinel_options sentinel = {};

  /// Use TLS 1.2 or later, over TCP. The server's certificate must be valid, be signed by a trusted
  /// authority, and hold the name or the address that the store connects to.
  bool tls = false;
  /// PEM file with the trusted authorities; the system's if empty.
  std::string tls_ca_file = {};
  /// PEM files with the client's certificate chain and its key (without a passphrase), if the
  /// server asks for them.
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  /// The name or address to find in the certificate; a name is also sent to the server (SNI).
  /// `host` if empty.
  std::string tls_server_name = {};
  /// False accepts any certificate, so anyone on the network path can pose as the server: for tests
  /// only.
  bool tls_verify = true;

  std::string username = {};  ///< ACL user, who needs a password; the default user if empty
  std::string password = {};
  /// If set, the store calls it before each attempt to connect, and logs in with what it returns
  /// instead of `username` and `password`: for tokens that expire. It runs on a thread of the
  /// store's context, should not block, must not use the store, and may run on several threads at
  /// once. If it throws, or names a user without a password, that attempt has failed with
  /// `authentication_failed`.
  std::function<redis_credentials()> credentials = {};
  std::uint32_t database = 0;
  /// CLIENT SETNAME: printable ASCII without spaces; none if empty.
  std::string client_name = "weir";

  /// Every key starts with it. A brace in it becomes its percent code: {a} is written %7Ba%7D.
  std::string key_prefix = "weir";

  /// The deadline of a call without its own `timeout`: the time before sending and reconnecting are
  /// included. 1 us to 24 h.
  duration timeout = std::chrono::milliseconds{500};
  /// The time for resolving, connecting and the handshakes together: 1 ms to 24 h. The store tries
  /// the addresses of a name one after the other, each for an equal share of the remaining time. If
  /// the name server is slower, the store waits for it over several attempts.
  duration connect_timeout = std::chrono::milliseconds{2000};

  /// The store gives up a connection if a reply is due and no whole reply comes for
  /// silence_timeout, and connects anew, so it notices a dead link in seconds. An idle connection
  /// gets a PING after ping_interval; a Sentinel is asked where the master is. Each 10 ms to 24 h.
  duration silence_timeout = std::chrono::milliseconds{2000};
  duration ping_interval = std::chrono::milliseconds{3000};

  /// The back-off between attempts to connect: random between zero and a ceiling that doubles from
  /// min to max, until a call is served. Each 1 ms to 24 h, and max is not less than min.
  duration backoff_min = std::chrono::milliseconds{20};
  duration backoff_max = std::chrono::milliseconds{2000};

  /// The circuit breaker. It opens when a call gets no answer for `timeout` in which no other call
  /// gets one (an error reply is an answer), or after `breaker_failures` shorter calls in a row
  /// without one, if the first of them was made `timeout` ago or earlier. Further calls then get
  /// error::circuit_open at once. One call per breaker_pause tries the store, and one after each
  /// new connection; an answer within `timeout` closes the circuit.
  /// breaker_failures: at most 10^9, 0 for never. breaker_pause: 1 ms to 24 h.
  std::size_t breaker_failures = 20;
  duration breaker_pause = std::chrono::milliseconds{500};

  /// The most pending calls, 1 to 10^9; a further call gets error::overloaded. A call with long
  /// subjects counts as one more for each KiB of them.
  std::size_t max_pending = 100'000;

  /// After the store has written, while a reply is due, a thread of its context polls for it this
  /// long before it sleeps: 0 to 24 h. A processor that sleeps wakes slowly: 50 us make a lone call
  /// to a server nearby more than twice as fast, if calls follow each other closely, one thread
  /// runs the context, and it has a core to itself. Otherwise it wastes CPU time, up to a whole
  /// core (docs/performance.md, "A lone caller"). In a cluster, each node's connection polls.
  duration spin_time = {};

  /// True if the caller makes every call on the store and its limiters, and runs their handlers'
  /// executors, in one thread or strand. The store then takes no locks.
  bool single_threaded = false;

  /// The most different keys (subjects, times their tiers) of several checks in one script call, 1
  /// to 1,000; the keys of one check always share one. Calls have fewer keys if these cost the
  /// server more: with 64 here, no call takes the server longer than 12 usual token-bucket scripts
  /// (docs/performance.md names the exceptions). Above 64, all calls grow in proportion, except
  /// those of reservations and of checks with two leaky buckets.
  std::size_t max_keys_per_call = 64;

  /// Gets the store's events, and those of its limiters and gates that have no function of their
  /// own: event.hpp says when and where it runs.
  event_handler on_event = {};
};

/// Reads a URL as open_store() does: redis://, rediss://, redis-cluster://, rediss-cluster://,
/// redis-sentinel://, rediss-sentinel:// (or these with valkey) or unix://. It opens no file.
///
/// **Errors.** Throws boost::system::system_error with `invalid_url` or `unsupported_scheme`.
[[nodiscard]] redis_options parse_redis_url(std::string_view url);

}  // namespace weir

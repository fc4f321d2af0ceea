#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// How a Redis store is reached and how it behaves. A number outside its range is
/// error::invalid_options.
struct redis_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;   ///< 1 to 65,535
  std::string unix_path = {};  ///< if not empty, used instead of host and port

  /// TLS 1.2 or later, over TCP. The server's certificate must be valid, be signed by a trusted
  /// authority, and hold the name or the address asked for.
  bool tls = false;
  /// PEM file with the authorities to trust; the system's if empty.
  std::string tls_ca_file = {};
  /// PEM files with the client's certificate chain and its key (without a passphrase), if the
  /// server asks for them.
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  /// The name or address to find in the certificate; a name is also sent to the server (SNI).
  /// `host` if empty.
  std::string tls_server_name = {};
  /// False accepts any certificate, and anybody in between: for tests only.
  bool tls_verify = true;

  std::string username = {};  ///< ACL user; the default user if empty
  std::string password = {};
  std::uint32_t database = 0;
  /// CLIENT SETNAME: printable ASCII without spaces; none if empty.
  std::string client_name = "weir";

  std::string key_prefix = "weir";  ///< every key starts with it

  /// The deadline of a call that names none, queueing and reconnecting included: 1 us to 24 h.
  std::chrono::microseconds timeout = std::chrono::milliseconds{500};
  /// Resolving, connecting and the handshakes together: 1 ms to 24 h. A name's addresses are tried
  /// one after the other, each for an equal share of what is left of it. A name server that is
  /// slower is waited for over several attempts.
  std::chrono::milliseconds connect_timeout{2000};

  /// A connection on which replies are due and no whole reply has come for so long is given up and
  /// made anew: a server behind a dead link is noticed in seconds. An idle connection gets a PING
  /// after ping_interval. Each 10 ms to 24 h.
  std::chrono::milliseconds silence_timeout{2000};
  std::chrono::milliseconds ping_interval{3000};

  /// Pauses between attempts to connect: random between zero and a ceiling that doubles from min to
  /// max, until a call is served. Each 1 ms to 24 h, and max is not less than min.
  std::chrono::milliseconds backoff_min{20};
  std::chrono::milliseconds backoff_max{2000};

  /// After so many calls in a row that got no answer (no error reply either), the first of them
  /// made `timeout` ago or earlier, further ones get error::circuit_open at once, and one call per
  /// breaker_pause tries the store; an answer within `timeout`, or a new connection, closes the
  /// circuit. 0: never; at most 10^9. The pause: 1 ms to 24 h.
  std::size_t breaker_failures = 20;
  std::chrono::milliseconds breaker_pause{500};

  /// Calls that may be pending at once, 1 to 10^9; one more gets error::overloaded. A call with
  /// long subjects counts as one more for each KiB of them.
  std::size_t max_pending = 100'000;

  /// True if every call on the store, its limiters and their handlers' executors runs in one thread
  /// or strand: saves the locks.
  bool single_threaded = false;

  /// Different keys (subjects, times their tiers) that may share one script call, 1 to 1,000; those
  /// of one check always do. A call with 64 holds the server for about 200 us (docs/benchmarks.md).
  std::size_t max_keys_per_call = 64;
};

/// Reads a redis://, rediss:// or unix:// URL as open_store() does. Looks at no file.
redis_options parse_redis_url(std::string_view url);

}  // namespace weir

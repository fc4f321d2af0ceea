#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/decision.hpp"
#include "weir/duration.hpp"
#include "weir/event.hpp"

namespace weir {

/// One of the servers of a Memcached store.
struct memcached_server {
  std::string host = "127.0.0.1";
  std::uint16_t port = 11211;  ///< 1 to 65,535
  /// The server's share of the keys, relative to the others: 1 to 1,000,000.
  std::uint32_t weight = 1;
  std::string unix_path = {};  ///< if not empty, used instead of host and port
};

/// Options of a Memcached store. A number outside its range is error::invalid_options.
struct memcached_options {
  /// The servers, 1 to 1,000, none twice. Every process has to give the same list with the same
  /// host names (in any order): the names decide which server keeps a key.
  std::vector<memcached_server> servers = {memcached_server{}};

  std::string key_prefix = "weir";  ///< every key starts with it

  /// The deadline of a call without its own `timeout`: the time before sending, reconnecting and
  /// repetitions are included. 1 us to 24 h.
  duration timeout = std::chrono::milliseconds{500};
  /// The time for resolving, connecting and the first exchange together: 1 ms to 24 h. See
  /// redis_options.
  duration connect_timeout = std::chrono::milliseconds{2000};
  /// The store gives up a connection if a reply is due and none comes for silence_timeout. An idle
  /// connection gets an `mn` after ping_interval. Each 10 ms to 24 h.
  duration silence_timeout = std::chrono::milliseconds{2000};
  duration ping_interval = std::chrono::milliseconds{3000};
  /// The back-off between attempts to connect: random between zero and a ceiling that doubles from
  /// min to max. Each 1 ms to 24 h, and max is not less than min.
  duration backoff_min = std::chrono::milliseconds{20};
  duration backoff_max = std::chrono::milliseconds{2000};
  /// The circuit breaker of each server, as in redis_options.
  std::size_t breaker_failures = 20;
  duration breaker_pause = std::chrono::milliseconds{500};

  /// The most pending calls for each server, 1 to 10^9; a further call gets error::overloaded. A
  /// call with a long subject counts as one more for each KiB of it.
  std::size_t max_pending = 100'000;

  /// How long the store polls for replies before it sleeps: 0 to 24 h. See redis_options.
  duration spin_time = {};

  /// The largest state of a subject, in bytes: 1,000 to 64,000,000. It must be smaller than the
  /// server's item size (`memcached -I`, 1 MiB by default); a server with smaller items lowers it.
  /// A call that would make a larger state gets error::state_too_large (a settlement:
  /// error::settlements_full) and changes nothing. An entry of a sliding_log takes 2 to 16 bytes, a
  /// lease 20 to 35, a settled decision 17; settled decisions may take fifteen sixteenths of the
  /// state.
  std::size_t max_value_size = 1'000'000;

  /// How far this process's clock may be from a server's: 1 s to 24 h, or 0 to not check. If the
  /// difference is larger, calls for that server get error::clock_skew. The server reports whole
  /// seconds, and its clock may lag by two more: the store is certain to find a difference only if
  /// it exceeds this value by 4 s. With 0, a limit does not hold among processes whose clocks
  /// differ by more than its policy looks back (docs/memcached.md).
  duration max_clock_skew = std::chrono::milliseconds{2000};
  /// How often the store asks a server for its clock, besides at connecting: 100 ms to 24 h. While
  /// the clocks differ too much, it asks every second, or more often if this is shorter.
  duration clock_check_interval = std::chrono::milliseconds{10'000};

  /// The clock that decides; the system's if not given. It is called under a lock by any thread of
  /// the store's context, so it must not use the store or throw. For tests: no server's clock
  /// decides, so every process of one store needs the same time.
  std::function<time_point()> clock = {};

  /// Gets the store's events, and those of its limiters and gates that have no function of their
  /// own: event.hpp says when and where it runs.
  event_handler on_event = {};
};

/// Reads a URL as open_store() does: `memcached://host[:port][,host[:port]...]` or
/// `memcached+unix:///path/to/socket`, with the query parameters `timeout` and `prefix`. It opens
/// no connection. Any thread may call it, and the URL's text may be destroyed when it has returned.
///
/// **Errors.** Throws boost::system::system_error with `invalid_url`, also for another scheme. The
/// text repeats no part of the URL.
[[nodiscard]] memcached_options parse_memcached_url(std::string_view url);

}  // namespace weir

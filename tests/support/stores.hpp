#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "support/memcached_server.hpp"
#include "support/redis_client.hpp"
#include "support/redis_server.hpp"
#include "weir/policy.hpp"
#include "weir/redis_store.hpp"

namespace weir::test {

/// For tests in which time plays no part: deadlines far away, and a quick return after an outage.
inline redis_options patient_options(const redis_server& server) {
  redis_options o = parse_redis_url(server.url());
  o.timeout = std::chrono::seconds{50};
  o.backoff_min = std::chrono::milliseconds{1};
  o.backoff_max = std::chrono::milliseconds{20};
  o.silence_timeout = std::chrono::seconds{50};
  o.breaker_failures = 0;
  return o;
}

struct named_policy {
  const char* name;
  weir::policy policy;
};

/// One of each kind, allowing `limit` and nothing more before a day has passed. (An epoch-aligned
/// window may end during a test: once a day, for the sliding one without effect on a full limit.)
inline std::vector<named_policy> slow_policies(std::int64_t limit) {
  using namespace std::chrono_literals;
  return {{"fixed_window", fixed_window{.limit = limit, .window = 24h}},
          {"fixed_window of the epoch",
           fixed_window{.limit = limit, .window = 24000h, .anchor = anchor::epoch}},
          {"sliding_log", sliding_log{.limit = limit, .window = 24h}},
          {"sliding_log with a resolution",
           sliding_log{.limit = limit, .window = 24h, .resolution = 1h}},
          {"sliding_window", sliding_window{.limit = limit, .window = 24h}},
          {"token_bucket", token_bucket{.capacity = limit, .refill = per_day(1)}},
          {"token_bucket in parts", token_bucket{.capacity = limit, .refill = {7, 240h}}},
          {"gcra", gcra{.rate = per_day(1), .burst = limit}},
          {"leaky_bucket", leaky_bucket{.capacity = limit, .leak = per_day(1)}}};
}

/// A URL for "memory", "tcp", "unix" (both Redis) or "memcached", with nothing in the store. The
/// servers live as long as the test's process.
inline std::string empty_store_url(const std::string& store) {
  if (store == "memory") return "memory://";
  if (store == "memcached") {
    static memcached_server_process memcached;
    static int last = 0;
    return memcached.url() + "/?timeout=50s&prefix=empty" + std::to_string(++last);
  }
  static redis_server tcp;
  static redis_server local({.unix_socket = true});
  redis_server& server = store == "tcp" ? tcp : local;
  redis_client(server).must("FLUSHALL");
  return server.url() + "?timeout=50s";
}

/// How often the server has run the command, in scripts and alone.
inline std::int64_t runs_of(redis_client& client, const std::string& command) {
  const std::string all = client.must("INFO", "commandstats").text;
  const auto at = all.find("cmdstat_" + command + ":calls=");
  return at == std::string::npos ? 0 : std::stoll(all.substr(all.find('=', at) + 1));
}

/// How many script calls it has run: the first one of each script carries the text.
inline std::int64_t script_calls_of(redis_client& client) {
  return runs_of(client, "evalsha") + runs_of(client, "eval");
}

/// All keys of the selected database.
inline std::vector<std::string> keys_of(redis_client& client) {
  std::vector<std::string> keys;
  for (reply& key : client.must("KEYS", "*").children) keys.push_back(std::move(key.text));
  return keys;
}

}  // namespace weir::test

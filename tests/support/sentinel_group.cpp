#include "support/sentinel_group.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// The reply to ROLE; empty if the connection ends, which a Sentinel does to the clients of a
/// server whose role it changes.
reply role_of(redis_server& s) {
  try {
    return redis_client(s).must("ROLE");
  } catch (const std::runtime_error&) {
    return {};
  }
}
bool is_role(const reply& role, const char* name) {
  return !role.children.empty() && role.children[0].text == name;
}

/// The value of a field in a flat list of fields and values.
std::string field(const reply& list, const std::string& name) {
  for (std::size_t i = 0; i + 1 < list.children.size(); i += 2) {
    if (list.children[i].text == name) return list.children[i + 1].text;
  }
  return {};
}

}  // namespace

void wait_until(const std::function<bool()>& holds, const std::string& what) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("still not: " + what);
    std::this_thread::sleep_for(5ms);
  }
}

sentinel_group::sentinel_group(sentinel_group_options options) : options_(std::move(options)) {
  redis_server_options server{.tls = options_.tls, .password = options_.password};
  if (!options_.password.empty()) server.arguments = {"--masterauth", options_.password};
  server.arguments.insert(server.arguments.end(), {"--repl-diskless-sync-delay", "0"});
  for (int i = 0; i < 1 + options_.replicas; ++i) servers.emplace_back(server);
  const std::string port = std::to_string(servers[0].port());
  for (int i = 1; i <= options_.replicas; ++i) {
    const auto at = static_cast<std::size_t>(i);
    redis_client(servers[at]).must("REPLICAOF", "127.0.0.1", port);
    wait_for_replica(servers[at]);
  }
  const int quorum = options_.sentinels / 2 + 1;
  for (int i = 0; i < options_.sentinels; ++i) {
    sentinels.emplace_back(redis_server_options{
        .sentinel = true, .tls = options_.sentinel_tls, .password = options_.sentinel_password});
    redis_client client(sentinels.back());
    // Since Redis 7.0; without it, the Sentinels take longer to find each other.
    client.call("SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "100");
    client.must("SENTINEL", "MONITOR", "mymaster", "127.0.0.1", port, std::to_string(quorum));
    client.must("SENTINEL", "SET", "mymaster", "down-after-milliseconds", "500", "failover-timeout",
                "3000");
    if (!options_.password.empty()) {
      client.must("SENTINEL", "SET", "mymaster", "auth-pass", options_.password);
    }
    // Sentinels log in to each other with it.
    if (!options_.sentinel_password.empty()) {
      client.must("SENTINEL", "CONFIG", "SET", "sentinel-pass", options_.sentinel_password);
    }
  }
  for (redis_server& s : sentinels) {
    redis_client client(s);
    wait_until(
        [&] {
          const reply state = client.must("SENTINEL", "MASTER", "mymaster");
          return field(state, "num-slaves") == std::to_string(options_.replicas) &&
                 field(state, "num-other-sentinels") == std::to_string(options_.sentinels - 1);
        },
        "the Sentinels know all servers and each other");
  }
}

redis_options sentinel_group::options() const {
  redis_options o;
  for (const redis_server& s : sentinels) {
    o.sentinel.addresses.push_back({"127.0.0.1", static_cast<std::uint16_t>(s.port())});
  }
  o.sentinel.password = options_.sentinel_password;
  o.password = options_.password;
  o.timeout = 20s;
  o.breaker_failures = 0;
  o.silence_timeout = 500ms;
  o.backoff_max = 100ms;
  return o;
}

redis_server& sentinel_group::master(std::size_t sentinel) {
  const reply address = redis_client(sentinels[sentinel])
                            .must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster");
  for (redis_server& s : servers) {
    if (address.children.size() == 2 && std::to_string(s.port()) == address.children[1].text) {
      return s;
    }
  }
  throw std::runtime_error("sentinel_group: the master is none of the servers");
}

void sentinel_group::fail_over() {
  const redis_server& old = master();
  redis_client sentinel(sentinels[0]);
  wait_until(
      [&] {
        if (&master() != &old) return true;
        sentinel.call("SENTINEL", "FAILOVER", "mymaster");
        return false;
      },
      "a planned failover");
  wait_for_failover_from(old);
}

void sentinel_group::wait_for_failover_from(const redis_server& old) {
  for (std::size_t i = 0; i < sentinels.size(); ++i) {
    if (sentinels[i].pid() < 0) continue;
    wait_until(
        [&] {
          redis_server& named = master(i);
          return &named != &old && is_role(role_of(named), "master");
        },
        "a failover");
  }
}

void sentinel_group::stop_failovers() {
  for (const redis_server& s : sentinels) {
    if (s.pid() < 0) continue;
    redis_client(s).must("SENTINEL", "SET", "mymaster", "down-after-milliseconds", "3600000");
  }
}

void sentinel_group::wait_for_replica(redis_server& s) {
  wait_until(
      [&] {
        const reply role = role_of(s);
        return is_role(role, "slave") && role.children.at(3).text == "connected";
      },
      "a replica with a link to its master");
}

}  // namespace weir::test

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/process.hpp"
#include "weir/policy.hpp"

namespace bench {

inline constexpr std::uint32_t key_count = 100'000;

/// What the subjects of one row look like to the store.
enum class traffic : std::uint8_t {
  busy,  ///< random keys whose state is alive: it is changed
  idle,  ///< random keys whose state no longer matters: it is written anew
  hot,   ///< one key for all
};

struct workload {
  std::string name;
  weir::policy policy;
  bench::traffic traffic;
};

struct load_options {
  std::size_t callers = 1;
  std::size_t max_keys_per_call = 64;
  bool single_threaded = false;
  std::chrono::duration<double> warm_up{0.1};
  std::chrono::duration<double> measured{0.5};
};

struct load_result {
  double seconds = 0;
  double checks = 0;
  double p50_us = 0;
  double p99_us = 0;
  double client_cpu_seconds = 0;
  double server_cpu_seconds = 0;
  double allocations = 0;
};

/// Coroutines of one thread check as fast as they can, each awaiting its answer, over one
/// connection. Throws if a check fails or is refused: a row must not measure something else than it
/// says.
load_result run_load(const redis_server& server, const workload& work, const load_options& options);

/// Writes every key once.
void fill(const redis_server& server, const workload& work);

/// The command that weir sends for one check, as redis-benchmark takes it, with "__rand_int__" in
/// the place of random subjects. Made by weir's own writer.
std::vector<std::string> command_of(const workload& work);

}  // namespace bench

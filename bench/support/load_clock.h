/* Clocks and the result line of the programs that put load on a server. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "support/latency_histogram.h"

static inline double clock_seconds(clockid_t clock) {
  struct timespec t = {0, 0};
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct load_snapshot {
  double time;
  double client_cpu; /* of all threads of this process */
  double server_cpu; /* 0 for a server without a process number */
  uint64_t checks;
};

static inline double cpu_seconds_of(pid_t process) {
  clockid_t clock = 0;
  return process > 0 && clock_getcpuclockid(process, &clock) == 0 ? clock_seconds(clock) : 0;
}

static inline struct load_snapshot take_snapshot(uint64_t checks, pid_t server) {
  struct load_snapshot s;
  s.time = clock_seconds(CLOCK_MONOTONIC);
  s.client_cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  s.server_cpu = cpu_seconds_of(server);
  s.checks = checks;
  return s;
}

/* One line of JSON; bench/harness reads it. `answered`: all checks of this process, also those
 * before and after the two snapshots. */
static inline void print_load(const struct load_snapshot* begin, const struct load_snapshot* end,
                              const struct latency_histogram* latencies, uint64_t refused,
                              uint64_t answered) {
  const double checks = (double)(end->checks - begin->checks);
  printf(
      "{\"checks\": %.0f, \"checks_per_s\": %.1f, \"refused\": %llu, \"answered\": %llu, "
      "\"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, \"client_us\": %.5f, "
      "\"server_us\": %.5f}\n",
      checks, checks / (end->time - begin->time), (unsigned long long)refused,
      (unsigned long long)answered, latency_at(latencies, 0.5), latency_at(latencies, 0.99),
      latency_at(latencies, 0.999), (end->client_cpu - begin->client_cpu) / checks * 1e6,
      (end->server_cpu - begin->server_cpu) / checks * 1e6);
}

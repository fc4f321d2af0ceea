/* Latencies in buckets of less than 1 % width, in C, so that all clients count alike. */
#pragma once

#include <stdint.h>
#include <string.h>

enum {
  latency_steps = 128, /* buckets per power of two */
  latency_shift = 7,
  latency_buckets = latency_steps * 38 /* up to 2^44 ns, about five hours */
};

struct latency_histogram {
  uint64_t count[latency_buckets];
  uint64_t total;
};

static inline void latency_add(struct latency_histogram* h, uint64_t ns) {
  unsigned bucket = (unsigned)ns;
  if (ns >= 2 * latency_steps) {
    const unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - latency_shift;
    bucket = shift * latency_steps + (unsigned)(ns >> shift);
  }
  if (bucket >= latency_buckets) bucket = latency_buckets - 1;
  ++h->count[bucket];
  ++h->total;
}

static inline void latency_join(struct latency_histogram* to,
                                const struct latency_histogram* from) {
  for (unsigned i = 0; i < latency_buckets; ++i) to->count[i] += from->count[i];
  to->total += from->total;
}

/* The latency, in microseconds, that this part of all (0 to 1) does not exceed. */
static inline double latency_at(const struct latency_histogram* h, double part) {
  const double wanted = part * (double)h->total;
  uint64_t seen = 0;
  for (unsigned i = 0; i < latency_buckets; ++i) {
    seen += h->count[i];
    if (seen == 0 || (double)seen < wanted) continue;
    if (i < 2 * latency_steps) return i / 1e3;
    const unsigned shift = i / latency_steps - 1;
    const uint64_t low = (uint64_t)(i - shift * latency_steps) << shift;
    return ((double)low + (double)((uint64_t)1 << shift) / 2) / 1e3;
  }
  return 0;
}

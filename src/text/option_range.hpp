#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace weir::text {

/// A numeric option and its range.
struct number_range {
  const char* field;
  std::uint64_t value;
  std::uint64_t low;
  std::uint64_t high;
};

/// A duration and its least value. The largest is a day: far larger ones would overflow when added
/// to a clock.
struct duration_range {
  const char* field;
  std::chrono::microseconds value;
  std::chrono::microseconds low;
};

/// The error text for the first option outside its range; empty if all are inside.
std::string first_out_of_range(std::span<const number_range> options);
std::string first_out_of_range(std::span<const duration_range> options);

/// The same for the options that every connection to a server has.
template <class Options>
std::string fault_of_connection(const Options& o) {
  using std::chrono::microseconds;
  constexpr microseconds one_ms = std::chrono::milliseconds{1};
  // Half of the silence_timeout is the interval at which a connection is checked.
  constexpr microseconds shortest_silence = 10 * one_ms;
  const duration_range times[] = {
      {"timeout", o.timeout, microseconds{1}},
      {"spin_time", o.spin_time, microseconds{0}},
      {"connect_timeout", o.connect_timeout, one_ms},
      {"silence_timeout", o.silence_timeout, shortest_silence},
      {"ping_interval", o.ping_interval, shortest_silence},
      {"backoff_min", o.backoff_min, one_ms},
      {"backoff_max", o.backoff_max, one_ms},
      {"breaker_pause", o.breaker_pause, one_ms},
  };
  if (std::string fault = first_out_of_range(times); !fault.empty()) return fault;
  if (o.backoff_max < o.backoff_min) return "backoff_max is less than backoff_min";
  const number_range numbers[] = {
      {"breaker_failures", o.breaker_failures, 0, 1'000'000'000},
      {"max_pending", o.max_pending, 1, 1'000'000'000},
  };
  return first_out_of_range(numbers);
}

/// The error text for a host or a similar name; empty if it is good. Refuses a NUL, which would end
/// a name early where it is checked or used.
std::string fault_of_name(const std::string& name, const char* what);

/// The same for the path of a Unix socket.
std::string fault_of_socket_path(const std::string& path);

}  // namespace weir::text

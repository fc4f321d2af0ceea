#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace weir::text {

// A fault is the error text for an option, without its value; empty if the option is valid.

/// The first fault that is not empty.
std::string first_of(std::initializer_list<std::string> faults);

std::string fault_of_number(const char* name, std::uint64_t value, std::uint64_t low,
                            std::uint64_t high);

/// The largest duration is a day: far larger ones would overflow when added to a clock.
std::string fault_of_duration(const char* name, std::chrono::microseconds value,
                              std::chrono::microseconds low);

/// For the options that every connection to a server has.
template <class Options>
std::string fault_of_connection(const Options& o) {
  using namespace std::chrono_literals;
  // Half of the silence_timeout is the interval at which a connection is checked.
  constexpr auto shortest_silence = 10ms;
  return first_of({
      fault_of_duration("timeout", o.timeout, 1us),
      fault_of_duration("spin_time", o.spin_time, 0us),
      fault_of_duration("connect_timeout", o.connect_timeout, 1ms),
      fault_of_duration("silence_timeout", o.silence_timeout, shortest_silence),
      fault_of_duration("ping_interval", o.ping_interval, shortest_silence),
      fault_of_duration("backoff_min", o.backoff_min, 1ms),
      fault_of_duration("backoff_max", o.backoff_max, 1ms),
      fault_of_duration("breaker_pause", o.breaker_pause, 1ms),
      o.backoff_max < o.backoff_min ? "backoff_max is less than backoff_min" : "",
      fault_of_number("breaker_failures", o.breaker_failures, 0, 1'000'000'000),
      fault_of_number("max_pending", o.max_pending, 1, 1'000'000'000),
  });
}

/// For a host or a similar name. A NUL would end a name early where it is checked or used.
std::string fault_of_name(const std::string& name, const char* what);
std::string fault_of_socket_path(const std::string& path);

}  // namespace weir::text

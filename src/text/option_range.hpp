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

/// A duration that may be too long for microseconds, moved so that its range is checked right.
std::chrono::microseconds in_us(std::chrono::milliseconds d) noexcept;

/// The error text for the first option outside its range; empty if all are inside.
std::string first_out_of_range(std::span<const number_range> options);
std::string first_out_of_range(std::span<const duration_range> options);

/// The error text for a host or a similar name; empty if it is good. Refuses a NUL, which would end
/// a name early where it is checked or used.
std::string fault_of_name(const std::string& name, const char* what);

}  // namespace weir::text

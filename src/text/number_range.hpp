#pragma once

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

/// The error text for the first option outside its range; empty if all are inside.
inline std::string first_out_of_range(std::span<const number_range> options) {
  for (const number_range& o : options) {
    if (o.value >= o.low && o.value <= o.high) continue;
    return std::string(o.field) + " is not from " + std::to_string(o.low) + " to " +
           std::to_string(o.high);
  }
  return {};
}

}  // namespace weir::text

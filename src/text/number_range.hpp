#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace weir::detail {

/// An option that is a number, and what it may be.
struct number_range {
  const char* field;
  std::uint64_t value;
  std::uint64_t low;
  std::uint64_t high;
};

/// What is wrong with the first option that lies outside its range; empty if none does.
inline std::string first_out_of_range(std::span<const number_range> options) {
  for (const number_range& o : options) {
    if (o.value >= o.low && o.value <= o.high) continue;
    return std::string(o.field) + " is not from " + std::to_string(o.low) + " to " +
           std::to_string(o.high);
  }
  return {};
}

}  // namespace weir::detail

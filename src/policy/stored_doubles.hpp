#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "policy/arithmetic.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// Takes a key's `count` little-endian doubles from the front of a common path's reply; the first
/// `wanted` become the fields. Dashes in their place make the first field `foreign`. False if the
/// text is too short, or a double is no time or count: the script checks each, so this is not its
/// reply.
inline bool take_doubles(std::string_view& text, std::size_t count, std::size_t wanted,
                         std::span<std::int64_t> fields) noexcept {
  const std::size_t size = count * sizeof(double);
  if (text.size() < size) return false;
  std::fill(fields.begin(), fields.end(), 0);
  const std::string_view own = text.substr(0, size);
  text.remove_prefix(size);
  if (own.find_first_not_of('-') == own.npos) {
    fields[0] = foreign;
    return true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    for (std::size_t byte = sizeof(double); byte > 0; --byte) {
      bits = bits << 8 | static_cast<unsigned char>(own[i * sizeof(double) + byte - 1]);
    }
    const double value = std::bit_cast<double>(bits);
    const bool is_whole = value >= 0 && value <= static_cast<double>(max_exact) &&
                          value == std::floor(value);
    if (!is_whole) return false;
    if (i < wanted) fields[i] = static_cast<std::int64_t>(value);
  }
  return true;
}

}  // namespace weir::policies

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

/// Takes `count` little-endian doubles from the front of a text, of which the first ones become the
/// fields. Unless all are times or counts that a script can have stored, the first field is
/// `foreign`. False if the text ends before.
inline bool take_doubles(std::string_view& text, std::size_t count, std::size_t wanted,
                         std::span<std::int64_t> fields) noexcept {
  if (text.size() < count * sizeof(double)) return false;
  std::fill(fields.begin(), fields.end(), 0);
  bool are_whole = true;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    for (std::size_t byte = sizeof(double); byte > 0; --byte) {
      bits = bits << 8 | static_cast<unsigned char>(text[byte - 1]);
    }
    text.remove_prefix(sizeof(double));
    const double value = std::bit_cast<double>(bits);
    const bool is_whole = value >= 0 && value <= static_cast<double>(max_exact) &&
                          value == std::floor(value);
    are_whole = are_whole && is_whole;
    if (is_whole && i < wanted) fields[i] = static_cast<std::int64_t>(value);
  }
  if (!are_whole) fields[0] = foreign;
  return true;
}

}  // namespace weir::policies

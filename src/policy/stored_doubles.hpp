#pragma once

#include <algorithm>
#include <bit>
#include <boost/endian/conversion.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "policy/arithmetic.hpp"
#include "policy/script_arguments.hpp"

namespace weir::policies {

/// Takes `count` little-endian doubles from the front of a script's reply; the first `wanted`
/// become the fields, the others zeros. False if the text is too short, or a double is not a whole
/// number from `least` to max_exact: the script checks each, so this is not its reply.
inline bool take_doubles(std::string_view& text, std::size_t count, std::size_t wanted,
                         std::span<std::int64_t> fields, std::int64_t least = 0) noexcept {
  const std::size_t size = count * sizeof(double);
  if (text.size() < size) return false;
  std::fill(fields.begin(), fields.end(), 0);
  const auto* const from = reinterpret_cast<const unsigned char*>(text.data());
  text.remove_prefix(size);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = boost::endian::load_little_u64(from + i * sizeof(double));
    const double value = std::bit_cast<double>(bits);
    if (!(value >= static_cast<double>(least) && value <= static_cast<double>(max_exact))) {
      return false;
    }
    const auto whole = static_cast<std::int64_t>(value);
    if (static_cast<double>(whole) != value) return false;
    if (i < wanted) fields[i] = whole;
  }
  return true;
}

}  // namespace weir::policies

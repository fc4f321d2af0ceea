#pragma once

#include <boost/endian/conversion.hpp>
#include <cstdint>
#include <string_view>

namespace weir::detail {

/// Both halves of a product of 128 bits, in one word.
inline std::uint64_t folded(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  const auto product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// A hash of a short text with two secrets, as in wyhash (Wang Yi, 2019). The caller mixes in the
/// length.
inline std::uint64_t wyhash(std::string_view text, std::uint64_t first,
                            std::uint64_t second) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t left = text.size();
  std::uint64_t h = first;
  for (; left > 16; left -= 16, at += 16) {
    h = folded(boost::endian::load_little_u64(at) ^ second,
               boost::endian::load_little_u64(at + 8) ^ h);
  }
  // The last 1 to 16 bytes, by two loads that may overlap.
  std::uint64_t a = 0, b = 0;
  if (left >= 8) {
    a = boost::endian::load_little_u64(at);
    b = boost::endian::load_little_u64(at + left - 8);
  } else if (left >= 4) {
    a = boost::endian::load_little_u32(at);
    b = boost::endian::load_little_u32(at + left - 4);
  } else if (left > 0) {
    a = at[0];
    b = std::uint64_t{at[left / 2]} << 8 | at[left - 1];
  }
  return folded(a ^ second, b ^ h);
}

}  // namespace weir::detail

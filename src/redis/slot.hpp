#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "check/limiter_spec.hpp"

namespace weir::redis {

/// The number of hash slots of a Redis Cluster.
inline constexpr std::size_t slot_count = 16'384;

namespace crc16_table {

constexpr std::array<std::uint16_t, 256> make() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned i = 0; i < 256; ++i) {
    unsigned crc = i << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000u) != 0 ? (crc << 1 ^ 0x1021u) : crc << 1;
    }
    table[i] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

inline constexpr std::array<std::uint16_t, 256> values = make();

}  // namespace crc16_table

/// CRC-16/XMODEM, which a Redis Cluster uses for its slots. `crc`: of the text before this one.
constexpr std::uint16_t crc16(std::string_view text, std::uint16_t crc = 0) noexcept {
  for (const char c : text) {
    const unsigned index = (crc >> 8 ^ static_cast<unsigned char>(c)) & 0xffu;
    crc = static_cast<std::uint16_t>(crc << 8 ^ crc16_table::values[index]);
  }
  return crc;
}

/// The slot of a key with that hash tag (the text between its first braces).
constexpr std::uint16_t slot_of_tag(std::string_view tag) noexcept {
  return crc16(tag) % slot_count;
}

/// The slot of all keys of the check. `scratch` is for a key.
inline std::uint16_t slot_of(const detail::check& c, std::string& scratch) {
  scratch.clear();
  c.limiter->append_key(scratch, c.subject.view());
  return slot_of_tag(detail::hash_tag(scratch));
}

}  // namespace weir::redis

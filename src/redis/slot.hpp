#pragma once

#include <boost/crc.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "check/limiter_spec.hpp"

namespace weir::redis {

/// The number of hash slots of a Redis Cluster.
inline constexpr std::size_t slot_count = 16'384;

/// The slot of a key with that hash tag (the text between its first braces).
inline std::uint16_t slot_of_tag(std::string_view tag) noexcept {
  boost::crc_optimal<16, 0x1021> crc;  // CRC-16/XMODEM
  crc.process_bytes(tag.data(), tag.size());
  return crc.checksum() % slot_count;
}

/// The slot of all keys of the check. `scratch` is for a key.
inline std::uint16_t slot_of(const detail::check& c, std::string& scratch) {
  scratch.clear();
  c.limiter->append_key(scratch, c.subject.view());
  return slot_of_tag(c.limiter->tag_of(scratch));
}

}  // namespace weir::redis

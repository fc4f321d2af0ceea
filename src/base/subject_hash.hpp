#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/wyhash.hpp"

namespace weir::detail {

/// A hash of a subject, without a secret, because receipts need the same hash in every process. A
/// client that chooses its name can choose one with a given hash; where that would harm others, use
/// key_hash.
inline std::uint64_t subject_hash(std::string_view subject) noexcept {
  return wyhash(subject, 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu) ^ subject.size();
}

/// Equality of two subjects, without a call for a short one.
inline bool is_same_subject(std::string_view a, std::string_view b) noexcept {
  const std::size_t n = a.size();
  if (n != b.size()) return false;
  if (n < 8 || n > 16) return a == b;
  std::uint64_t words[4];
  std::memcpy(&words[0], a.data(), 8);
  std::memcpy(&words[1], b.data(), 8);
  std::memcpy(&words[2], a.data() + n - 8, 8);
  std::memcpy(&words[3], b.data() + n - 8, 8);
  return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
}

}  // namespace weir::detail

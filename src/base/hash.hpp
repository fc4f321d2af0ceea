#pragma once

#include <boost/endian/conversion.hpp>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/random.hpp"

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

/// A hash of a subject, without a secret, because receipts need the same hash in every process. A
/// client that chooses its name can choose one with a given hash; where that would harm others, use
/// key_hash.
inline std::uint64_t subject_hash(std::string_view subject) noexcept {
  return wyhash(subject, 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu) ^ subject.size();
}

/// Takes up one more text in a hash of several: the same in every process, too.
inline std::uint64_t hash_with(std::uint64_t before, std::string_view text) noexcept {
  return folded(wyhash(text, before, 0xe7037ed1a0b428dbu) ^ text.size(), 0x9e3779b97f4a7c15u);
}

/// A hash of short texts. Its secrets differ from table to table, so a client that chooses its name
/// cannot choose one that collides.
class key_hash {
 public:
  std::uint64_t operator()(std::string_view key) const noexcept {
    // The length comes last: next to the text, it could undo a difference there.
    return folded(wyhash(key, first_, second_) ^ key.size(), second_);
  }

 private:
  std::uint64_t first_ = random_number();
  std::uint64_t second_ = random_number() | 1;
};

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

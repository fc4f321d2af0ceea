#pragma once

#include <boost/endian/conversion.hpp>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "check/in_flight.hpp"

namespace weir::detail {

/// A hash of a subject. It has no secret: it is the same in every process, as receipts need it.
inline std::uint64_t subject_hash(std::string_view subject) noexcept {
  __extension__ using wide = unsigned __int128;
  constexpr std::uint64_t first = 0xa0761d6478bd642fu, second = 0xe7037ed1a0b428dbu;
  const auto folded = [](std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  const auto* at = reinterpret_cast<const unsigned char*>(subject.data());
  std::size_t left = subject.size();
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
  return folded(a ^ second, b ^ h) ^ subject.size();
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

/// The hash of the check's own subject, computed when it is first asked for.
inline std::uint64_t subject_hash(const check& c) noexcept {
  const in_flight& f = flight_of(c);
  if (f.subject_hash == 0) f.subject_hash = subject_hash(c.subject.view());
  return f.subject_hash;
}

}  // namespace weir::detail

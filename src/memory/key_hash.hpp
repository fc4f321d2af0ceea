#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "check/random_number.hpp"

namespace weir::memory {

/// A hash of short texts, by two random secrets, as in wyhash (Wang Yi, 2019). The secrets differ
/// from table to table, so that callers who choose their own names cannot choose colliding ones.
class key_hash {
 public:
  std::uint64_t operator()(std::string_view key) const noexcept {
    const char* at = key.data();
    std::size_t left = key.size();
    std::uint64_t h = first_;
    for (; left > 16; left -= 16, at += 16) {
      h = folded(load<std::uint64_t>(at) ^ second_, load<std::uint64_t>(at + 8) ^ h);
    }
    // The last 1 to 16 bytes, by two loads that may overlap.
    std::uint64_t a = 0, b = 0;
    if (left >= 8) {
      a = load<std::uint64_t>(at);
      b = load<std::uint64_t>(at + left - 8);
    } else if (left >= 4) {
      a = load<std::uint32_t>(at);
      b = load<std::uint32_t>(at + left - 4);
    } else if (left > 0) {
      a = load<unsigned char>(at);
      b = std::uint64_t{load<unsigned char>(at + left / 2)} << 8 |
          load<unsigned char>(at + left - 1);
    }
    // The length comes last: next to the text, it could undo a difference there.
    return folded(folded(a ^ second_, b ^ h) ^ key.size(), second_);
  }

 private:
  template <class T>
  static T load(const char* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  /// Both halves of a product of 128 bits, in one word.
  static std::uint64_t folded(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ using wide = unsigned __int128;
    const auto product = static_cast<wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t first_ = detail::random_number();
  std::uint64_t second_ = detail::random_number() | 1;
};

}  // namespace weir::memory

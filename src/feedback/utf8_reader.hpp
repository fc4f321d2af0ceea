#pragma once

namespace weir::feedback {

/// Checks that bytes are UTF-8 (RFC 3629), one after the other.
class utf8_reader {
 public:
  /// False if the byte cannot come next.
  constexpr bool add(unsigned char byte) noexcept {
    if (missing_ > 0) {
      const bool fits = byte >= lowest_ && byte <= highest_;
      --missing_;
      lowest_ = 0x80;
      highest_ = 0xbf;
      return fits;
    }
    if (byte < 0x80) return true;
    missing_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    // No longer form than needed, no surrogate, and nothing beyond U+10FFFF.
    if (byte == 0xe0) lowest_ = 0xa0;
    if (byte == 0xed) highest_ = 0x9f;
    if (byte == 0xf0) lowest_ = 0x90;
    if (byte == 0xf4) highest_ = 0x8f;
    return byte >= 0xc2 && byte <= 0xf4;
  }

  /// False within a character.
  constexpr bool complete() const noexcept { return missing_ == 0; }

 private:
  int missing_ = 0;  // bytes of the current character
  unsigned char lowest_ = 0x80;
  unsigned char highest_ = 0xbf;
};

}  // namespace weir::feedback

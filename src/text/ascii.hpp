#pragma once

#include <span>
#include <string>

namespace weir::text {

// Not <cctype>, whose results depend on the locale.
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }
constexpr bool is_letter(char c) noexcept { return is_lower(c) || (c >= 'A' && c <= 'Z'); }
constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
}

/// Appends the bytes in lower-case hexadecimal digits.
inline void append_hex(std::string& out, std::span<const unsigned char> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  for (const unsigned char byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
}

}  // namespace weir::text

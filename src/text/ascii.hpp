#pragma once

namespace weir::text {

// Not <cctype>, whose results depend on the locale.
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }
constexpr bool is_letter(char c) noexcept { return is_lower(c) || (c >= 'A' && c <= 'Z'); }
constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
}

}  // namespace weir::text

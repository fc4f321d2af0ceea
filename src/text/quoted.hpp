#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::text {

/// Quotes and escapes a text for an error message, because it may come from any source, and cuts it
/// to `longest` characters.
inline std::string quoted(std::string_view text, std::size_t longest = 60) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  std::size_t length = 0;  // where a cut splits no escape
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
    const std::size_t width = plain ? 1 : (byte >= 0x20 && byte < 0x7f) ? 2 : 4;
    if (length + width > longest) return out + "...\"";
    length += width;
    if (width == 4) {
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    } else {
      if (width == 2) out += '\\';
      out += c;
    }
  }
  return out + '"';
}

}  // namespace weir::text

#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace weir::text {

/// The number that is all of the text: no sign but a minus of a signed type, no overflow.
template <class Number>
std::optional<Number> read_number(std::string_view text) noexcept {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace weir::text

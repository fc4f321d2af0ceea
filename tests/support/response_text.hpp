#pragma once

#include <charconv>
#include <chrono>
#include <string_view>
#include <vector>

#include "weir/feedback.hpp"

namespace weir::test {

/// A response as tests and fuzz seeds write it; it lives in their text:
///
///     429
///     Date: Tue, 21 Apr 2026 14:38:02 GMT
///     Retry-After: 25
struct response_text {
  int status = 0;
  std::string_view first_line;  ///< what follows the status
  std::vector<header_field> headers;
};

inline std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return line;
}

inline response_text read_response(std::string_view text) {
  response_text out;
  const std::string_view first = take_line(text);
  const auto [rest, failed] = std::from_chars(first.begin(), first.end(), out.status);
  out.first_line = std::string_view(rest, first.end());
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const auto indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) continue;
    line.remove_prefix(indent);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto value = line.find_first_not_of(' ', colon + 1);
    out.headers.push_back(
        {line.substr(0, colon), value == std::string_view::npos ? "" : line.substr(value)});
  }
  return out;
}

}  // namespace weir::test

#pragma once

#include <array>
#include <bit>
#include <initializer_list>
#include <string>

namespace weir::test {

/// These numbers as the scripts store them.
inline std::string doubles(std::initializer_list<double> values) {
  std::string text;
  for (const double v : values) {
    const auto bytes = std::bit_cast<std::array<char, sizeof v>>(v);
    text.append(bytes.data(), bytes.size());
  }
  return text;
}

}  // namespace weir::test

#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace weir::redis::test {

/// What the script of a fixed window has found at a key. A start of -1: something else.
struct found_window {
  std::int64_t start = 0;
  std::int64_t count = 0;
};

inline std::string to_reply(const found_window& w) {
  return ":" + std::to_string(w.start) + "\r\n:" + std::to_string(w.count) + "\r\n:0\r\n";
}

/// A script's reply if full kernels have answered for all keys.
inline std::string window_reply(const std::vector<found_window>& keys,
                                std::int64_t now = 5'000'000) {
  std::string reply = "*" + std::to_string(1 + 3 * keys.size()) + "\r\n:" + std::to_string(now) +
                      "\r\n";
  for (const found_window& w : keys) reply += to_reply(w);
  return reply;
}

/// Cost, window, limit and offset, as a common path takes them.
inline std::array<std::int64_t, 4> packed_window(std::string_view packed) {
  std::array<std::int64_t, 4> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double number = 0;
    std::memcpy(&number, packed.data() + i * sizeof number, sizeof number);
    numbers[i] = static_cast<std::int64_t>(number);
  }
  return numbers;
}

}  // namespace weir::redis::test

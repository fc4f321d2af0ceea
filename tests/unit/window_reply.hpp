#pragma once

#include <cstdint>
#include <string>
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

/// That script's reply if the full kernel has answered for all keys.
inline std::string window_reply(const std::vector<found_window>& keys,
                                std::int64_t now = 5'000'000) {
  std::string reply = "*" + std::to_string(1 + keys.size()) + "\r\n:" + std::to_string(now) +
                      "\r\n";
  for (const found_window& w : keys) reply += "*3\r\n" + to_reply(w);
  return reply;
}

/// The reply of the script of joint checks.
inline std::string joint_window_reply(const std::vector<found_window>& keys,
                                      std::int64_t now = 5'000'000) {
  std::string reply = "*" + std::to_string(1 + 3 * keys.size()) + "\r\n:" + std::to_string(now) +
                      "\r\n";
  for (const found_window& w : keys) reply += to_reply(w);
  return reply;
}

}  // namespace weir::redis::test

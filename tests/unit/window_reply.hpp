#pragma once

#include <cstdint>
#include <cstring>

#include "support/doubles.hpp"
#include "support/script_names.hpp"

namespace weir::redis::test {

/// What the script of a fixed window has found at a key. A start of -1: something else.
struct found_window {
  std::int64_t start = 0;
  std::int64_t count = 0;
};

/// A script's reply if full kernels have answered all checks, which have so many keys each.
inline std::string window_reply(const std::vector<found_window>& keys, std::int64_t now = 5'000'000,
                                std::size_t tiers = 1) {
  std::string text = "!" + std::to_string(now / 1'000'000) + " " + std::to_string(now % 1'000'000) +
                     " ";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % tiers == 0) text += 'f';
    text += weir::test::doubles(
        {static_cast<double>(keys[i].start), static_cast<double>(keys[i].count), 0});
  }
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

struct packed_window {
  std::int64_t limit, cost;
};

/// The windows in the argument of the script with that name.
inline std::vector<packed_window> packed_windows(std::string_view sha, std::string_view packed) {
  const kernel_list& list = list_of_script(weir::test::script_index(sha));
  const auto number = [&](std::size_t index) {
    double one = 0;
    std::memcpy(&one, packed.data() + index * sizeof one, sizeof one);
    return static_cast<std::int64_t>(one);
  };
  // Whether checks may share keys; the longest wait. Then window, limit, offset, perhaps whether
  // refused checks count, and the cost.
  const std::size_t front = list.has_common_path && list.tiers.size() == 1 ? 1 : 2;
  const std::size_t width = list.has_common_path ? 4 : 5;
  std::vector<packed_window> all;
  for (std::size_t t = 0; t < list.tiers.size(); ++t) {
    const std::size_t first = front + t * width;
    all.push_back({number(first + 1), number(first + width - 1)});
  }
  return all;
}

}  // namespace weir::redis::test

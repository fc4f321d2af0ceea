#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/policy.hpp"

namespace weir::test {

/// That so many units went out at a time, in microseconds.
struct grant {
  std::int64_t time;
  std::int64_t cost;
};

/// Reads a list of what went out, in any order, as the vendor would: is there a window, or a
/// stretch of time, in which more went out than the policy allows? Says where the first is. It
/// knows nothing of src/policy.
///
/// If the request that opened a fixed_window has left, nothing outside tells where the window
/// began: then `openers_left` asks only that no stretch of its length holds more than two windows.
std::optional<std::string> first_excess(const policy& p, std::vector<grant> all,
                                        bool openers_left = false);

}  // namespace weir::test

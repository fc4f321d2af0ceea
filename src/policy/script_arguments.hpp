#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace weir::policies {

// Numbers with a meaning of their own in the scripts' arguments and replies. The scripts have the
// same names for them (policy/lua/); no_limit is in arithmetic.hpp, settle_act in tier_set.hpp, and
// lease_set::act in lease_set.hpp.

/// In a reply, in place of a state's first number: the key holds something else. No restore() takes
/// it.
inline constexpr std::int64_t foreign = -1;

/// The number of equal checks of a fetch.
inline constexpr std::int64_t look_only = 0;

/// A settlement's marker: there is none, or it is to last as long as the script makes it last at
/// least.
inline constexpr std::int64_t no_marker = 0, shortest_marker = 1;

/// A settlement's reply: whether it was done.
inline constexpr std::int64_t not_done = 0, done = 1;

/// How a script knows a kernel: by its place in policies::kernel, counted from 1. Negative if a
/// request that passes has to wait until the bucket is empty.
constexpr std::int64_t kernel_number(std::size_t index, bool is_spaced) noexcept {
  const auto number = static_cast<std::int64_t>(index + 1);
  return is_spaced ? -number : number;
}

/// The numbers a script takes before its per-key arguments: the policy's constants, then the cost.
class script_arguments {
 public:
  script_arguments(std::initializer_list<std::int64_t> values) : size_(values.size()) {
    std::copy(values.begin(), values.end(), values_.begin());
  }
  std::span<const std::int64_t> values() const& noexcept { return {values_.data(), size_}; }
  std::span<const std::int64_t> values() const&& = delete;  // they would outlive what they look at

 private:
  std::array<std::int64_t, 8> values_{};
  std::size_t size_;
};

}  // namespace weir::policies

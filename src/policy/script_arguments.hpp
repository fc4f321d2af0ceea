#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace weir::policies {

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

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace weir::policies {

// Numbers with a meaning of their own in the scripts' arguments and replies. The scripts have the
// same names for them (policy/lua/); no_limit is in arithmetic.hpp, settle_act in tier_set.hpp, and
// lease_set::act in lease_set.hpp.

/// In a reply, in place of a state's first number: the key holds something else. No restore() takes
/// it.
inline constexpr std::int64_t foreign = -1;

/// Likewise: a later version of weir has written the key, in a format that this version cannot
/// read.
inline constexpr std::int64_t newer = -2;

/// The number of equal checks of a fetch.
inline constexpr std::int64_t look_only = 0;

/// The expiry of a settlement's marker: there is no marker; it lasts shortest_marker_life.
inline constexpr std::int64_t no_marker = 0, shortest_marker = 1;

/// A settlement's reply: whether it was done.
inline constexpr std::int64_t not_done = 0, done = 1;

/// The number of a kernel in scripts: its place in policies::kernel, counted from 1. Negative if a
/// request that passes has to wait until the bucket is empty.
constexpr std::int64_t kernel_number(std::size_t index, bool is_spaced) noexcept {
  const auto number = static_cast<std::int64_t>(index + 1);
  return is_spaced ? -number : number;
}

/// Appends the number as a little-endian double. Scripts take some numbers in this form, in one
/// argument, because a server needs thousands of instructions for each argument and each number in
/// text.
template <class Out>
void pack_number(Out& to, std::int64_t number) {
  auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(number));
  for (std::size_t byte = 0; byte < sizeof(bits); ++byte, bits >>= 8) {
    to.push_back(static_cast<char>(bits & 255));
  }
}

/// The constants of a kernel's part of the common path.
using plain_constants = boost::container::static_vector<std::int64_t, 5>;

/// The numbers a script takes before its per-key arguments: the policy's constants, then the cost.
/// A common path takes some of them packed.
class script_arguments {
 public:
  script_arguments(std::initializer_list<std::int64_t> values)
      : script_arguments(values, values.size()) {}
  /// The values from the one at `plain` on are packed.
  script_arguments(std::initializer_list<std::int64_t> values, std::size_t plain)
      : size_(values.size()), plain_(plain) {
    std::copy(values.begin(), values.end(), values_.begin());
  }
  /// All of them are packed.
  explicit script_arguments(std::span<const std::int64_t> packed)
      : size_(packed.size()), plain_(0) {
    std::copy(packed.begin(), packed.end(), values_.begin());
  }

  /// The same with a 0 in front.
  script_arguments behind_zero() const noexcept {
    script_arguments all = *this;
    std::copy_backward(values_.begin(), values_.begin() + size_, all.values_.begin() + size_ + 1);
    all.values_[0] = 0;
    ++all.size_, ++all.plain_;
    return all;
  }

  /// All of them are plain.
  std::span<const std::int64_t> values() const& noexcept { return {values_.data(), size_}; }
  std::span<const std::int64_t> values() const&& = delete;  // they would outlive what they look at

  /// The number of arguments, and each: a number, or, at the end, the packed ones.
  std::size_t count() const noexcept { return plain_ + (plain_ < size_ ? 1 : 0); }
  template <class F>
  void each(F&& f) const {
    for (std::size_t i = 0; i < plain_; ++i) f(values_[i]);
    if (plain_ == size_) return;
    boost::container::static_vector<char, most * sizeof(double)> bytes;
    for (std::size_t i = plain_; i < size_; ++i) pack_number(bytes, values_[i]);
    f(std::string_view(bytes.data(), bytes.size()));
  }

 private:
  static constexpr std::size_t most = 8;
  std::array<std::int64_t, most> values_{};
  std::size_t size_, plain_;
};

}  // namespace weir::policies

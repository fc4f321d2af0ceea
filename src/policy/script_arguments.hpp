#pragma once

#include <bit>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

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
constexpr std::int64_t kernel_number(std::size_t index, bool is_leaky) noexcept {
  const auto number = static_cast<std::int64_t>(index + 1);
  return is_leaky ? -number : number;
}

/// Appends the number as a little-endian double. Scripts take their numbers in this form, in one
/// argument, because a server needs thousands of instructions for each argument and each number in
/// text.
inline void pack_number(std::string& to, std::int64_t number) {
  auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(number));
  for (std::size_t byte = 0; byte < sizeof(bits); ++byte, bits >>= 8) {
    to.push_back(static_cast<char>(bits & 255));
  }
}

/// The constants of a kernel's script, the cost among them: those of the policy, in the order in
/// which its file in policy/ names them.
using script_arguments = boost::container::static_vector<std::int64_t, 6>;

inline void pack_numbers(std::string& to, std::initializer_list<std::int64_t> numbers) {
  for (const std::int64_t one : numbers) pack_number(to, one);
}

/// Appends a number as text.
inline void pack_text(std::string& to, std::int64_t number) {
  to += std::to_string(number);
  to += '\0';
}

}  // namespace weir::policies

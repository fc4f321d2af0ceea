#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <string>
#include <variant>

#include "policy/kernel.hpp"

namespace weir::redis {

/// The text and name of a script.
struct script {
  std::string text;
  std::string sha;  // lower-case hexadecimal SHA-1, the server's name for it
};

/// The scripts: one per kernel, in the order of the variant; one for checks with several keys that
/// pass all or nothing; one that makes reservations; one that gives back or charges; one for each
/// of the first three kernels, for checks that a cool-down may refuse.
/// The set is fixed, so that the server's script cache does not grow with the policies in use.
inline constexpr std::size_t all_or_nothing = std::variant_size_v<policies::kernel>;
inline constexpr std::size_t reservation = all_or_nothing + 1;
inline constexpr std::size_t settlement = reservation + 1;
inline constexpr std::size_t with_cool_downs = settlement + 1;
inline constexpr std::size_t kernels_with_cool_downs = 3;
inline constexpr std::size_t script_count = with_cool_downs + kernels_with_cool_downs;

const std::array<script, script_count>& scripts();

/// A subset of scripts(), by index.
using script_set = std::bitset<script_count>;

}  // namespace weir::redis

#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "policy/kernel.hpp"

namespace weir::redis {

/// A script as the server knows it.
struct script {
  std::string text;
  std::string sha;  // lower-case hexadecimal SHA-1, the server's name for it
};

/// One script for each kind of kernel, in the order of the variant; one of them all, for checks
/// that touch several keys and pass or count nothing; one that books turns, and one that takes back
/// or charges. A fixed set, whatever policies there are, so that the server's script cache does not
/// grow with them.
inline constexpr std::size_t all_or_nothing = std::variant_size_v<policies::kernel>;
inline constexpr std::size_t turns = all_or_nothing + 1;
inline constexpr std::size_t settlement = turns + 1;
inline constexpr std::size_t script_count = settlement + 1;

const std::array<script, script_count>& scripts();

/// Some of scripts(), by index.
using script_set = std::bitset<script_count>;

}  // namespace weir::redis

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "policy/kernel.hpp"

namespace weir::redis {

/// A script as the server knows it.
struct script {
  std::string_view text;
  std::string sha;  // lower-case hexadecimal SHA-1, the server's name for it
};

inline constexpr std::size_t script_count = std::variant_size_v<policies::kernel>;

/// One script for each kind of kernel, in the order of the variant: a fixed set, whatever policies there are, so that the
/// server's script cache does not grow with them.
const std::array<script, script_count>& scripts();

}  // namespace weir::redis

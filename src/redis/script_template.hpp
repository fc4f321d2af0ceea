#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

/// Scripts for several keys, and for reservations, are made from the template
/// policy/lua/record_all.lua, which says what its lines mean.
namespace weir::redis {

enum class script_task : bool { record, reserve };

/// One tier of such a script.
struct script_tier {
  std::string_view part;     // its kernel's part of the common path, in policy/lua_sources.hpp
  std::size_t kernel_index;  // in policies::kernel

  /// Each part is one constant.
  friend bool operator==(const script_tier& a, const script_tier& b) noexcept {
    return a.part.data() == b.part.data();
  }
};

/// The kernel's own script with "@start", "@look" and "@write" replaced by what its part has behind
/// these lines.
std::string common_path_of(std::string_view record_script, std::string_view part);

/// The template for checks that have a key for each of these tiers.
std::string common_path_of(std::span<const script_tier> tiers, script_task task);

}  // namespace weir::redis

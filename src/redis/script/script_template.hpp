#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

/// Scripts with a common path are made from two templates: policy/lua/record_one.lua for checks of
/// one key, policy/lua/record_all.lua for checks of several keys and for reservations.
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

/// The common path for checks of one key, of the kernel with this part. `full_constants`: how many
/// constants its full kernel takes.
std::string common_path_of(std::string_view part, std::size_t full_constants);

/// The common path for checks that have a key for each of these tiers.
std::string common_path_of(std::span<const script_tier> tiers, script_task task);

}  // namespace weir::redis

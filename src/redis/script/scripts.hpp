#pragma once

#include <bitset>
#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include "policy/kernel.hpp"
#include "redis/script/script_template.hpp"

namespace weir::redis {

/// The text and name of a script.
struct script {
  std::string text;
  std::string sha;  // lower-case hexadecimal SHA-1, the server's name for it
};

/// The scripts: one per kernel, in the order of the variant; the full kernels for checks with
/// several keys; the full kernels for reservations; one that gives back, charges or lowers; one of
/// buckets whose T is not whole microseconds. Behind them stand the scripts with a common path for
/// checks with several keys, and for reservations: one for each list of kernels' parts, in the
/// order of their first use.
inline constexpr std::size_t full_kernels = std::variant_size_v<policies::kernel>;
inline constexpr std::size_t reservation = full_kernels + 1;
inline constexpr std::size_t settlement = reservation + 1;
inline constexpr std::size_t bucket_in_parts = settlement + 1;
inline constexpr std::size_t first_common_path = bucket_in_parts + 1;

/// So 118 have a common path. Each script has 11 to 30 KB, or 57 for 8 logs, and a connection asks
/// for all that exist.
inline constexpr std::size_t most_scripts = 128;

/// The scripts that this process has made so far. The first call makes the first ones, and may
/// throw. The result does not grow when script_for() makes another one; elements stay where they
/// are. Any thread may call this.
std::span<const script> scripts();

/// The script for checks of one key each.
std::size_t script_for(const policies::kernel& k) noexcept;

/// Makes the script with a common path for these tiers; with no tiers, that of the full kernels.
script make_script(std::span<const script_tier> tiers, script_task task);

/// Lua allows 200 local names in a function. With 8 logs, the script has up to 193: 17 for each
/// tier, and 57 others.
inline constexpr std::size_t most_script_tiers = 8;

/// The index of the script with a common path for these tiers. It is made now, if this is its first
/// use. full_kernels or `reservation` if there are no tiers or too many, too many scripts, or no
/// memory. Any thread may call this.
std::size_t script_for(std::span<const script_tier> tiers, script_task task) noexcept;

/// What a script does, and the tiers that script_for() has made it for: for tests.
script_task task_of_script(std::size_t index) noexcept;
std::span<const script_tier> tiers_of_script(std::size_t index) noexcept;

/// A subset of scripts(), by index.
using script_set = std::bitset<most_scripts>;

}  // namespace weir::redis

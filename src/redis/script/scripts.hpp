#pragma once

#include <bitset>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include "policy/tier_set.hpp"

namespace weir::redis {

/// The text and name of a script.
struct script {
  std::string text;
  std::string sha;  // lower-case hexadecimal SHA-1, the server's name for it
};

/// What a script for checks and reservations is made for: the kernels of its tiers.
struct kernel_list {
  struct tier {
    std::size_t kernel;     // its index in policies::kernel
    bool in_parts = false;  // a bucket whose T is not whole microseconds
    friend bool operator==(const tier&, const tier&) = default;
  };
  boost::container::static_vector<tier, policies::max_tiers> tiers;
  /// The script has a common path for plain states; else the full kernels answer all.
  bool has_common_path = false;

  /// Without a common path, all buckets are taken to be in parts: one text for both.
  void make_general() noexcept;
  friend bool operator==(const kernel_list&, const kernel_list&) = default;
};

/// Lua allows 200 local names in a function: a longer list has no common path.
inline constexpr std::size_t most_common_tiers = 8;

/// The list for checks, or reservations, at these kernels. `kernel_of` makes a kernel of a tier.
template <class Tiers, class Projection>
kernel_list kernel_list_of(const Tiers& tiers, bool reserves, Projection kernel_of) {
  kernel_list list;
  // If one of two leaky buckets delays a request, the other one has to count it at the later time;
  // for a reservation, the bucket itself has to. Only the full kernels can.
  const std::size_t most_leaky = reserves ? 0 : 1;
  std::size_t leaky_tiers = 0;
  list.has_common_path = tiers.size() <= most_common_tiers;
  // What it writes shows whether a single key is of another type. A check of a cool-down only
  // looks.
  const bool writes = tiers.size() > 1 ||
                      !std::holds_alternative<policies::cool_down>(kernel_of(*tiers.begin()));
  list.has_common_path = list.has_common_path && writes;
  for (const auto& one : tiers) {
    const policies::kernel& kernel = kernel_of(one);
    const auto* const bucket = std::get_if<policies::meter>(&kernel);
    list.tiers.push_back({kernel.index(), bucket != nullptr && !bucket->has_whole_units()});
    leaky_tiers += policies::is_leaky(kernel) ? 1 : 0;
    list.has_common_path = list.has_common_path && leaky_tiers <= most_leaky &&
                           std::visit([](const auto& k) { return k.has_common_path(); }, kernel);
  }
  if (!list.has_common_path) list.make_general();
  return list;
}

/// The first scripts: for each kernel alone, in the order of the variant; the script that gives
/// back, charges or lowers; that of a bucket whose T is not whole microseconds. Behind them stand
/// those of other lists, in the order of their first use.
inline constexpr std::size_t settlement = std::variant_size_v<policies::kernel>;
inline constexpr std::size_t bucket_in_parts = settlement + 1;

/// A connection asks for all that exist. Each has 8 to 30 KB, or 57 for 8 logs.
inline constexpr std::size_t most_scripts = 1024;
/// In place of an index: there are too many lists, or no memory.
inline constexpr std::size_t no_script = most_scripts;

/// The scripts that this process has made so far. The first call makes the first ones, and may
/// throw. The result does not grow when script_for() makes another one; elements stay where they
/// are. Any thread may call this.
std::span<const script> scripts();

/// Makes the script for a list.
script make_script(const kernel_list& list);

/// The index of the script for this list, or no_script. It is made now, if this is its first use.
/// Any thread may call this.
std::size_t script_for(const kernel_list& list) noexcept;

/// The list of a script; that of settlements has none.
const kernel_list& list_of_script(std::size_t index) noexcept;

/// A subset of scripts(), by index.
using script_set = std::bitset<most_scripts>;

}  // namespace weir::redis

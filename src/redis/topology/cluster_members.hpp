#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "redis/slot_map.hpp"
#include "redis/topology/cluster_node.hpp"

namespace weir::redis {

/// The nodes of a Redis Cluster that a store knows: its seeds, the masters of the slot map, and
/// those that a node has named. A node's connection lasts from its first use until the node is no
/// master and nothing is pending there.
class cluster_members {
 public:
  using index = std::uint16_t;
  using make_node = std::function<std::shared_ptr<cluster_node>(const redis_address&, index)>;
  static constexpr index none = slot_map::none;

  struct member {
    redis_address at;
    std::shared_ptr<cluster_node> link;  // null: not connected
    std::size_t pending = 0;             // checks there
    bool is_seed = false;
    bool is_master = false;         // of the slot map, or named by a node since
    bool is_ready = false;          // the connection serves
    bool is_asked = false;          // for the slot map
    bool is_useless = false;        // it refused the store for a reason that will probably not pass
    bool is_down = false;           // its last answer to a check was that the cluster is down
    pipeline::time ask_again_at{};  // then: when a failure policy does not decide the next check
  };

  cluster_members(const std::vector<redis_address>& seeds, make_node make);

  member& operator[](index i) noexcept { return all_[i]; }
  const member& operator[](index i) const noexcept { return all_[i]; }
  std::size_t size() const noexcept { return all_.size(); }

  /// True if a check is at one of them.
  bool has_checks() const noexcept {
    return std::ranges::any_of(all_, [](const member& m) { return m.pending > 0; });
  }

  /// True if a seed is not useless.
  bool has_useful_seed() const noexcept {
    return std::ranges::any_of(all_, [](const member& m) { return m.is_seed && !m.is_useless; });
  }

  /// The member at that address, which may be new; none if there are too many.
  index at(const redis_address& address);
  /// The member's connection, which may be new.
  cluster_node& link(index i);
  /// Makes the masters of the map the only ones, and returns their indices; none for the excess.
  std::vector<index> set_masters(const std::vector<redis_address>& masters);
  /// Closes the connections, and forgets the members, that are not needed any more.
  void sweep();
  /// Gives up all connections without closing them.
  std::vector<std::shared_ptr<cluster_node>> release();

 private:
  static constexpr std::size_t most = 2 * slot_map::max_masters;

  make_node make_;
  std::vector<member> all_;
  std::vector<index> vacant_;
  std::map<std::pair<std::string, std::uint16_t>, index> by_address_;
};

}  // namespace weir::redis

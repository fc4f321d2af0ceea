#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "redis/resp/resp_reader.hpp"
#include "redis/slot.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// Which node of a Redis Cluster serves which slot.
struct slot_map {
  static constexpr std::uint16_t none = 0xffff;
  /// The most masters in a map. Redis itself is made for up to 1,000 nodes.
  static constexpr std::size_t max_masters = 2048;

  std::vector<redis_address> masters;
  std::array<std::uint16_t, slot_count> owner;  // an index of `masters`, or none
};

/// The bounds of a reply that may hold a slot map. Each slot may be a range of its own, and a range
/// names its master and its replicas.
inline constexpr reply_limits slot_map_limits{.max_values = 1024 * 1024,
                                              .max_reply_bytes = 32 * 1024 * 1024};

/// Reads the reply to CLUSTER SLOTS (Redis 3 to 8, Valkey). A node without an address of its own is
/// at `asked`, the host that has replied. Null if the reply is no slot map, or names no slot.
std::unique_ptr<slot_map> read_slot_map(const reply_view& reply, std::string_view asked);

/// What a node answers in place of running a command.
struct redirection {
  enum class kind : std::uint8_t {
    none,       ///< another reply
    moved,      ///< the slot belongs to the node at `to`
    ask,        ///< this time, the node at `to` has the keys
    try_again,  ///< the slot is being moved, and not all of the keys are at one node
    lost,       ///< the slot belongs to another node, which the reply does not name
    down,       ///< the slot is served by no node at present, or not by this one
    again,      ///< the script is missing, or the node cannot run it at present: nothing moves
  };
  kind what = kind::none;
  redis_address to = {};   // of moved and ask; an empty host: the node that has replied
  bool is_of_all = false;  // down: no slot is served
};

/// Reads an error reply. A malformed MOVED or ASK is `lost`: nothing ran, and a new slot map tells
/// where to go.
redirection read_redirection(std::string_view error_text);

}  // namespace weir::redis

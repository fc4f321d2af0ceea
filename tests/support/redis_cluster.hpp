#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/redis_client.hpp"
#include "support/redis_server.hpp"

namespace weir::test {

/// A real Redis Cluster of the test's own on loopback: masters, each with a replica, that share the
/// slots evenly. A master that is gone for 1.5 s (or the
/// --cluster-node-timeout in `arguments`) is replaced.
class redis_cluster {
 public:
  /// With fewer replicas than masters, the last masters have none.
  explicit redis_cluster(std::size_t masters = 3, std::size_t replicas = 3,
                         std::vector<std::string> arguments = {}, redis_server_tls tls = {});

  /// The first nodes start as masters; their replicas follow in the same order.
  redis_server& node(std::size_t i) { return *nodes_.at(i); }
  std::size_t size() const noexcept { return nodes_.size(); }
  const std::string& id(std::size_t i) const { return ids_.at(i); }

  /// redis-cluster:// or rediss-cluster://, with the first three nodes as seeds.
  std::string url() const;

  /// The node that is the master of the slot by its own word.
  std::size_t owner_of(std::uint16_t slot);
  /// All slots of a node, by its own word.
  std::vector<std::uint16_t> slots_of(std::size_t i);

  /// Moves a slot: begin_move(), some of its keys, then the rest and end_move(), which settles.
  void begin_move(std::uint16_t slot, std::size_t from, std::size_t to);
  /// Moves at most so many keys; returns how many there were.
  std::size_t move_keys(std::uint16_t slot, std::size_t from, std::size_t to, std::size_t most);
  void end_move(std::uint16_t slot, std::size_t from, std::size_t to);
  void move(std::uint16_t slot, std::size_t from, std::size_t to);

  /// Waits until all nodes have heard of the last move. A slot that moves back before has two nodes
  /// that name each other, for good.
  void settle();

  /// Adds a master without slots, and waits until all nodes know it.
  std::size_t add();
  /// Removes a master without slots: all others forget it.
  void remove(std::size_t i);

  /// Waits until the replica of the master has all that the master has.
  void replicate(std::size_t master, std::size_t replica);

  /// Waits, asking every few milliseconds.
  static void wait_until(const std::function<bool()>& holds, const char* what);

 private:
  void start(std::size_t count);
  bool agree();

  std::vector<std::string> arguments_;
  redis_server_tls tls_;
  std::vector<std::unique_ptr<redis_server>> nodes_;
  std::vector<std::string> ids_;
};

}  // namespace weir::test

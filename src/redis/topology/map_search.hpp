#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "base/backoff.hpp"
#include "redis/topology/cluster_members.hpp"

namespace weir::redis {

/// Decides when a Redis Cluster is asked for its slot map, and which node. Nodes are asked in
/// rounds: first some masters that are connected, then the seeds, then other masters. The next one
/// is asked when one fails, or has not answered for a while; its answer still counts. After a round
/// without a map comes a pause, which grows.
class map_search {
 public:
  using time = pipeline::time;
  using index = cluster_members::index;

  /// How old a map may become.
  static constexpr std::chrono::seconds interval{30};
  /// The shortest time between two maps: in a resharding, many slots move at once.
  static constexpr std::chrono::milliseconds shortest_interval{100};
  /// As long as maps bring nothing new, the time between two grows up to this.
  static constexpr detail::backoff::duration longest_interval{1'000'000};

  map_search(cluster_members& members, const redis_options& options, std::uint32_t seed);

  /// Called when the map is wrong or missing. Asks for another one as soon as it may; not if the
  /// last one is younger than `age`.
  void want(time now, std::chrono::milliseconds age = {});
  /// A node has sent a map; `is_new`: it differs from what was known.
  void found(time now, bool is_new);
  /// Called when this node will not answer: it has no connection, or no map. True if that ends a
  /// round.
  bool failed(index from, time now);
  /// True if that ends a round.
  bool on_time(time now);
  time wakeup() const noexcept { return wakeup_; }
  void stop() noexcept {
    is_stopped_ = true;
    wakeup_ = time::max();
  }

 private:
  /// After this time without an answer, the next node is asked, too.
  static constexpr std::chrono::milliseconds next_node_after{250};
  static constexpr std::size_t most_of_a_kind = 4;

  void begin_round(time now);
  bool ask_next(time now);

  cluster_members& members_;
  detail::backoff backoff_;
  std::minstd_rand random_;
  std::vector<index> round_;  // who is still to be asked, the last one first
  bool is_asking_ = false;
  bool is_stopped_ = false;
  time not_before_ = time::min();  // of the next round
  time found_at_ = time::min();    // the last map
  time wakeup_ = time::max();      // of the next round, or of the next node in this one
};

}  // namespace weir::redis

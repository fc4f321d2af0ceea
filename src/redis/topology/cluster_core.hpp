#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/agenda.hpp"
#include "base/hash.hpp"
#include "base/lateness.hpp"
#include "check/flight.hpp"
#include "check/limiter_spec.hpp"
#include "link/deadline_wheel.hpp"
#include "redis/topology/cluster_members.hpp"
#include "redis/topology/map_search.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// Calls f with a hash of each resource and subject of the check: checks that share a key share
/// such a hash.
template <class F>
void each_key(const detail::check& c, F&& f) {
  detail::for_each_limiter(c, [&](const detail::limiter_spec& limiter, std::string_view subject) {
    f(limiter.resource_id ^ detail::subject_hash(subject));
  });
}

/// Sends each check to the node of a Redis Cluster that serves its slot, without sockets, clocks or
/// locks.
///
///     held --> at a node --> finished
///      ^          |
///      +----------+  redirected, or unsent while the slot moves
///
/// Calls of one key keep their order by this rule: all checks of a slot that are at nodes are at
/// one node. If the slot moves, or the node sends a check back, the slot is held: its unsent checks
/// come back, and new ones wait, sorted by the order in which they were made. When no check of the
/// slot is at a node any more, all go to the node that the map names, in that order. One exception:
/// a check that is sent behind ASKING is at another node.
///
/// The driver passes the time, serialises the calls, and delivers take_done(). It may call
/// cluster_node::start() outside these calls: from submit() to finished(), the check counts as
/// being at the node.
class cluster_core {
 public:
  using time = pipeline::time;
  using index = cluster_members::index;

  cluster_core(const redis_options& options, cluster_members::make_node make, std::uint32_t seed);

  /// Asks for the first map.
  void open(time now) { search_.want(now); }

  /// Routes a new check. The caller starts it at that node; null: it is held, or finished.
  std::shared_ptr<cluster_node> submit(detail::check& c, time now);
  /// Does nothing if the check was finished before.
  void cancel(detail::check& c, detail::cancel_scope scope);
  /// Counts checks that nodes have finished.
  void finished(const detail::check_list& done, time now);
  /// Called when a node has redirected checks, a map, or news of its connection.
  void on_node_event(index node, const cluster_node& link, time now);
  /// Called when a node's connection has ended for good.
  void ended(index node, const cluster_node& link);

  /// See store::close(). Ends all held checks except give-backs. False if it was closed before.
  bool close(time now);
  /// True if no check is held or at a node; or after end().
  bool is_idle() const noexcept {
    return done_.empty() && (ended_ || (held_.empty() && !members_.has_checks()));
  }
  bool is_closed() const noexcept { return closed_; }
  /// Ends what is held, and the timer.
  void end();
  /// The nodes that have a connection.
  std::vector<std::shared_ptr<cluster_node>> links() const;

  time wakeup() const noexcept;
  void on_time(time now);

  detail::check_list take_done();
  bool has_done() const noexcept { return !done_.empty(); }

  /// Removes all held checks without results, and gives the nodes up: the execution context is
  /// being destroyed.
  detail::check_list abandon(std::vector<std::shared_ptr<cluster_node>>& nodes);

 private:
  static constexpr index none = cluster_members::none;
  using slot_number = std::uint16_t;

  struct slot {
    index owner = none;         // by the map, and by MOVED since
    index current_node = none;  // where its checks are, if pending > 0
    std::uint32_t pending = 0;  // checks at nodes
    std::uint32_t next_order = 0;
    bool is_held = false;  // it is in held_
  };
  struct held_slot : detail::agenda_entry {
    slot_number number = 0;
    detail::check_list checks;  // sorted by in_flight::order
    time not_before = time::min();
    error_code why;  // why the last node did not serve the slot; zero: the slot may have moved
    // Hashes of the keys of these checks. Those of checks that have ended stay until there are
    // sweep_at of them.
    boost::unordered_flat_set<std::uint64_t> keys;
    std::size_t sweep_at = 64;
  };
  /// Where checks of a slot are that were sent behind ASKING.
  struct asking {
    index node;
    std::uint32_t pending = 0;
  };

  void finish(detail::check& c, error e);
  void finish_held(error e, bool all);
  bool may_try(index node, time now);
  void hold_new(detail::check& c, time now);
  held_slot& hold(slot_number s);
  void hold(detail::check& c, time not_before);
  void unhold(detail::check& c);
  static void note_keys(held_slot& h, const detail::check& c);
  index node_of(const detail::check& c) const;
  void leave(const detail::check& c);
  void arrive(detail::check_list& checks, index at);
  void redirect(pipeline::redirected_checks& r, index from, time now);
  bool may_ask(const detail::check& c, index at) const;
  void lost(index node, const connection_core::link_news& news, time now,
            std::vector<slot_number>& slots);
  time pause_of_down(slot_number s, time now);
  template <class F, class Keep>
  void pull(index from, F&& which, Keep&& keep);
  void pull_held(index from, std::vector<slot_number>& slots);
  void apply(const slot_map& map, time now);
  void map_came(pipeline::map_answer& a, index from, time now);
  void round_failed();
  void release(slot_number s, time now);
  void sweep();

  const redis_options& options_;
  cluster_members members_;
  map_search search_;
  std::vector<slot> slots_;
  std::map<slot_number, held_slot> held_;
  detail::agenda<held_slot> releases_;  // when slots are to be released
  boost::unordered_flat_map<slot_number, asking> asking_;
  // For each slot that had no node when a check was last sent to it: its number of pauses so far.
  boost::unordered_flat_map<slot_number, std::uint8_t> downs_;
  detail::deadline_wheel wheel_;  // of held checks
  std::minstd_rand random_;       // of the pauses while no node serves a slot
  std::size_t held_weight_ = 0;
  std::size_t awaited_ = 0;  // held slots that have checks at nodes
  bool must_sweep_ = false;

  bool has_map_ = false;
  error trouble_{};       // why there is no map; zero: unknown
  bool is_lost_ = false;  // no round has ever found a map, and at least one has ended
  error refusal_{};       // if not zero, fails new checks: no seed can be used
  bool closed_ = false;
  bool ended_ = false;
  detail::limit give_up_;  // the end of waiting for give-backs

  detail::check_list done_;
  std::string scratch_;
  std::vector<pipeline::redirected_checks> redirected_;
};

}  // namespace weir::redis

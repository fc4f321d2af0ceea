#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <vector>

#include "redis/script_call.hpp"

namespace weir::redis {

/// Packs the checks that leave in one write into as few calls as keep their order: checks of one
/// key and cost become one key with a count; keys of one limiter and cost share a call. Joint
/// checks likewise, where all their limiters, subjects and costs are the same. Checks of one key
/// are never reordered.
class coalescer {
 public:
  explicit coalescer(std::size_t max_keys_per_call) : max_keys_(max_keys_per_call) {}

  /// At most so many keys leave in one write, or one call's worth if that is more; each turn counts
  /// as one, since the script looks for it by itself. A server works while the next write is
  /// prepared; given everything at once, it waits for its clients while they wait for it.
  static constexpr std::size_t max_keys_per_write = 256;

  /// How much of a line may leave.
  struct quota {
    std::size_t keys = static_cast<std::size_t>(-1);  ///< those of the urgent included
    /// Checks with an earlier deadline are passed over.
    detail::check::steady_time reachable = detail::check::steady_time::min();
  };

  /// Moves the first checks out of `line`, as many as one write takes, and returns the calls that
  /// carry them, in order. Valid until the next pack().
  std::vector<script_call>& pack(detail::check_list& line);

  /// The same with those of `urgent` before them, whatever the quota. What was passed over, and has
  /// been overtaken, goes to `passed_over`: it must not be sent any more.
  std::vector<script_call>& pack(detail::check_list& urgent, detail::check_list& line,
                                 const quota& q, detail::check_list& passed_over);

 private:
  struct place {
    std::size_t call;
    std::size_t key;
    friend bool operator==(const place&, const place&) = default;
  };
  /// Two limiters of one resource may share keys, whatever their policies.
  struct key_id {
    std::uint64_t resource;    // limiter_spec::resource_id
    std::string_view subject;  // of the first check of the key; lives as long as this pack() runs
    friend bool operator==(const key_id&, const key_id&) = default;
  };
  struct group_id {
    const detail::limiter_spec* limiter;
    std::int64_t cost;
    detail::check_kind kind;
    std::size_t further;    // of a joint check: a hash of its further limiters and costs
    std::int64_t max_wait;  // of an acquire
    friend bool operator==(const group_id&, const group_id&) = default;
  };
  struct hash {
    std::size_t operator()(const key_id& k) const noexcept;
    std::size_t operator()(const group_id& g) const noexcept;
  };

  void begin();
  void put(detail::check& c, bool alone);
  void add(detail::check& c);
  void add_joint(detail::check& c);
  bool join_last(detail::check& c, const place& last);
  std::size_t call_for(const detail::check& c, std::size_t not_before);
  std::size_t open_call(const detail::check& c);
  void append(script_call& to, detail::check& c);

  const std::size_t max_keys_;
  std::vector<script_call> calls_;
  std::size_t keys_ = 0;                                         // the weights of calls_ together
  boost::unordered_flat_map<key_id, place, hash> last_place_;    // where the key was added last
  boost::unordered_flat_map<group_id, std::size_t, hash> open_;  // the call that takes further keys
};

}  // namespace weir::redis

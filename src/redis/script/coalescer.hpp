#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>

#include "redis/script/call_size.hpp"
#include "redis/script/key_table.hpp"
#include "redis/script/script_call.hpp"

namespace weir::redis {

/// Packs the checks of one write into the fewest script calls that keep their order. Checks of one
/// key and cost become one key with a count; keys of one limiter and cost share a call; joint
/// checks coalesce if all their limiters, subjects and costs are equal. Checks of one key are never
/// reordered.
class coalescer {
 public:
  explicit coalescer(std::size_t max_keys_per_call) : size_(max_keys_per_call) {}

  /// The most keys in one write (more only if one call has more). A check that the script runs on
  /// its own, such as a reservation, counts as a key. With a bound, the server works while the next
  /// write is prepared; with all in one write, server and client wait for each other in turn.
  static constexpr std::size_t max_keys_per_write = 256;
  /// max_keys_per_write, or the keys of one call if these are more.
  std::size_t full_write() const noexcept { return std::max(size_.most(), max_keys_per_write); }

  /// Which of the waiting checks may be sent.
  struct quota {
    std::size_t keys = static_cast<std::size_t>(-1);  ///< including the keys of urgent checks
    /// Checks with an earlier deadline are passed over.
    detail::check::steady_time reachable = detail::check::steady_time::min();
  };

  /// Moves the first checks out of `line`, as many as one write takes, and returns their calls in
  /// order. The caller may move calls out of the list; the next pack() ends the rest.
  call_list& pack(detail::check_list& line);

  /// As above, with all of `urgent` first, whatever the quota. Checks that were passed over and
  /// overtaken go to `passed_over`: they must not be sent any more.
  call_list& pack(detail::check_list& urgent, detail::check_list& line, const quota& q,
                  detail::check_list& passed_over);

  /// Takes the first call of a list, which has no checks any more, for later use, and learns from
  /// its answer how large calls may be.
  void take_back(call_list& from);

 private:
  using call_slot = key_table::call_slot;
  struct group_id {
    const detail::limiter_spec* limiter;
    std::int64_t units;
    detail::check_kind kind;
    std::size_t further;    // joint checks: a hash of the further limiters and costs
    std::int64_t max_wait;  // acquire: microseconds
    std::uint16_t slot;     // in a Redis Cluster, else 0: the keys of one call share a slot
    friend bool operator==(const group_id&, const group_id&) = default;
  };
  struct hash {
    std::size_t operator()(const group_id& g) const noexcept;
  };

  void begin();
  void put(detail::check& c, bool alone, bool same_request);
  void join_run(detail::check_list& line, detail::check::steady_time reachable);
  void add_to_key(detail::check& c, bool same_request);
  void add_joint(detail::check& c);
  void add_alone(detail::check& c);
  void note_call(const detail::check& c, const call_slot& here);
  bool join_last(detail::check& c, const call_slot& last);
  script_call& call_for(const detail::check& c, std::size_t not_before);
  static bool has_room(const script_call& c) noexcept;
  script_call& open_call(const detail::check& c);
  void append(script_call& to, detail::check& c);
  static void join(detail::check& c, call_key& key, script_call& call);

  // As many calls of one key as a fast server has under way at once.
  static constexpr std::size_t most_spare = 1024;

  call_size size_;
  call_list calls_;
  call_list spare_;       // at most most_spare
  std::size_t keys_ = 0;  // the sum of the weights of calls_
  key_table last_call_;   // each key's last call
  boost::unordered_flat_map<group_id, script_call*, hash> open_;  // the calls with room for keys
  // Records that follow each other are mostly alike. If the last check is a record that merges: its
  // request, its call, which takes further keys, and its key there.
  struct recent {
    script_call* call = nullptr;
    const detail::limiter_spec* limiter = nullptr;
    std::int64_t units = 0;
    std::uint16_t route = 0;
    std::size_t key = 0;
    std::string_view subject;

    bool same_request(const detail::check& c) const noexcept;
    bool has_subject_of(const detail::check& c) const noexcept;
  };
  recent recent_;
};

}  // namespace weir::redis

#pragma once

#include <cstddef>
#include <functional>

#include "weir/decision.hpp"
#include "weir/store.hpp"

namespace weir {

/// How an in-process store is set up.
struct memory_options {
  /// Live subjects at the most, each tier counted as one: 1 to 10^12, and no more than 4 * 10^9 in
  /// a shard. A new one beyond that gets error::store_full: what still counts is never forgotten.
  /// The bound is divided among the shards, and all of a `group` lies in one of them. A subject
  /// takes about 150 bytes, a key of more than 40 bytes takes its length more, and each entry of a
  /// sliding_log 16 bytes.
  std::size_t max_subjects = 1'000'000;

  /// Settled decisions (limiter::refund, limiter::settle) that are remembered at the most, in all
  /// shards together: 1 to 10^9. Beyond that refund() and settle() get error::settlements_full and
  /// change nothing: none is forgotten early. The store remembers one for a minute, or for as long
  /// as a refund could give anything back, if that is longer. It takes about 35 bytes.
  std::size_t max_settled = 1'000'000;

  /// Independent parts, each with a lock of its own; 1 to 65,536, rounded up to a power of two. A
  /// store gets fewer where a shard would hold less than 1,024 subjects.
  std::size_t shards = 16;

  /// The clock; the system's unless given. May step backward: a policy reads such a time as its
  /// state's own. Called from any thread that checks, under a lock: it must not use the store, nor
  /// throw.
  std::function<time_point()> clock = {};
};

/// A store in this process. Each check looks at a few subjects, of all shards in turn, and drops
/// those that no longer matter: at a constant cost, without a pause, a timer or a thread. Their
/// memory goes back to the allocator. A store that nobody asks drops nothing. Throws
/// boost::system::system_error with error::invalid_options if a number is out of range.
store make_memory_store(const boost::asio::any_io_executor& executor, memory_options options = {});

}  // namespace weir

#pragma once

#include <cstddef>
#include <functional>

#include "weir/decision.hpp"
#include "weir/store.hpp"

namespace weir {

/// How an in-process store is set up.
struct memory_options {
  /// Live subjects at the most, each tier counted as one: 1 to 10^12. A new one beyond that gets
  /// error::store_full: what still counts is never forgotten. The bound is divided among the shards,
  /// and all of a `group` lies in one of them.
  std::size_t max_subjects = 1'000'000;

  /// Independent parts, each with a lock of its own; 1 to 65,536, rounded up to a power of two.
  std::size_t shards = 16;

  /// The clock; the system's unless given. May step backward: a policy reads such a time as its state's own. Called from
  /// any thread that checks, under a lock: it must not use the store, nor throw.
  std::function<time_point()> clock = {};
};

/// A store in this process. Subjects that no longer matter are dropped as others are checked, at a constant cost per
/// check; there is no timer and no thread. Throws boost::system::system_error with
/// error::invalid_options if a number is out of range.
store make_memory_store(const boost::asio::any_io_executor& executor, memory_options options = {});

}  // namespace weir

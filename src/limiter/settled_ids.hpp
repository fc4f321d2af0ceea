#pragma once

#include <cstdint>
#include <mutex>

#include "memory/settled_marks.hpp"

namespace weir::detail {

/// The ids of the decisions that this process has settled within the last minute, at most 262,144
/// (10 MB); when full, new ids are not kept. A server may evict its markers; with these ids, one
/// process still settles a decision only once. Thread-safe.
class settled_ids {
 public:
  static constexpr std::size_t most = 262'144;

  /// A child of fork() gets a new, empty object: a thread of the parent may have held the lock.
  static settled_ids& of_process();

  bool contains(std::uint64_t id) { return contains(id, read_steady_clock()); }
  void add(std::uint64_t id) { add(id, read_steady_clock()); }

  // As above, at a given time in microseconds.
  bool contains(std::uint64_t id, policies::instant now);
  void add(std::uint64_t id, policies::instant now);

 private:
  static policies::instant read_steady_clock() noexcept;

  std::mutex mutex_;
  memory::settled_marks::shared_room room_{.most = most};
  memory::settled_marks ids_{room_};
  std::uint64_t salt_ = 0;  // fork_salt() of the process that made it
};

}  // namespace weir::detail

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/random.hpp"
#include "memory/segmented_table.hpp"
#include "policy/arithmetic.hpp"

namespace weir::memory {

/// The receipts that were settled, each remembered until a time of its own. Not thread-safe; only
/// the room may be shared by several threads.
class settled_marks {
 public:
  /// The number of marks and its bound, which all shards of a store share.
  struct shared_room {
    std::atomic<std::size_t> taken{0};
    std::size_t most = 0;
  };

  explicit settled_marks(shared_room& room)
      : room_(room), marks_(std::min<std::size_t>(room.most, 1 << 19)) {}

  bool has(std::uint64_t id, policies::instant now) noexcept {
    const mark* found = find(id);
    return found != nullptr && !found->is_over(now);
  }

  /// Marks a receipt until then. False if there is no room.
  bool add(std::uint64_t id, policies::instant until) {
    if (mark* old = find(id)) {
      old->until = until;
      return true;
    }
    if (!take_room()) return false;
    try {
      marks_.add({id, until});
    } catch (...) {
      give_back_room(1);
      throw;
    }
    return true;
  }

  void erase(std::uint64_t id) noexcept {
    const mark* found = find(id);
    if (found == nullptr) return;
    marks_.erase(*found);
    give_back_room(1);
  }

  /// As segmented_table::tidy(). A mark that it sees and that would last longer now lasts until
  /// `last`.
  bool tidy(policies::instant now, std::size_t looks,
            policies::instant last = policies::max_exact) noexcept {
    const std::size_t before = marks_.size();
    const bool has_more = marks_.tidy(now, looks,
                                      [&](mark& m) { m.until = std::min(m.until, last); });
    if (marks_.size() < before) give_back_room(before - marks_.size());
    return has_more;
  }

 private:
  struct mark {
    std::uint64_t id = 0;  // 0: this slot is free
    policies::instant until = 0;

    /// With a secret, because a caller can choose the ids of receipts.
    static std::uint32_t hash_of(std::uint64_t id) noexcept {
      static const std::uint64_t secret = detail::random_number();
      return static_cast<std::uint32_t>(detail::random_numbers::mixed(id ^ secret));
    }
    std::uint32_t hash() const noexcept { return hash_of(id); }
    bool is_free() const noexcept { return id == 0; }
    bool is_over(policies::instant now) const noexcept { return until <= now; }
  };

  mark* find(std::uint64_t id) noexcept {
    return marks_.find(mark::hash_of(id), [&](const mark& m) { return m.id == id; });
  }
  bool take_room() noexcept {
    if (room_.taken.fetch_add(1, std::memory_order_relaxed) < room_.most) return true;
    give_back_room(1);
    return false;
  }
  void give_back_room(std::size_t marks) noexcept {
    room_.taken.fetch_sub(marks, std::memory_order_relaxed);
  }

  shared_room& room_;
  segmented_table<mark> marks_;
};

}  // namespace weir::memory

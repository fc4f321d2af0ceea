#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/slot_table.hpp"
#include "policy/arithmetic.hpp"

namespace weir::memory {

/// A hash table of many small tables: each grows and shrinks on its own, so no call moves more than
/// one. After some rounds of the hand, at least a quarter of the slots are in use, except in the
/// smallest tables. With more than a million entries, the tables are not small any more.
///
/// A hand goes round over all slots, a few with each tidy(), and erases the entries that are over.
///
/// `Entry` is one for a slot_table that also has is_over(now). Pointers to entries are valid until
/// one is added or erased.
template <class Entry>
class segmented_table {
 public:
  /// `most`: about the largest number of entries.
  explicit segmented_table(std::size_t most)
      : segments_(std::bit_ceil(std::clamp<std::size_t>(most / per_segment, 1, most_segments))),
        shift_(32 - static_cast<unsigned>(std::countr_zero(segments_.size()))) {}

  std::size_t size() const noexcept { return size_; }

  /// Begins to load what find() will look at first.
  void prefetch(std::uint32_t hash) const noexcept { segments_[place_of(hash)].prefetch(hash); }

  /// The entry with this hash for which is_it() is true, or null.
  template <class F>
  Entry* find(std::uint32_t hash, F&& is_it) noexcept {
    return segments_[place_of(hash)].find(hash, is_it);
  }

  /// The entry must be new.
  Entry& add(Entry&& fresh) {
    Entry& added = segments_[place_of(fresh.hash())].add(std::move(fresh));
    ++size_;
    return added;
  }

  void erase(const Entry& e) noexcept {
    segments_[place_of(e.hash())].erase(e);
    --size_;
  }

  /// Moves the hand over at most `looks` slots, once round at the most. Calls look(entry) before it
  /// asks whether the entry is over; that may change the answer. True if most entries that the hand
  /// saw were over: many more may be.
  template <class F>
  bool tidy(policies::instant now, std::size_t looks, F&& look) noexcept {
    std::size_t seen = 0, erased = 0;
    const auto is_over = [&](Entry& e) {
      ++seen;
      look(e);
      const bool over = e.is_over(now);
      erased += over ? 1 : 0;
      return over;
    };
    for (std::size_t ends = 0; looks > 0 && ends <= segments_.size(); ++ends) {
      if (!segments_[hand_].sweep(looks, is_over)) break;
      hand_ = (hand_ + 1) & (segments_.size() - 1);
      looks -= std::min(looks, looks_per_segment);
    }
    size_ -= erased;
    return erased > seen / 2;
  }
  bool tidy(policies::instant now, std::size_t looks) noexcept {
    return tidy(now, looks, [](const Entry&) {});
  }

 private:
  static constexpr std::size_t per_segment = 1024, most_segments = 1024;
  // What going to the next segment costs.
  static constexpr std::size_t looks_per_segment = 2;

  // The highest bits choose the segment, the lowest ones the slot.
  std::size_t place_of(std::uint32_t hash) const noexcept {
    return static_cast<std::size_t>(std::uint64_t{hash} >> shift_);
  }

  std::vector<slot_table<Entry>> segments_;
  unsigned shift_;
  std::size_t size_ = 0;
  std::size_t hand_ = 0;  // the segment that it is in
};

}  // namespace weir::memory

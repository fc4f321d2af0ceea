#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "memory/hash_index.hpp"
#include "policy/arithmetic.hpp"

namespace weir::memory {

/// A hash table whose entries lie side by side without holes. The last entry replaces an erased
/// one, so memory follows the number of entries.
///
/// A hand goes round over the entries, a few with each tidy(), and erases those that are over, at a
/// bounded cost per call.
///
/// `Entry` has hash() and is_over(now). Pointers to entries are valid until an erasure.
template <class Entry>
class dense_table {
 public:
  /// `most`: about the largest number of entries.
  explicit dense_table(std::size_t most) : index_(most) {}

  std::size_t size() const noexcept { return size_; }

  /// Begins to load what find() will look at first.
  void prefetch(std::uint32_t hash) const noexcept { index_.prefetch(hash); }

  /// The entry with this hash for which `is_it` is true, or null.
  template <class F>
  Entry* find(std::uint32_t hash, F&& is_it) noexcept {
    const std::uint32_t place = index_.find(
        hash, [&](std::uint32_t at) { return is_it(std::as_const(entry(at))); });
    return place == hash_index::none ? nullptr : &entry(place);
  }

  Entry& add(Entry&& fresh) {
    if (size_ == chunks_.size() * per_chunk)
      chunks_.push_back(std::make_unique<Entry[]>(per_chunk));
    const auto place = static_cast<std::uint32_t>(size_);
    index_.insert(fresh.hash(), place);
    ++size_;
    return entry(place) = std::move(fresh);
  }

  /// Erases the entry with this hash for which `is_it` is true.
  template <class F>
  void erase(std::uint32_t hash, F&& is_it) {
    const std::uint32_t place = index_.find(
        hash, [&](std::uint32_t at) { return is_it(std::as_const(entry(at))); });
    if (place != hash_index::none) erase(place);
  }

  /// Moves the hand until it has seen `looks` entries that are not over, and erases those that are,
  /// at most `drops`. True if it stopped at that bound: more may be over. Calls look(entry) before,
  /// which may change when the entry is over.
  template <class F>
  bool tidy(policies::instant now, std::size_t looks, std::size_t drops, F&& look) {
    for (looks = std::min(looks, size_); looks > 0 && size_ > 0;) {
      if (hand_ >= size_) hand_ = 0;
      look(entry(hand_));
      if (!entry(hand_).is_over(now)) {
        ++hand_;
        --looks;
        continue;
      }
      if (drops-- == 0) return true;
      erase(hand_);  // the last entry is at hand_ now
    }
    return false;
  }
  bool tidy(policies::instant now, std::size_t looks, std::size_t drops) {
    return tidy(now, looks, drops, [](const Entry&) {});
  }

 private:
  static constexpr std::size_t per_chunk = std::bit_floor(4096 / sizeof(Entry));

  Entry& entry(std::size_t place) noexcept { return chunks_[place / per_chunk][place % per_chunk]; }

  void erase(std::size_t place) {
    const std::size_t last = size_ - 1;
    index_.erase(entry(place).hash(), static_cast<std::uint32_t>(place));
    if (place != last) {
      entry(place) = std::move(entry(last));
      index_.move(entry(place).hash(), static_cast<std::uint32_t>(last),
                  static_cast<std::uint32_t>(place));
    }
    entry(last) = Entry();
    size_ = last;
    // Keeps one spare chunk, so that adding and erasing one entry does not allocate each time.
    if (chunks_.size() >= 2 && size_ <= (chunks_.size() - 2) * per_chunk) {
      chunks_.pop_back();
      if (chunks_.size() < chunks_.capacity() / 4) chunks_.shrink_to_fit();  // a pointer per chunk
    }
  }

  hash_index index_;
  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::size_t size_ = 0;
  std::size_t hand_ = 0;
};

}  // namespace weir::memory

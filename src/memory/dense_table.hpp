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

/// Entries that lie side by side without holes, found by their hash, and dropped when they are
/// over. Memory is that of what is in it: an entry that goes is replaced by the last one.
///
/// A hand goes round over the entries, a few with each call of tidy(): so what is over goes at a
/// constant cost per call, and without a pause.
///
/// `Entry` has hash() and is_over(now). An entry stays where it is until something is erased.
template <class Entry>
class dense_table {
 public:
  /// For about so many at the most.
  explicit dense_table(std::size_t most) : index_(most) {}

  std::size_t size() const noexcept { return size_; }

  /// The entry of that hash for which `is_it` holds, or null.
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

  /// The one of that hash for which `is_it` holds.
  template <class F>
  void erase(std::uint32_t hash, F&& is_it) {
    const std::uint32_t place = index_.find(
        hash, [&](std::uint32_t at) { return is_it(std::as_const(entry(at))); });
    if (place != hash_index::none) erase(place);
  }

  /// Looks at `looks` entries that are not over, and drops those that it meets before, but `drops`
  /// at the most. True if it had to stop for that: there may be many more of them.
  bool tidy(policies::instant now, std::size_t looks, std::size_t drops) {
    for (looks = std::min(looks, size_); looks > 0 && size_ > 0;) {
      if (hand_ >= size_) hand_ = 0;
      if (!entry(hand_).is_over(now)) {
        ++hand_;
        --looks;
        continue;
      }
      if (drops-- == 0) return true;
      erase(hand_);  // the last one is there now
    }
    return false;
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
    // One stays in reserve: an entry that comes and goes must not allocate each time.
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

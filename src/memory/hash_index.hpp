#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace weir::memory {

/// Maps hashes to places by open addressing. A slot of 8 bytes holds the whole hash, so growing
/// reads no entry. Each segment grows and shrinks on its own: no call moves more than one segment.
class hash_index {
 public:
  static constexpr std::uint32_t none = 0xffff'ffff;

  /// `most`: about the largest number of places.
  explicit hash_index(std::size_t most)
      : segments_(std::bit_ceil(std::clamp<std::size_t>(most / segment_size, 1, 4096))),
        shift_(32 - static_cast<unsigned>(std::countr_zero(segments_.size()))) {}

  /// The place with this hash for which `is_it` is true, or `none`.
  template <class F>
  std::uint32_t find(std::uint32_t hash, F&& is_it) const {
    const segment& s = segment_of(hash);
    if (s.slots == nullptr) return none;
    const slot* const slots = s.slots.get();
    const std::uint32_t mask = s.mask;
    for (std::uint32_t i = hash & mask;; i = (i + 1) & mask) {
      const slot at = slots[i];
      if (at.hash == hash && at.place != none && is_it(at.place)) return at.place;
      if (at.place == none) return none;
    }
  }

  /// Begins to load what find() will look at first.
  void prefetch(std::uint32_t hash) const noexcept {
    const segment& s = segment_of(hash);
    if (s.slots != nullptr) __builtin_prefetch(&s.slots[hash & s.mask]);
  }

  void insert(std::uint32_t hash, std::uint32_t place) {
    segment& s = segment_of(hash);
    if (s.slots == nullptr) {
      grow(s, smallest);
    } else if (s.used + 1 > (s.mask + 1) / 4 * 3) {
      grow(s, 2 * (s.mask + 1));
    }
    put(s, {hash, place});
    ++s.used;
  }

  /// Notes that the entry with this hash has moved.
  void move(std::uint32_t hash, std::uint32_t from, std::uint32_t to) noexcept {
    segment& s = segment_of(hash);
    s.slots[slot_of(s, hash, from)].place = to;
  }

  void erase(std::uint32_t hash, std::uint32_t place) noexcept {
    segment& s = segment_of(hash);
    std::uint32_t hole = slot_of(s, hash, place);
    // Later slots move into the hole, unless that puts one before the first slot of its hash.
    for (std::uint32_t i = (hole + 1) & s.mask; s.slots[i].place != none; i = (i + 1) & s.mask) {
      const std::uint32_t way = (i - s.slots[i].hash) & s.mask;
      if (way < ((i - hole) & s.mask)) continue;
      s.slots[hole] = s.slots[i];
      hole = i;
    }
    s.slots[hole].place = none;
    --s.used;
    if (s.mask + 1 > smallest && s.used < (s.mask + 1) / 8) shrink(s);
  }

 private:
  static constexpr std::size_t segment_size = 8192;
  static constexpr std::uint32_t smallest = 16;

  struct slot {
    std::uint32_t hash = 0;
    std::uint32_t place = none;
  };
  struct segment {
    std::unique_ptr<slot[]> slots;
    std::uint32_t mask = 0;
    std::uint32_t used = 0;
  };

  // The highest bits choose the segment, the lowest ones the slot.
  std::size_t segment_at(std::uint32_t hash) const noexcept {
    return static_cast<std::size_t>(std::uint64_t{hash} >> shift_);
  }
  const segment& segment_of(std::uint32_t hash) const noexcept {
    return segments_[segment_at(hash)];
  }
  segment& segment_of(std::uint32_t hash) noexcept { return segments_[segment_at(hash)]; }

  static std::uint32_t slot_of(const segment& s, std::uint32_t hash, std::uint32_t place) noexcept {
    std::uint32_t i = hash & s.mask;
    while (s.slots[i].place != place) i = (i + 1) & s.mask;
    return i;
  }
  static void put(segment& s, slot what) noexcept {
    std::uint32_t i = what.hash & s.mask;
    while (s.slots[i].place != none) i = (i + 1) & s.mask;
    s.slots[i] = what;
  }
  static void grow(segment& s, std::uint32_t slots) {
    refill(s, {std::make_unique<slot[]>(slots), slots - 1, s.used});
  }
  static void shrink(segment& s) noexcept {
    const std::uint32_t slots = (s.mask + 1) / 4;
    // If the allocation fails, the larger segment stays in use.
    segment next{std::unique_ptr<slot[]>(new (std::nothrow) slot[slots]), slots - 1, s.used};
    if (next.slots != nullptr) refill(s, std::move(next));
  }
  static void refill(segment& s, segment next) noexcept {
    for (std::uint32_t i = 0; s.slots != nullptr && i <= s.mask; ++i) {
      if (s.slots[i].place != none) put(next, s.slots[i]);
    }
    s = std::move(next);
  }

  std::vector<segment> segments_;
  unsigned shift_;
};

}  // namespace weir::memory

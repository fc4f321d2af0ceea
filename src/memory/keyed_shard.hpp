#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "memory/subject.hpp"

namespace weir::memory {

/// A key and its state. With a state of one word, that is one cache line.
template <class State>
struct alignas(64) keyed_entry {
  short_key<48> key;  // empty: this slot is free, and its state is State{}
  State state{};
};

/// Some hundred keys and their states, by open addressing with linear probing. The entries stand in
/// the slots themselves, so that finding one touches one or two neighbouring cache lines.
///
/// A hand goes round over the slots, a few with each sweep(). Pointers to entries are valid until
/// the next call of another function than find().
template <class State>
class keyed_shard {
 public:
  using entry = keyed_entry<State>;

  std::size_t size() const noexcept { return used_; }

  /// Begins to load what find() will look at first.
  void prefetch(std::uint32_t hash) const noexcept {
    if (slots_ != nullptr) __builtin_prefetch(&slots_[hash & mask_], 1);
  }

  entry* find(std::string_view key, std::uint32_t hash) noexcept {
    if (slots_ == nullptr) return nullptr;
    for (std::uint32_t i = hash & mask_;; i = (i + 1) & mask_) {
      entry& e = slots_[i];
      if (e.key.hash() == hash && e.key.view() == key) return &e;
      if (is_free(e)) return nullptr;
    }
  }

  /// The key must be new, and not empty.
  entry& add(short_key<48>&& key) {
    if (slots_ == nullptr) {
      refill(make_slots(smallest), smallest);
    } else if (used_ + 1 > slots() / 4 * 3) {
      refill(make_slots(2 * slots()), 2 * slots());
    }
    ++used_;
    return put(std::move(key));
  }

  void erase(const entry& e) noexcept { erase(static_cast<std::uint32_t>(&e - slots_.get())); }

  /// The entry with the least order_of() among the next entries from the hash's slot on, at most
  /// `looks`. There must be an entry.
  template <class F>
  entry& first_of(std::uint32_t hash, std::size_t looks, F&& order_of) noexcept {
    entry* first = nullptr;
    decltype(order_of(std::declval<const entry&>())) order{};
    for (std::uint32_t seen = 0, i = hash & mask_; seen <= mask_ && looks > 0; ++seen) {
      entry& e = slots_[i];
      i = (i + 1) & mask_;
      if (is_free(e)) continue;
      --looks;
      if (const auto its_own = order_of(std::as_const(e)); first == nullptr || its_own < order) {
        first = &e;
        order = its_own;
      }
    }
    return *first;
  }

  /// Moves the hand over at most `looks` slots, which it takes from `looks`, and erases the entries
  /// for which is_over() is true. True if the hand came to the end of the slots.
  template <class F>
  bool sweep(std::size_t& looks, F&& is_over) noexcept {
    while (hand_ < slots()) {
      if (looks == 0) return false;
      --looks;
      const entry& e = slots_[hand_];
      if (!is_free(e) && is_over(e)) {
        erase(hand_);  // a later entry may have moved here
      } else {
        ++hand_;
      }
    }
    hand_ = 0;
    shrink_if_sparse();
    return true;
  }

  /// Counts the calls between two sweeps. True if one is due.
  bool is_sweep_due(std::int32_t weight, std::int32_t weight_per_sweep) noexcept {
    weight_ += weight;
    if (weight_ < weight_per_sweep) return false;
    weight_ = 0;
    return true;
  }

 private:
  static constexpr std::uint32_t smallest = 4;

  static bool is_free(const entry& e) noexcept { return e.key.size() == 0; }
  std::uint32_t slots() const noexcept { return slots_ == nullptr ? 0 : mask_ + 1; }
  static std::unique_ptr<entry[]> make_slots(std::uint32_t slots) {
    return std::make_unique<entry[]>(slots);
  }

  entry& put(short_key<48>&& key) noexcept {
    std::uint32_t i = key.hash() & mask_;
    while (!is_free(slots_[i])) i = (i + 1) & mask_;
    slots_[i].key = std::move(key);
    return slots_[i];
  }

  void erase(std::uint32_t hole) noexcept {
    // Later entries move into the hole, unless that puts one before the first slot of its hash.
    for (std::uint32_t i = (hole + 1) & mask_; !is_free(slots_[i]); i = (i + 1) & mask_) {
      const std::uint32_t way = (i - slots_[i].key.hash()) & mask_;
      if (way < ((i - hole) & mask_)) continue;
      slots_[hole] = std::move(slots_[i]);
      hole = i;
    }
    slots_[hole] = entry{};
    --used_;
  }

  void shrink_if_sparse() noexcept {
    if (used_ == 0) {
      slots_.reset();
    } else if (slots() > smallest && used_ < slots() / 8) {
      const std::uint32_t fewer = slots() / 4;
      // If the allocation fails, the larger array stays in use.
      std::unique_ptr<entry[]> next(new (std::nothrow) entry[fewer]);
      if (next != nullptr) refill(std::move(next), fewer);
    }
  }

  void refill(std::unique_ptr<entry[]> next, std::uint32_t count) noexcept {
    const std::uint32_t before = slots();
    slots_.swap(next);
    mask_ = count - 1;
    hand_ = 0;
    for (std::uint32_t i = 0; i < before; ++i) {
      if (!is_free(next[i])) put(std::move(next[i].key)).state = std::move(next[i].state);
    }
  }

  std::unique_ptr<entry[]> slots_;
  std::uint32_t mask_ = 0;
  std::uint32_t used_ = 0;
  std::uint32_t hand_ = 0;
  std::int32_t weight_ = 0;
};

}  // namespace weir::memory

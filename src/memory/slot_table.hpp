#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace weir::memory {

/// Some hundred entries by open addressing with linear probing. They stand in the slots themselves,
/// so that finding one touches one or two neighbouring cache lines.
///
/// A hand goes round over the slots, a few with each sweep(). Pointers to entries are valid until
/// the next call of any function except find().
///
/// `Entry` has hash() and is_free(), and an Entry{} is free.
template <class Entry>
class slot_table {
 public:
  std::size_t size() const noexcept { return used_; }

  /// Begins to load what find() will look at first.
  void prefetch(std::uint32_t hash) const noexcept {
    if (slots_ != nullptr) __builtin_prefetch(&slots_[hash & mask_], 1);
  }

  /// The entry with this hash for which is_it() is true, or null.
  template <class F>
  Entry* find(std::uint32_t hash, F&& is_it) noexcept {
    if (slots_ == nullptr) return nullptr;
    for (std::uint32_t i = hash & mask_;; i = (i + 1) & mask_) {
      Entry& e = slots_[i];
      if (e.hash() == hash && !e.is_free() && is_it(std::as_const(e))) return &e;
      if (e.is_free()) return nullptr;
    }
  }

  /// The entry must be new, and not free.
  Entry& add(Entry&& fresh) {
    if (slots_ == nullptr) {
      refill(make_slots(smallest), smallest);
    } else if (used_ + 1 > slots() / 4 * 3) {
      refill(make_slots(2 * slots()), 2 * slots());
    }
    ++used_;
    return put(std::move(fresh));
  }

  void erase(const Entry& e) noexcept { erase(static_cast<std::uint32_t>(&e - slots_.get())); }

  /// The entry with the least order_of() among the next entries from the hash's slot on, at most
  /// `looks`. There must be an entry.
  template <class F>
  Entry& first_of(std::uint32_t hash, std::size_t looks, F&& order_of) noexcept {
    Entry* first = nullptr;
    decltype(order_of(std::declval<const Entry&>())) order{};
    for (std::uint32_t seen = 0, i = hash & mask_; seen <= mask_ && looks > 0; ++seen) {
      Entry& e = slots_[i];
      i = (i + 1) & mask_;
      if (e.is_free()) continue;
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
      Entry& e = slots_[hand_];
      if (!e.is_free() && is_over(e)) {
        erase(hand_);  // a later entry may have moved here
      } else {
        ++hand_;
      }
    }
    hand_ = 0;
    shrink_if_sparse();
    return true;
  }

 private:
  static constexpr std::uint32_t smallest = 4;

  std::uint32_t slots() const noexcept { return slots_ == nullptr ? 0 : mask_ + 1; }
  static std::unique_ptr<Entry[]> make_slots(std::uint32_t slots) {
    return std::make_unique<Entry[]>(slots);
  }

  Entry& put(Entry&& fresh) noexcept {
    std::uint32_t i = fresh.hash() & mask_;
    while (!slots_[i].is_free()) i = (i + 1) & mask_;
    return slots_[i] = std::move(fresh);
  }

  void erase(std::uint32_t hole) noexcept {
    // Later entries move into the hole, unless that puts one before the first slot of its hash.
    for (std::uint32_t i = (hole + 1) & mask_; !slots_[i].is_free(); i = (i + 1) & mask_) {
      const std::uint32_t way = (i - slots_[i].hash()) & mask_;
      if (way < ((i - hole) & mask_)) continue;
      slots_[hole] = std::move(slots_[i]);
      hole = i;
    }
    slots_[hole] = Entry{};
    --used_;
  }

  void shrink_if_sparse() noexcept {
    if (used_ == 0) {
      slots_.reset();
    } else if (slots() > smallest && used_ < slots() / 4) {
      const std::uint32_t fewer = slots() / 2;
      // If the allocation fails, the larger array stays in use.
      std::unique_ptr<Entry[]> next(new (std::nothrow) Entry[fewer]);
      if (next != nullptr) refill(std::move(next), fewer);
    }
  }

  void refill(std::unique_ptr<Entry[]> next, std::uint32_t count) noexcept {
    const std::uint32_t before = slots();
    slots_.swap(next);
    mask_ = count - 1;
    hand_ = 0;
    for (std::uint32_t i = 0; i < before; ++i) {
      if (!next[i].is_free()) put(std::move(next[i]));
    }
  }

  std::unique_ptr<Entry[]> slots_;
  std::uint32_t mask_ = 0;
  std::uint32_t used_ = 0;
  std::uint32_t hand_ = 0;
};

}  // namespace weir::memory

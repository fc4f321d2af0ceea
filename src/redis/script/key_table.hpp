#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "check/flight.hpp"

namespace weir::redis {

struct script_call;

/// Finds the call that a key was put into last, in the write at hand. Two limiters of one resource
/// may share keys, whatever their policies.
///
/// Open addressing. Forgetting all keys costs nothing: a slot counts only if it was filled for the
/// write at hand. Colliding names, chosen on purpose, do little harm: one write has few keys.
class key_table {
 public:
  struct call_slot {
    script_call* call = nullptr;
    std::size_t key = 0;
    friend bool operator==(const call_slot&, const call_slot&) = default;
  };

  struct id {
    std::uint64_t resource = 0;  // limiter_spec::resource_id
    std::string_view subject;    // valid until clear()
    std::uint64_t hash = 0;      // of the subject
  };

  /// Writes are numbered from `first` on.
  explicit key_table(std::uint32_t first = 1) : write_(first) {}

  void clear() noexcept {
    count_ = 0;
    if (++write_ != 0) return;
    slots_.assign(slots_.size(), slot{});  // the number has come around
    write_ = 1;
  }

  /// Null if the key has no call yet.
  const call_slot* find(const id& key) const noexcept {
    const slot& found = slots_[slot_of(key)];
    return found.write == write_ ? &keys_[found.index].where : nullptr;
  }

  /// The place of the key; that of a new key has no call. Valid until the next key is added.
  call_slot& at(const id& key) {
    std::size_t i = slot_of(key);
    if (slots_[i].write == write_) return keys_[slots_[i].index].where;
    if (2 * count_ > mask_) {
      grow();
      i = slot_of(key);
    }
    slots_[i] = {write_, count_};
    entry& added = keys_[count_++];
    added = {key, {}};
    return added.where;
  }

 private:
  struct slot {
    std::uint32_t write = 0;
    std::uint32_t index = 0;  // in keys_
  };
  struct entry {
    id key;
    call_slot where;
  };

  static std::uint64_t mixed(const id& key) noexcept {
    const std::uint64_t h = (key.resource ^ key.hash) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
  }

  /// The slot of the key, or the free one where it belongs.
  std::size_t slot_of(const id& key) const noexcept {
    for (std::size_t i = mixed(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].write != write_) return i;
      const id& other = keys_[slots_[i].index].key;
      if (other.hash == key.hash && other.resource == key.resource &&
          detail::is_same_subject(other.subject, key.subject)) {
        return i;
      }
    }
  }

  [[gnu::noinline]] void grow() {
    const std::size_t size = 2 * slots_.size();
    keys_.resize(size / 2);
    slots_.assign(size, slot{});
    mask_ = size - 1;
    for (std::uint32_t i = 0; i < count_; ++i) slots_[slot_of(keys_[i].key)] = {write_, i};
  }

  // The size of slots_ is a power of two and twice that of keys_, so that half of them are free.
  std::vector<slot> slots_ = std::vector<slot>(32);
  std::vector<entry> keys_ = std::vector<entry>(16);  // count_ of them are in use
  std::size_t mask_ = 31;                             // the size of slots_ less one
  std::uint32_t count_ = 0;
  std::uint32_t write_;  // the number of the write at hand, never 0
};

}  // namespace weir::redis

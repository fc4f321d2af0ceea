#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "base/light_mutex.hpp"
#include "memory/keyed_entry.hpp"
#include "memory/slot_table.hpp"
#include "policy/arithmetic.hpp"

namespace weir::detail {

/// A bounded map from keys to states, for many threads: many small shards, each with its own lock.
/// A shard's lock and its counts take one cache line, and an entry nearly always one or two more.
///
/// Calls drop states that are over, some slots at a time. A new key beyond `max_keys` displaces the
/// neighbour with the fewest units in use, so that a flood of new keys does not free a key that has
/// used up its limit. States that were written while the clock was far ahead go first: otherwise
/// new keys would displace each other until the clock gets there again.
///
/// `Rules` has `state_type`, matters_until(state), is_far_ahead(state, now) and in_use(state, now).
template <class Rules>
class keyed_table {
 public:
  using state_type = typename Rules::state_type;

  keyed_table(Rules&& rules, std::size_t max_keys)
      : rules_(std::move(rules)),
        max_(max_keys),
        shard_count_(count_of_shards(max_keys)),
        shards_(std::make_unique<shard[]>(shard_count_)) {}

  const Rules& rules() const noexcept { return rules_; }
  /// A call that fails to take room exceeds the bound for a moment.
  std::size_t size() const noexcept {
    return std::min(size_.load(std::memory_order_relaxed), max_);
  }
  std::uint64_t evicted() const noexcept { return evicted_.load(std::memory_order_relaxed); }

  /// Returns f(state, now); the state of a new key is empty. `clock` is called under the lock.
  template <class Clock, class F>
  auto change(std::string_view key, const Clock& clock, F&& f) {
    const std::uint64_t hash = hash_(key);
    shard& home = shard_of(hash);
    std::unique_lock lock(home.mutex);
    home.prefetch(slot_hash(hash));
    policies::instant now = clock();  // while the entry is being loaded
    entry* found = home.found(key, slot_hash(hash));
    std::int32_t weight = 1;
    if (found == nullptr) {
      found = &add(key, hash, home, lock, clock, now);
      weight = weight_of_new;
    }
    auto result = f(found->state, now);
    home.weight += weight;
    const bool is_due = home.weight >= weight_per_sweep;
    if (is_due) home.weight = 0;
    lock.unlock();
    if (is_due) sweep(now);
    return result;
  }

  /// Returns f(state, now), where `state` is a pointer: null if there is no such key.
  template <class Clock, class F>
  auto look(std::string_view key, const Clock& clock, F&& f) {
    const std::uint64_t hash = hash_(key);
    shard& home = shard_of(hash);
    const std::lock_guard lock(home.mutex);
    home.prefetch(slot_hash(hash));
    const policies::instant now = clock();
    entry* found = home.found(key, slot_hash(hash));
    return f(found == nullptr ? nullptr : &found->state, now);
  }

  void erase(std::string_view key) noexcept {
    const std::uint64_t hash = hash_(key);
    shard& home = shard_of(hash);
    const std::lock_guard lock(home.mutex);
    if (entry* found = home.found(key, slot_hash(hash))) drop(home, *found);
  }

 private:
  using entry = memory::keyed_entry<state_type>;
  struct alignas(64) shard : memory::slot_table<entry> {
    /// The entry, or null.
    entry* found(std::string_view key, std::uint32_t hash) noexcept {
      return this->find(hash, [&](const entry& e) { return e.key.view() == key; });
    }

    light_mutex mutex;
    std::int32_t weight = 0;  // of the calls since the last sweep
  };
  static_assert(sizeof(shard) == 64);

  // 256 keys are moved quickly when a shard grows, and 16 are enough for first_of().
  static constexpr std::size_t keys_per_shard = 256, fewest_keys_per_shard = 16;
  static constexpr std::size_t enough_shards = 64, most_shards = std::size_t{1} << 20;

  // The hand sees 32 slots per 64 calls. A call that adds a key counts as 16, that is, the hand
  // sees eight slots for each new key and always catches up. Going to the next shard costs as much
  // as two slots.
  static constexpr std::int32_t weight_per_sweep = 64, weight_of_new = 16;
  static constexpr std::size_t looks_per_sweep = 32, looks_per_shard = 2;
  // While sweeps find nothing, only one in so many is made.
  static constexpr std::uint32_t turns_of_idle = 8;
  static constexpr std::size_t looks_when_full = 16;

  static std::size_t count_of_shards(std::size_t max_keys) noexcept {
    const std::size_t least = std::bit_floor(
        std::clamp<std::size_t>(max_keys / fewest_keys_per_shard, 1, enough_shards));
    return std::clamp(std::bit_ceil(max_keys / keys_per_shard), least, most_shards);
  }
  shard& shard_of(std::uint64_t hash) noexcept {
    return shards_[(hash >> 32) & (shard_count_ - 1)];
  }
  static std::uint32_t slot_hash(std::uint64_t hash) noexcept {
    return static_cast<std::uint32_t>(hash);
  }
  /// Keeps the state for a grace period, because the clock may step back.
  bool is_over(const entry& e, policies::instant now) const noexcept {
    return rules_.matters_until(e.state) + policies::grace <= now;
  }

  /// Reads the clock again if it had to leave the lock: another thread may have counted later.
  template <class Clock>
  entry& add(std::string_view key, std::uint64_t hash, shard& home,
             std::unique_lock<light_mutex>& lock, const Clock& clock, policies::instant& now) {
    entry fresh;
    fresh.key = typename entry::key_type(key, slot_hash(hash));
    while (!take_room()) {
      if (home.size() > 0) {
        displace_one(home, slot_hash(hash), now);
        continue;
      }
      lock.unlock();  // never two locks at a time: they could deadlock
      displace_elsewhere(hash, now);
      lock.lock();
      now = clock();
      // Another thread may have added the key meanwhile.
      if (entry* found = home.found(key, slot_hash(hash))) return *found;
    }
    try {
      return home.add(std::move(fresh));
    } catch (...) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
  }
  bool take_room() noexcept {
    if (size_.fetch_add(1, std::memory_order_relaxed) < max_) return true;
    size_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  void drop(shard& home, const entry& e) noexcept {
    home.erase(e);
    size_.fetch_sub(1, std::memory_order_relaxed);
  }
  void displace_one(shard& home, std::uint32_t hash, policies::instant now) noexcept {
    // First states that are over or far ahead of the clock, by their ends. Of the rest, the state
    // with the fewest units in use; among equals the one that ends last: if a flood of keys uses up
    // its limits at once, that is one of the flood.
    const entry& e = home.first_of(hash, looks_when_full, [&](const entry& one) {
      const policies::instant until = rules_.matters_until(one.state);
      if (until <= now || rules_.is_far_ahead(one.state, now)) {
        return std::tuple(false, policies::units{0}, until);
      }
      return std::tuple(true, rules_.in_use(one.state, now), -until);
    });
    // A state far ahead counts as evicted: at its next call it would have moved to now.
    if (!is_over(e, now)) evicted_.fetch_add(1, std::memory_order_relaxed);
    drop(home, e);
  }
  void displace_elsewhere(std::uint64_t hash, policies::instant now) noexcept {
    for (std::size_t i = 1; i < shard_count_; ++i) {
      shard& other = shards_[((hash >> 32) + i) & (shard_count_ - 1)];
      const std::lock_guard lock(other.mutex);
      if (other.size() > 0) return displace_one(other, slot_hash(hash), now);
    }
  }

  /// Moves the hand on, in the shard where it is and in the next ones.
  void sweep(policies::instant now) noexcept {
    const bool is_worth_it = has_found_.load(std::memory_order_relaxed);
    if (!is_worth_it && turns_.fetch_add(1, std::memory_order_relaxed) % turns_of_idle != 0) return;
    bool has_found = false;
    for (std::size_t looks = looks_per_sweep; looks > 0;) {
      looks -= std::min(looks, looks_per_shard);
      std::size_t at = swept_.load(std::memory_order_relaxed);
      shard& s = shards_[at & (shard_count_ - 1)];
      if (const std::unique_lock lock(s.mutex, std::try_to_lock); lock) {
        const std::size_t before = s.size();
        const bool is_done = s.sweep(looks, [&](const entry& e) { return is_over(e, now); });
        const std::size_t dropped = before - s.size();
        size_.fetch_sub(dropped, std::memory_order_relaxed);
        has_found = has_found || dropped > 0;
        if (!is_done) break;
      }
      // Unless another thread has moved on already.
      swept_.compare_exchange_strong(at, at + 1, std::memory_order_relaxed);
    }
    if (has_found != is_worth_it) has_found_.store(has_found, std::memory_order_relaxed);
  }

  const Rules rules_;
  const key_hash hash_;
  const std::size_t max_;
  const std::size_t shard_count_;  // a power of two
  const std::unique_ptr<shard[]> shards_;
  alignas(64) std::atomic<std::size_t> size_{0};
  std::atomic<std::size_t> swept_{0};  // the shard that the hand is in
  std::atomic<std::uint32_t> turns_{0};
  std::atomic<bool> has_found_{false};  // the last sweep found something
  std::atomic<std::uint64_t> evicted_{0};
};

}  // namespace weir::detail

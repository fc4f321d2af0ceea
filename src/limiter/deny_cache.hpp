#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/key_hash.hpp"
#include "weir/decision.hpp"

namespace weir::detail {

/// Remembers refusals, so that this process answers the same question again until it could pass.
///
/// A table of fixed size: each subject has one slot, and a newer refusal takes it over from another
/// subject. What it loses is asked of the store again. Thread-safe.
class deny_cache {
 public:
  using time = std::chrono::steady_clock::time_point;
  using duration = std::chrono::microseconds;

  /// Refusals of longer subjects are not remembered, because the table holds their names.
  static constexpr std::size_t longest_subject = 256;

  /// `longest` bounds how long a refusal is remembered.
  deny_cache(std::size_t slots, duration longest);

  /// Remembers that `cost` was refused, by a store that was asked at `asked` or later; not if units
  /// were given back since then.
  void note(std::string_view subject, std::int64_t cost, const decision& refusal, time asked);

  /// The refusal of a request of this cost, if one is remembered, with times that count from now;
  /// its `source` is deny_cache.
  std::optional<decision> find(std::string_view subject, std::int64_t cost, time now) const;

  /// Called when this process has given units of the subject back.
  void forget(std::string_view subject, time now);

 private:
  struct slot {
    std::string subject;
    std::int64_t cost = 0;
    decision refusal;
    time asked{};
    time until{};
    time forgotten = time::min();  // the last forget(), of any subject of this slot
  };
  static constexpr std::size_t lock_count = 16;

  std::size_t index_of(std::string_view subject) const noexcept {
    return static_cast<std::size_t>(hash_(subject)) & mask_;
  }
  std::mutex& lock_of(std::size_t index) const noexcept { return locks_[index % lock_count]; }

  const duration longest_;
  const std::size_t mask_;
  const memory::key_hash hash_;
  mutable std::array<std::mutex, lock_count> locks_;  // each guards the slots of its remainder
  std::vector<slot> slots_;
};

}  // namespace weir::detail

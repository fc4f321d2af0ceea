#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "weir/decision.hpp"

namespace weir::detail {

/// Remembers refusals, so that this process repeats them until the request could pass.
///
/// A table of fixed size: a subject has a set of eight slots, shared with other subjects. A refusal
/// takes a slot whose refusal is over; if there is none, it is not remembered, and the store is
/// asked again. Thread-safe.
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
    std::uint64_t hash = 0;
    std::int64_t cost = 0;
    time asked{};
    time until{};
    std::string subject;
    decision refusal;
  };
  static constexpr std::size_t slots_per_set = 8;
  struct set {
    std::array<slot, slots_per_set> slots;
    time forgotten = time::min();  // the last forget(), of any subject of this set
  };
  static constexpr std::size_t lock_count = 16;

  std::size_t index_of(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>(hash) & mask_;
  }
  std::mutex& lock_of(std::size_t index) const noexcept { return locks_[index % lock_count]; }

  const duration longest_;
  const std::size_t mask_;
  const key_hash hash_;
  mutable std::array<std::mutex, lock_count> locks_;  // each guards the sets of its remainder
  std::vector<set> sets_;
};

}  // namespace weir::detail

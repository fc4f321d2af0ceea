#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "weir/decision.hpp"
#include "weir/policy.hpp"

namespace weir::detail {

/// How local units of one limiter behave.
struct supply_rules {
  std::int64_t most = 0;              // held per subject at most, units under way included
  std::chrono::microseconds life{0};  // of a bucket's units; 0: until the end of their window
  // A quarter of the life of units, from 1 ms to longest_pace. A subject's units go back 1 to 2.5
  // paces after the last check, and a supply grows to what is spent in two paces.
  std::chrono::microseconds pace{0};
  static constexpr std::chrono::microseconds longest_pace = std::chrono::milliseconds{500};

  /// The rules for a policy whose limiter may hold `most` units. Throws boost::system::system_error
  /// with error::invalid_policy if the policy or `most` does not allow that.
  static supply_rules of(const tiers& policies, std::int64_t most);
};

/// The units that this process holds of one subject. It has no timer, lock or clock.
///
/// There is one take at a time, for at most half of what the store has left, and only after an
/// answer of the store has said that enough is left. So a take is hardly ever refused, and checks
/// that come meanwhile can go to the store themselves. Checks that cost more than an eighth of
/// `most` cause no take: small checks would not spend such a supply in time.
class unit_supply {
 public:
  using time = std::chrono::steady_clock::time_point;

  explicit unit_supply(const supply_rules& rules) noexcept : rules_(rules) {}

  /// The decision of a check of this cost, if there are units for it.
  std::optional<decision> spend(std::int64_t cost, time now);

  /// The number of units to take now; 0: none. Otherwise call taken() or failed() once.
  std::int64_t begin_take(time now);
  /// The store has answered a take that this process sent at `sent`.
  void taken(std::int64_t units, const decision& answer, time sent, time now);
  void failed() noexcept;
  bool is_taking() const noexcept { return is_taking_; }

  /// The store has answered a check of this subject.
  void note_reply(const decision& answer) noexcept { remaining_ = answer.remaining; }

  /// Called after a reset. Drops all units, also those of a take under way, which the store may
  /// have counted before the reset.
  void forget(time now) noexcept;

  /// True if a check came since the last call.
  bool was_used() noexcept;

  struct rest {
    std::int64_t units = 0;
    decision from = {};  // the answer of the last take
  };
  /// Takes out all units. The result is what can be given back to the store: all of them to a
  /// window, which the takes share; to a bucket at most the units of the last take, because each
  /// take has a receipt of its own.
  rest give_up(time now);

 private:
  void expire(time now) noexcept;

  const supply_rules rules_;
  std::int64_t left_ = 0;
  time until_{};
  std::int64_t size_ = 1;       // what the next take fills the supply up to
  std::int64_t short_of_ = 0;   // the largest cost that it could not pay since begin_take()
  std::int64_t remaining_ = 0;  // in the store, by its last answer
  bool is_taking_ = false;
  bool is_void_ = false;       // the take under way brings no units
  bool is_too_large_ = false;  // the last check cost too much to take units for its sake
  bool was_used_ = false;
  // The last take:
  std::optional<time> began_;
  std::int64_t units_ = 0;
  time sent_{};
  decision answer_;
};

}  // namespace weir::detail

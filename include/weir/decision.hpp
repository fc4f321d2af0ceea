#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "weir/detail/export.hpp"

namespace weir {

enum class error : std::int16_t;  // weir/error.hpp

/// Means "no limit" where a policy takes one: the policy refuses nothing, and counts.
inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// Where a decision came from.
enum class source : std::uint8_t {
  store,       ///< the store decided
  deny_cache,  ///< a refusal remembered in this process: limiter_options::deny_cache_subjects
  /// units that this process had taken from the store before: limiter_options::local_units
  local_units,
  /// the store failed, and the limiter's failure policy decided
  fallback,
};

/// The name of the enumerator, such as "store", for labels of metrics. Empty for other numbers.
[[nodiscard]] constexpr std::string_view to_string(source from) noexcept {
  switch (from) {
    case source::store:
      return "store";
    case source::deny_cache:
      return "deny_cache";
    case source::local_units:
      return "local_units";
    case source::fallback:
      return "fallback";
  }
  return {};
}

/// A point on the store's clock.
using time_point = std::chrono::sys_time<std::chrono::microseconds>;

/// What refund() and settle() need to know of a decision. Keep it with the decision, and do not
/// change it.
struct receipt {
  /// A decision of more limiters than this cannot be settled.
  static constexpr std::size_t most_limiters = 4;

  /// The number of this decision; 0 if it took nothing.
  std::uint64_t id = 0;
  /// A hash of its limiters, their policies and subjects, in order. A gate is not among them.
  std::uint64_t origin = 0;
  /// The units that its limiter took, or the first of them.
  std::int64_t cost = 0;
  /// The time at which its tiers counted it, leaky buckets excepted. 0: after `delay`.
  std::int64_t counted_at = 0;
  /// What the decision left in a bucket: the TAT in microseconds and parts of a microsecond, and
  /// the sum of what had been given back until then.
  struct bucket {
    std::int64_t whole = 0;  ///< 0: there is no such bucket
    std::int64_t part = 0;
    std::int64_t returned = 0;
  };
  /// The first two buckets among the tiers of all its limiters.
  std::array<bucket, 2> buckets{};
  /// All receipts are equal, so that decisions compare by their answers alone.
  friend constexpr bool operator==(const receipt&, const receipt&) noexcept { return true; }
};

/// The answer to one check. All durations count from `decided_at`. None is negative, and each is
/// rounded up to a whole microsecond, so that a caller that waits that long is never early.
///
/// If on_failure::open or closed made the decision, `used`, `remaining` and `reset_after` mean
/// nothing.
struct decision {
  bool allowed = false;
  /// The call was refused because of a cool-down: see limiter::cool_down().
  bool cooling_down = false;
  /// Set by limiter::cool_down() and on_response(): the cool-down asked for was longer than
  /// max_cool_down and was cut to that.
  bool clamped = false;
  weir::source source = weir::source::store;
  /// The position of the tier or limiter that refused, if several were asked; otherwise -1. With
  /// `cooling_down`, no policy refused: the last position of the limiter that cools down.
  std::int16_t tier = -1;
  /// With source::fallback: the error that on_failure::raise would have given; otherwise error{}
  /// (zero). name_of(failure) is a label for metrics.
  error failure{};
  /// The policy's limit, capacity or burst; weir::unlimited if there is none.
  std::int64_t limit = 0;
  /// Units in use after this decision, rounded up where the policy has fractions.
  std::int64_t used = 0;
  /// Units that would still pass at `decided_at`.
  std::int64_t remaining = 0;
  /// Zero if allowed; otherwise the time until the same call would pass if no other comes.
  std::chrono::microseconds retry_after{0};
  /// The time until no units are in use, if no more calls come. With several tiers, the longest of
  /// all; `limit`, `used` and `remaining` are those of one tier.
  std::chrono::microseconds reset_after{0};
  /// acquire(): the time from `decided_at` until the reservation; acquire() has slept it already.
  /// record() and fetch(): with a leaky_bucket, the time until this request may go; otherwise zero.
  std::chrono::microseconds delay{0};
  /// The store's clock at the decision. With source::deny_cache and source::local_units: the time
  /// of the store's answer that was remembered, plus the time since then by this process's steady
  /// clock. With source::fallback: this process's clock.
  time_point decided_at{};
  /// For refund() and settle(), and for settle_all() with the rest of a joint_decision.
  weir::receipt receipt{};

  constexpr explicit operator bool() const noexcept { return allowed; }
  friend bool operator==(const decision&, const decision&) = default;
};

/// What settle_all() and refund_all() need beside the receipt. Keep it with the decision, too.
struct further_receipt {
  /// The units that each limiter behind the first took.
  std::array<std::int64_t, receipt::most_limiters - 1> costs{};
  /// The third and fourth bucket among the tiers of all limiters.
  std::array<receipt::bucket, 2> buckets{};
};

/// The answer to a check of several limiters. A copy that is a plain `decision` cannot be settled,
/// unless there was only one claim.
struct joint_decision : decision {
  further_receipt further{};

  constexpr joint_decision() noexcept = default;
  constexpr joint_decision(const decision& d, const further_receipt& more = {}) noexcept
      : decision(d), further(more) {}
};

/// For logs, in words and pairs of name and value, such as "refused (the limit is used up) limit=20
/// used=20 remaining=0 retry_after=50ms reset_after=200ms".
///
/// The words say why: the limit is used up; the cost exceeds what remains; more than the limit is
/// in use (reservations of acquire(), a charge of settle(), or count_refused); "tier 1", as `tier`
/// counts; a cool-down; the store failed. Left out are the store as the source, a tier of -1, and a
/// delay or retry_after of zero. Later versions may add pairs.
[[nodiscard]] WEIR_EXPORT std::string to_string(const decision& d);

// g++ 12 destroys some temporaries twice inside a co_await expression; a trivial destructor makes
// that harmless.
static_assert(std::is_trivially_destructible_v<joint_decision>);
static_assert(sizeof(decision) <= 144);

}  // namespace weir

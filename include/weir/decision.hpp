#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weir {

/// Stands for "no limit" wherever a policy takes one: nothing is refused, and the policy counts.
inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// Where a decision came from.
enum class source : std::uint8_t {
  store,       ///< the store counted it
  deny_cache,  ///< reserved, not used yet: a refusal remembered in this process
  lease,       ///< reserved, not used yet: units leased from the store beforehand
  fallback,    ///< the store could not say; the limiter's failure policy did
};

/// A point on the store's clock.
using time_point = std::chrono::sys_time<std::chrono::microseconds>;

/// What refund(), settle() and settle_all() have to know of a decision. To be kept with it, and not
/// to be changed.
struct receipt {
  /// A decision of more limiters than this cannot be settled.
  static constexpr std::size_t most_limiters = 4;

  std::uint64_t id = 0;      ///< of the decision alone; 0 if it took nothing
  std::uint64_t origin = 0;  ///< of its limiters, their policies and subjects, in order
  std::array<std::int64_t, most_limiters> costs{};  ///< what each of its limiters took
  std::int64_t counted_at = 0;  ///< of several tiers: when all but leaky buckets counted it
  /// What it left behind in a bucket: the TAT in microseconds and parts of one, and the sum of what
  /// had been given back.
  struct bucket {
    std::int64_t whole = 0;  ///< 0: there is no such bucket
    std::int64_t part = 0;
    std::int64_t returned = 0;
  };
  /// The first buckets among the tiers. A further one gives nothing back.
  std::array<bucket, 4> buckets{};
  /// No part of what a decision says.
  friend constexpr bool operator==(const receipt&, const receipt&) noexcept { return true; }
};

/// The answer to one check. All durations count from `decided_at`; none is ever negative, and each
/// is rounded up to a whole microsecond, so that one who waits that long is never early.
struct decision {
  bool allowed = false;
  bool cooling_down = false;  ///< refused because of a cool-down: see limiter::cool_down()
  /// limiter::cool_down(): the pause was longer than max_cool_down, and was cut to that.
  bool clamped = false;
  weir::source source = weir::source::store;
  /// Of several limits asked together, the place of the one that refused; else -1.
  std::int16_t tier = -1;
  /// The policy's limit, capacity or burst; weir::unlimited if there is none.
  std::int64_t limit = 0;
  /// Units in use after this decision, rounded up where the policy has fractions.
  std::int64_t used = 0;
  std::int64_t remaining = 0;  ///< units that would still pass at `decided_at`
  /// Zero if allowed; else when the same call would pass.
  std::chrono::microseconds retry_after{0};
  std::chrono::microseconds reset_after{0};  ///< until nothing is in use, if no more calls come
  /// Of acquire(): how long it was from `decided_at` until the turn. Of record() and fetch(): with
  /// a leaky_bucket, how long this request waits for its turn; else zero.
  std::chrono::microseconds delay{0};
  time_point decided_at{};  ///< the clock's time of the decision
  weir::receipt receipt{};  ///< for refund(), settle() and settle_all()

  explicit operator bool() const noexcept { return allowed; }
  friend bool operator==(const decision&, const decision&) = default;
};

// g++ 12 destroys some temporaries twice inside a co_await expression; a trivial destructor makes
// that harmless.
static_assert(std::is_trivially_destructible_v<decision>);

}  // namespace weir

#pragma once

#include <boost/system/result.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/duration.hpp"
#include "weir/rate.hpp"

namespace weir {

/// The largest limit, capacity, burst, count or cost: 2^52 - 1. The sum of two such numbers stays
/// exact in a Lua number.
inline constexpr std::int64_t max_units = (std::int64_t{1} << 52) - 1;

/// Where the windows of a fixed_window begin.
enum class anchor : std::uint8_t {
  first_request,  ///< with the first counted request
  epoch,          ///< at multiples of the window since 1970-01-01T00:00Z, shifted by `offset`
};

/// Counts units per window: allowed if count + cost <= limit. Cheap and easily explained. Around
/// the border of two windows, up to twice the limit can pass.
struct fixed_window {
  std::int64_t limit = 0;  ///< 1 to max_units, or unlimited
  duration window = {};    ///< above 0, at most 2^50 us (35 years)
  weir::anchor anchor = weir::anchor::first_request;
  duration offset = {};        ///< anchor::epoch only: 0 <= offset < window
  bool count_refused = false;  ///< refused requests take units, too

  friend bool operator==(const fixed_window&, const fixed_window&) = default;
};

/// Keeps every allowed request; one made at t counts while now - t < window. Exact in every window
/// of the store's clock; docs/policies.md says what to do for calls that go out late. Its memory
/// grows with the limit, unless `resolution` bounds it: requests are then kept in steps of that
/// width and count from the end of their step, so it never allows more than the exact log.
struct sliding_log {
  /// 1 to max_units, or unlimited (then set a resolution, because the log grows with the traffic).
  std::int64_t limit = 0;
  duration window = {};      ///< above 0, at most 2^50 us
  duration resolution = {};  ///< 0 for exact; else at most the window
  /// As in fixed_window; the limit is then at most 2^50.
  bool count_refused = false;

  friend bool operator==(const sliding_log&, const sliding_log&) = default;
};

/// Keeps two counters aligned to the epoch, and weights the previous one by the part of its window
/// that the sliding window still covers. Constant memory. It assumes that the requests of the
/// previous window were spread evenly; at worst, a stretch of one window holds 2 * limit - 1.
struct sliding_window {
  /// 1 to a bound that falls as the window grows (3.4 * 10^9 for a day, 3.5 * 10^6 for 30 days), or
  /// unlimited: then that bound is the largest cost and the largest count.
  std::int64_t limit = 0;
  duration window = {};        ///< above 0, at most 2^48 us (8.9 years)
  bool count_refused = false;  ///< as in fixed_window

  friend bool operator==(const sliding_window&, const sliding_window&) = default;
};

/// Starts full, refills continuously, and takes the cost if that many units are there: bursts up to
/// `capacity`, and `refill` in the long run.
struct token_bucket {
  std::int64_t capacity = 0;  ///< 1 to max_units
  rate refill;

  friend bool operator==(const token_bucket&, const token_bucket&) = default;
};

/// The generic cell rate algorithm (ITU-T I.371), in its virtual scheduling form. Answers as
/// `CL.THROTTLE key m n p` of redis-cell does for rate = n per p and burst = m + 1.
struct gcra {
  weir::rate rate;
  std::int64_t burst = 1;  ///< 1 to max_units

  friend bool operator==(const gcra&, const gcra&) = default;
};

/// A bucket that drains at `leak`: allowed if level + cost <= capacity. `decision.delay` is how
/// long the request has to wait so that requests leave evenly spaced. If callers ignore the delay,
/// the bucket only bounds how many requests pass.
struct leaky_bucket {
  std::int64_t capacity = 0;  ///< 1 to max_units
  rate leak;

  friend bool operator==(const leaky_bucket&, const leaky_bucket&) = default;
};

/// Any policy. Two are equal if all their numbers are: per_second(1) is not per_minute(60).
///
/// The constructor of a limiter throws boost::system::system_error with error::invalid_policy if
/// the policy cannot be represented exactly; the text names the bound.
using policy = std::variant<fixed_window, sliding_log, sliding_window, token_bucket, gcra,
                            leaky_bucket>;

/// Several policies for one subject. All must allow a request, and each counts its cost; if one
/// refuses it, none counts it. For requests and tokens, which differ in cost, see record_all().
///
///     weir::tiers{weir::gcra{.rate = weir::per_second(10), .burst = 10},
///                 weir::fixed_window{.limit = 5000, .window = 24h}}
///
/// If there are two or more tiers, no policy may have count_refused. The key of a tier's state
/// contains the position of the tier: append new tiers at the end.
class tiers {
 public:
  static constexpr std::size_t max_size = 8;

  template <class... Policies>
    requires(sizeof...(Policies) >= 1 && sizeof...(Policies) <= max_size &&
             (std::is_convertible_v<const Policies&, policy> && ...))
  explicit tiers(const Policies&... each)
      : policies_{policy(each)...}, size_(sizeof...(Policies)) {}

  /// For a number of policies that is known at run time. Throws boost::system::system_error with
  /// `invalid_policy` unless there are 1 to max_size.
  WEIR_EXPORT explicit tiers(std::span<const policy> each);

  const policy* begin() const noexcept { return policies_.data(); }
  const policy* end() const noexcept { return policies_.data() + size_; }
  std::size_t size() const noexcept { return size_; }
  const policy& operator[](std::size_t i) const noexcept { return policies_[i]; }

  friend bool operator==(const tiers& a, const tiers& b) { return std::ranges::equal(a, b); }

 private:
  std::array<policy, max_size> policies_;
  std::size_t size_;
};

/// Writes the text form of a policy, such as "token_bucket 20, 100/s". parse_policy() reads it back
/// to one equal tier, if a limiter takes the policy.
[[nodiscard]] WEIR_EXPORT std::string to_string(const policy& p);
/// The same for several: "gcra 10/s, burst 10; fixed_window 5000/day". parse_policy() reads it back
/// to equal tiers, if a limiter takes them.
[[nodiscard]] WEIR_EXPORT std::string to_string(const tiers& all);

/// Reads one policy, or several with semicolons between them:
///
///     fixed_window 5000/day, epoch, offset 8h, count_refused
///     sliding_log 100/min, resolution 1s, count_refused
///     sliding_window 100/min, count_refused
///     token_bucket 20, 100/s
///     leaky_bucket 20, 100/s
///     gcra 10/s, burst 5
///     10/s, 100/min, 5000/day
///
/// The options behind the rate of a window, a log or a gcra may be missing; their order is fixed.
/// rate::parse() describes rates and durations, and ignores letter case as this function does.
/// Behind the name of a window or a log, the count may be `unlimited`. Rates without a name may
/// have commas between them; each is an exact sliding_log, whose memory grows with the count.
///
/// Throws boost::system::system_error with `invalid_policy`; the text says where the parser stopped
/// and what it expected. The constructor of the limiter refuses numbers that are out of range.
[[nodiscard]] WEIR_EXPORT tiers parse_policy(std::string_view text);

/// As parse_policy(), without exceptions.
[[nodiscard]] WEIR_EXPORT boost::system::result<tiers> try_parse_policy(
    std::string_view text) noexcept;

// See decision.hpp.
static_assert(std::is_trivially_destructible_v<tiers>);

namespace detail {

template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

// What the templates of this library are made for.
template <class T>
inline constexpr bool is_policy = is_one_of<T, fixed_window, sliding_log, sliding_window,
                                            token_bucket, gcra, leaky_bucket, policy, tiers>;

}  // namespace detail

}  // namespace weir

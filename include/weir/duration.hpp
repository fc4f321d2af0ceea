#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>
#include <type_traits>
#include <utility>

namespace weir {

namespace detail {

// What becomes microseconds without a loss, and floating point.
template <class Rep, class Period>
concept duration_source = std::floating_point<Rep> ||
                          (std::integral<Rep> && std::ratio_divide<Period, std::micro>::den == 1);

template <class Rep, class Period>
constexpr std::int64_t saturated_microseconds(std::chrono::duration<Rep, Period> d) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  if constexpr (std::floating_point<Rep>) {
    const long double us = std::chrono::duration<long double, std::micro>(d).count();
    if (!(us > static_cast<long double>(least))) return least;  // also NaN
    if (us >= static_cast<long double>(most)) return most;
    const auto cut = static_cast<std::int64_t>(us);
    const long double rest = us - static_cast<long double>(cut);
    if (cut == 0 && rest != 0) return rest > 0 ? 1 : -1;
    return cut + (rest >= 0.5L) - (rest <= -0.5L);
  } else {
    constexpr std::int64_t factor = std::ratio_divide<Period, std::micro>::num;
    if (std::cmp_greater(d.count(), most / factor)) return most;
    if (std::cmp_less(d.count(), least / factor)) return least;
    return static_cast<std::int64_t>(d.count()) * factor;
  }
}

}  // namespace detail

/// A time span in the options of this library: std::chrono::microseconds that any longer unit
/// converts to without overflow. A span too long for it becomes duration::max() (292,000 years), so
/// the range of the option decides on it. 1.5s works: floating point is rounded to the nearest
/// microsecond, but never to zero, and NaN becomes duration::min(). Nanoseconds do not convert:
/// write std::chrono::ceil<std::chrono::microseconds>(d). Nor does a number without a unit.
class duration : public std::chrono::microseconds {
 public:
  constexpr duration() noexcept : std::chrono::microseconds(0) {}

  template <class Rep, class Period>
    requires detail::duration_source<Rep, Period>
  constexpr duration(const std::chrono::duration<Rep, Period>& d) noexcept
      : std::chrono::microseconds(detail::saturated_microseconds(d)) {}
};

// See decision.hpp.
static_assert(std::is_trivially_destructible_v<duration> && std::is_trivially_copyable_v<duration>);

}  // namespace weir

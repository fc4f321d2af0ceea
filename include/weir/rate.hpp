#pragma once

#include <boost/system/result.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/detail/export.hpp"
#include "weir/duration.hpp"
#include "weir/error.hpp"

namespace weir {

/// Units per period: 100 per second, 5000 per day, 10 per 5 s. Both numbers are kept as given; no
/// policy rounds a rate to whole microseconds per unit.
///
/// A rate may hold any two numbers. The constructor of a limiter refuses a rate whose count or
/// period is not positive. No number converts to a rate, so token_bucket{5, 10} does not compile.
struct rate {
  std::int64_t count = 0;
  duration period = {};

  constexpr rate() noexcept = default;
  constexpr rate(std::int64_t units, duration per) noexcept : count(units), period(per) {}

  /// Reads "100/s", "5000/day", "10 per 5s", "1 per 10ms", "60/min", "3 / 2 h". The units are us,
  /// ms, s (sec, second), m (min, minute), h (hour), d (day), w (week), the longer ones also in the
  /// plural. Letter case is ignored, but units of one letter are in lower case only. Spaces, tabs
  /// and line ends around the parts are allowed. Both numbers are whole and above 0: "3 per 2s",
  /// not "1.5/s". Throws boost::system::system_error with error::invalid_rate; the text says where
  /// the parser stopped and what it expected.
  [[nodiscard]] WEIR_EXPORT static rate parse(std::string_view text);

  /// As parse(), without exceptions.
  [[nodiscard]] WEIR_EXPORT static boost::system::result<rate> try_parse(
      std::string_view text) noexcept;

  friend constexpr bool operator==(const rate&, const rate&) = default;
};

/// Writes "100/s" or "10 per 5s"; parse() reads the text back to an equal rate.
WEIR_EXPORT std::string to_string(const rate& r);

constexpr rate per_second(std::int64_t count) noexcept { return {count, std::chrono::seconds{1}}; }
constexpr rate per_minute(std::int64_t count) noexcept { return {count, std::chrono::minutes{1}}; }
constexpr rate per_hour(std::int64_t count) noexcept { return {count, std::chrono::hours{1}}; }
constexpr rate per_day(std::int64_t count) noexcept { return {count, std::chrono::hours{24}}; }

// A fraction would be cut off: 3 per 2 s is {3, 2s}.
template <std::floating_point T>
rate per_second(T count) = delete;
template <std::floating_point T>
rate per_minute(T count) = delete;
template <std::floating_point T>
rate per_hour(T count) = delete;
template <std::floating_point T>
rate per_day(T count) = delete;

/// One unit every `interval`.
constexpr rate every(duration interval) noexcept { return {1, interval}; }

}  // namespace weir

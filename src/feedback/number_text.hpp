#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::feedback {

/// A non-negative number as vendors write it: "120", "1.5", "599.0". It keeps nine digits of the
/// fraction, and whether there were more; a number beyond `most` is read as that.
struct decimal {
  static constexpr std::int64_t most = 9'000'000'000'000'000'000;  // as ns since 1970: in 2255

  std::int64_t whole = 0;
  std::int32_t nanos = 0;
  bool more = false;
};

/// Reads and skips a number at the start of `text`. It has no sign and no exponent, and digits on
/// both sides of a point.
std::optional<decimal> take_decimal(std::string_view& text) noexcept;

/// Reads a number that is the whole text.
std::optional<decimal> read_decimal(std::string_view text) noexcept;

/// count * unit, rounded up to a whole microsecond, at most longest_feedback. `unit` is at most one
/// hour.
std::chrono::microseconds times(const decimal& count, std::chrono::microseconds unit) noexcept;

/// So many nanoseconds, rounded up to a whole microsecond.
std::chrono::microseconds nanoseconds_up(const decimal& count) noexcept;

/// Reads a duration as Go prints it ("6m0s", "1h2m3.5s", "120ms"); at most longest_feedback.
std::optional<std::chrono::microseconds> read_go_duration(std::string_view text) noexcept;

/// The text without spaces and tabs around it.
std::string_view trimmed(std::string_view text) noexcept;

}  // namespace weir::feedback

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::detail {

/// A number that is not negative, as vendors write it: "120", "1.5", "599.0". Nine digits of the
/// fraction are kept, and whether there was more; a number beyond 10^18 is 10^18.
struct decimal {
  std::int64_t whole = 0;
  std::int32_t nanos = 0;
  bool more = false;
};

/// Steps over a number at the start of `text`. No sign, no exponent, no digit missing on either
/// side of the point.
std::optional<decimal> take_decimal(std::string_view& text) noexcept;

/// The same for a number that is all of the text.
std::optional<decimal> read_decimal(std::string_view text) noexcept;

/// So many units, rounded up to a whole microsecond, at most longest_feedback. A unit is up to an
/// hour.
std::chrono::microseconds times(const decimal& count, std::chrono::microseconds unit) noexcept;

/// "6m0s", "1h2m3.5s", "120ms": a duration as Go prints it, at most longest_feedback.
std::optional<std::chrono::microseconds> read_go_duration(std::string_view text) noexcept;

/// Without the spaces and tabs around it.
std::string_view trimmed(std::string_view text) noexcept;

/// Steps over the text up to the next comma, and over that comma. Trimmed.
std::string_view take_element(std::string_view& list) noexcept;

}  // namespace weir::detail

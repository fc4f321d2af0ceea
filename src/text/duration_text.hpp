#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/rate.hpp"

namespace weir::text {

/// Reads the parts of a policy, a rate or a duration in turn, in upper or lower case. The first
/// part that does not match sets `expected()`, and `position()` stays in front of it. Allocates
/// nothing.
class text_reader {
 public:
  explicit constexpr text_reader(std::string_view text) noexcept : text_(text) {}

  /// Skips spaces, tabs and line ends.
  void skip_spaces() noexcept;

  /// Skips `token`, which is in lower case, if it is next; true if it was.
  bool accept(std::string_view token) noexcept;
  /// The same, but not if a letter, a digit or "_" follows.
  bool accept_word(std::string_view word) noexcept;

  bool next_is_digit() const noexcept;

  /// Reads a whole number above 0.
  std::optional<std::int64_t> positive_number() noexcept;

  /// Reads a unit ("us", "ms", "s", "minute", "days", ...) and returns its length.
  std::optional<std::chrono::microseconds> unit() noexcept;

  /// Reads a whole number above 0 and its unit, with or without spaces between them. With
  /// `count_optional`, "s" is "1s".
  std::optional<std::chrono::microseconds> duration(bool count_optional = false) noexcept;

  /// Reads "100/s" or "10 per 5s". With `or_unlimited`, the count may be the word "unlimited".
  std::optional<weir::rate> rate(bool or_unlimited = false) noexcept;

  /// True if only spaces are left.
  bool end() noexcept;

  /// Records a failure at the current position; returns nullopt for the caller to return.
  std::nullopt_t fail(const char* expected) noexcept;

  std::size_t position() const noexcept { return position_; }

  /// The part that was expected at position(); null if nothing failed. Never a part of the input.
  const char* expected() const noexcept { return expected_; }

 private:
  std::string_view rest() const noexcept { return text_.substr(position_); }

  std::string_view text_;
  std::size_t position_ = 0;
  const char* expected_ = nullptr;
};

/// "5s", "250ms", "2h", "90min": the largest unit that divides a period exactly. Zero is "0us".
struct scaled_duration {
  std::int64_t count;
  const char* unit;
};
scaled_duration scale(std::chrono::microseconds duration) noexcept;
std::string duration_text(std::chrono::microseconds duration);

/// The number, or "unlimited".
std::string units_text(std::int64_t units);

}  // namespace weir::text

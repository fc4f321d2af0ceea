#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::detail {

/// Reads the parts of a rate or a duration one after the other. The first part that does not fit
/// sets `expected()`, and `position()` stays where it should have been. Allocates nothing.
class text_reader {
 public:
  explicit constexpr text_reader(std::string_view text) noexcept : text_(text) {}

  void skip_spaces() noexcept;

  /// Steps over `token` if it comes next.
  bool accept(std::string_view token) noexcept;

  bool next_is_digit() const noexcept;

  /// A whole number above 0.
  std::optional<std::int64_t> positive_number() noexcept;

  /// The length of one unit: "us", "ms", "s", "minute", "days", ...
  std::optional<std::chrono::microseconds> unit() noexcept;

  /// A whole number above 0 and its unit, with or without spaces between them. With
  /// `count_optional`, "s" is "1s".
  std::optional<std::chrono::microseconds> duration(bool count_optional = false) noexcept;

  /// True if only spaces are left.
  bool end() noexcept;

  /// Records a failure at the current position; returns nullopt for the caller to return.
  std::nullopt_t fail(const char* expected) noexcept;

  std::size_t position() const noexcept { return position_; }

  /// What should have been at position(); null if nothing failed. Never a part of the text read.
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

}  // namespace weir::detail

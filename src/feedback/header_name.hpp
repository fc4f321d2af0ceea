#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weir/feedback.hpp"

namespace weir::feedback {

/// The meaning of a header's value.
enum class header_kind : std::uint8_t {
  unknown,
  date,           ///< when the response was made
  age,            ///< seconds that the response was in a cache
  retry_seconds,  ///< when to retry: seconds, or as a reset
  retry_milliseconds,
  ratelimit,         ///< the structured field RateLimit
  ratelimit_policy,  ///< the structured field RateLimit-Policy
  limit,
  remaining,
  reset,          ///< when the window ends: a time or a duration, in several formats
  reset_after,    ///< the seconds until the window ends
  used_of_limit,  ///< "39/40"
};

/// Vendors with several limits name the window or the unit: X-RateLimit-Remaining-Minute,
/// anthropic-ratelimit-tokens-remaining. From `tokens` on, the unit is tokens.
enum class window_name : std::uint8_t {
  whole,  ///< the header names no window
  second,
  minute,
  hour,
  day,
  month,
  requests,
  global,
  route,
  user_day,
  app_day,
  tokens,
  input_tokens,
  output_tokens,
  project_tokens,
};
inline constexpr std::size_t window_names = 15;

constexpr bool counts_tokens(window_name window) noexcept { return window >= window_name::tokens; }

/// True for the windows of language models: their allowance comes back all the time, and their
/// reset is when all of it is there again.
constexpr bool refills(window_name window) noexcept {
  return window == window_name::requests || counts_tokens(window);
}

struct header_meaning {
  header_kind kind = header_kind::unknown;
  feedback_source source = feedback_source::none;
  window_name window = window_name::whole;
};

/// The meaning of a header, from its name alone; case-insensitive.
header_meaning meaning_of(std::string_view name) noexcept;

}  // namespace weir::feedback

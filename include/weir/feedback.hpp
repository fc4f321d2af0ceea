#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "weir/decision.hpp"

namespace weir {

/// One header of a response. A header that came several times may stand there several times, or
/// once with the values joined by commas.
struct header_field {
  std::string_view name;  ///< in upper or lower case
  std::string_view value;
};

/// Which headers a vendor said something with. The names are those of docs/vendor_feedback.md.
enum class feedback_source : std::uint8_t {
  none,                 ///< nothing was said
  retry_after,          ///< Retry-After
  retry_after_ms,       ///< retry-after-ms, x-ms-retry-after-ms
  ratelimit_field,      ///< RateLimit, RateLimit-Policy
  ratelimit_triple,     ///< RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
  x_ratelimit,          ///< X-RateLimit-*
  x_rate_limit,         ///< X-Rate-Limit-*, X-User-Limit-24hour-*, X-App-Limit-24hour-*
  anthropic_ratelimit,  ///< anthropic-ratelimit-*
  x_hubspot_ratelimit,  ///< X-HubSpot-RateLimit-*
  x_api_call_limit,     ///< X-Shopify-Shop-Api-Call-Limit, X-Gorgias-Account-Api-Call-Limit
};

/// "Retry-After", "X-RateLimit-*": for logs. Empty for feedback_source::none.
std::string_view to_string(feedback_source source) noexcept;

/// What a plain number in a header named ...-Reset is.
enum class reset_unit : std::uint8_t {
  /// As its size tells. Up to ten years in seconds, it is seconds from now; a time in seconds or in
  /// milliseconds since 1970 that lies within ten years of now is that time; any other number is
  /// ignored.
  automatic,
  seconds,             ///< seconds from now
  milliseconds,        ///< milliseconds from now, which nobody could tell from seconds
  epoch_seconds,       ///< seconds since 1970
  epoch_milliseconds,  ///< milliseconds since 1970
};

/// What is known about a vendor beforehand. The defaults fit all vendors of docs/vendor_feedback.md
/// but one.
struct feedback_options {
  reset_unit reset = reset_unit::automatic;

  /// If a response says when to retry, that alone is how long to hold back. Else the longest time
  /// that any header asks for counts. Of use with a vendor whose reset is the time until its limit
  /// is full again (OpenAI, Groq), since a call would pass long before.
  bool retry_after_decides = false;
};

/// No time is longer than this: what a vendor asks for beyond it is cut.
inline constexpr std::chrono::microseconds longest_feedback = std::chrono::hours{24 * 3653};

/// What a vendor says of one of its limits. Of several limits, the one with the least left.
struct vendor_quota {
  /// Left in the vendor's current window, rounded down; never negative.
  std::optional<std::int64_t> remaining = {};
  std::optional<std::int64_t> limit = {};  ///< what its window holds; never negative
  /// From the response until the window starts anew. Some vendors mean: until all of it is there
  /// again.
  std::optional<std::chrono::microseconds> reset_after = {};
  feedback_source source = feedback_source::none;  ///< who said it

  friend bool operator==(const vendor_quota&, const vendor_quota&) = default;
};

/// What a vendor says in a response about its limits.
struct vendor_feedback {
  /// This call was turned away because of a limit: 429; any other error that says when to retry;
  /// 403 with nothing left. If there is no `blocked_for`, the vendor did not say for how long, and
  /// the caller chooses.
  bool refused = false;

  /// Send nothing for so long, counted from the response. Zero: may be tried again at once. Rounded
  /// up to a whole microsecond, from 0 to `longest_feedback`.
  std::optional<std::chrono::microseconds> blocked_for = {};
  feedback_source source = feedback_source::none;  ///< who asked for `blocked_for`

  vendor_quota requests = {};
  /// Of vendors that count the words of language models besides requests.
  vendor_quota tokens = {};

  friend bool operator==(const vendor_feedback&, const vendor_feedback&) = default;
};

static_assert(std::is_trivially_destructible_v<vendor_feedback>);

/// Reads what a response says about its sender's limits: Retry-After, the RateLimit fields in their
/// drafts' forms, and what vendors send besides; docs/vendor_feedback.md has them all.
///
/// `status` is that of HTTP, `now` the caller's clock when the response came. Times of day are
/// taken relative to the response's own Date header if it has one, so the vendor's clock need not
/// agree with `now`. A value that cannot be read is as good as absent; nothing is guessed from
/// parts of it. The order of the headers does not matter.
///
/// Allocates nothing, throws nothing whatever the headers hold, and takes time in proportion to
/// their length. Pure: any number of threads may call it.
vendor_feedback read_feedback(int status, std::span<const header_field> headers, time_point now,
                              const feedback_options& options = {}) noexcept;

}  // namespace weir

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"

namespace weir {

/// One header of a response. A header that came several times may be given several times, in its
/// order, or once with its values joined by commas; the answer is the same.
struct header_field {
  std::string_view name;  ///< in upper or lower case
  std::string_view value;
};

/// The headers that a value came from, by the names of docs/vendor_feedback.md.
enum class feedback_source : std::uint8_t {
  none,                 ///< no header said it
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

/// "Retry-After", "X-RateLimit-*": a name for logs. Empty for feedback_source::none.
WEIR_EXPORT std::string_view to_string(feedback_source source) noexcept;

/// How read_feedback() reads a plain number in a header whose name ends with Reset.
enum class reset_unit : std::uint8_t {
  /// By its size: up to ten years in seconds, it is seconds from now. A time in seconds, milli-,
  /// micro- or nanoseconds since 1970 that lies within ten years of now is that time. Any other
  /// number is ignored.
  automatic,
  seconds,             ///< seconds from now
  milliseconds,        ///< milliseconds from now; `automatic` reads them as seconds
  epoch_seconds,       ///< seconds since 1970
  epoch_milliseconds,  ///< milliseconds since 1970
};

/// What the caller knows about a vendor beforehand. docs/vendor_feedback.md names the vendors that
/// need other values than these defaults.
struct feedback_options {
  reset_unit reset = reset_unit::automatic;

  /// If true, a header that says when to retry decides alone, unless it says "at once". If false,
  /// the longest time of any header counts. With some vendors (OpenAI, Groq), reset is the time
  /// until the whole limit is available again: a call passes long before that.
  bool retry_after_decides = true;
};

/// The longest time that read_feedback() returns; a longer one is cut to this.
inline constexpr std::chrono::microseconds longest_feedback = std::chrono::hours{24 * 3653};

/// What a vendor says about one of its limits; if it has several, the one with the least left.
struct vendor_quota {
  /// Units left in the vendor's current window, rounded down; never negative.
  std::optional<std::int64_t> remaining = {};
  /// The vendor's limit for that window; never negative.
  std::optional<std::int64_t> limit = {};
  /// The time from the response until the window starts anew. For some vendors: until the whole
  /// limit is available again.
  std::optional<std::chrono::microseconds> reset_after = {};
  feedback_source source = feedback_source::none;  ///< the headers that said it

  friend bool operator==(const vendor_quota&, const vendor_quota&) = default;
};

/// What a vendor says in a response about its limits.
struct vendor_feedback {
  /// The vendor refused this call because of a limit: 429; any other error that says when to retry,
  /// unless that is at once; or 403 with nothing left. Without `blocked_for`, the vendor gave no
  /// time, and the caller chooses one.
  bool refused = false;

  /// Send nothing for this long, counted from the response; 0 to `longest_feedback`, rounded up to
  /// a whole microsecond. Zero: the caller may try again at once.
  std::optional<std::chrono::microseconds> blocked_for = {};
  feedback_source source = feedback_source::none;  ///< the headers that asked for `blocked_for`

  vendor_quota requests = {};
  /// The count of tokens, which vendors of language models report.
  vendor_quota tokens = {};

  friend bool operator==(const vendor_feedback&, const vendor_feedback&) = default;
};

static_assert(std::is_trivially_destructible_v<vendor_feedback>);

/// Reads what a response says about the vendor's limits: Retry-After, the RateLimit fields in the
/// forms of their drafts, and the headers of single vendors. docs/vendor_feedback.md lists them.
///
/// `status`: the HTTP status. `headers`: in any order of the names. `now`: the caller's clock when
/// the response came. Absolute times count from the response's own Date header, so the vendor's
/// clock need not agree with `now`; without that header, or if it is more than twenty years before
/// `now`, from `now`. A value that cannot be read counts as absent, and no part of it is used; in a
/// list of times, the other elements count.
///
/// It allocates nothing, throws nothing whatever the headers hold, and takes time in proportion to
/// their length. It is a pure function: any number of threads may call it.
[[nodiscard]] WEIR_EXPORT vendor_feedback
read_feedback(int status, std::span<const header_field> headers, time_point now,
              const feedback_options& options = {}) noexcept;

/// What limiter::on_response() accepts as a response: the messages of Boost.Beast. This header does
/// not include Beast.
template <class Response>
concept http_response = requires(const Response& r) {
  static_cast<int>(r.result_int());
  std::string_view(r.begin()->name_string());
  std::string_view(r.begin()->value());
};

}  // namespace weir

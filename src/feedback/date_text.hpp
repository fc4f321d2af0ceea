#pragma once

#include <optional>
#include <string_view>

#include "weir/decision.hpp"

namespace weir::feedback {

/// The three date forms of RFC 9110, section 5.6.7:
///
///     Sun, 06 Nov 1994 08:49:37 GMT     IMF-fixdate
///     Sunday, 06-Nov-94 08:49:37 GMT    RFC 850
///     Sun Nov  6 08:49:37 1994          asctime
///
/// Names are case-sensitive. The day of the week is not compared with the date. The two-digit year
/// of RFC 850 is the last such year that is at most 50 years after `now`.
std::optional<time_point> read_http_date(std::string_view text, time_point now) noexcept;

/// Reads a time of RFC 3339: "2026-04-21T14:38:25Z", "2026-04-21T16:38:25.5+02:00". Rounds a
/// fraction up to a whole microsecond. The seconds may be missing, because Atlassian omits them.
std::optional<time_point> read_timestamp(std::string_view text) noexcept;

}  // namespace weir::feedback

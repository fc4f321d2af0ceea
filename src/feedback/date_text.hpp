#pragma once

#include <optional>
#include <string_view>

#include "weir/decision.hpp"

namespace weir::feedback {

/// The three date forms of RFC 9110, section 5.6.7, and the one that JavaScript's Date prints:
///
///     Sun, 06 Nov 1994 08:49:37 GMT                             IMF-fixdate
///     Sunday, 06-Nov-94 08:49:37 GMT                            RFC 850
///     Sun Nov  6 08:49:37 1994                                  asctime
///     Sun Nov 06 1994 09:49:37 GMT+0100 (Central European...)   JavaScript
///
/// As servers write them: names in upper or lower case, those of days whole or with three letters,
/// a day of the month with one digit, any year with two or four, "UTC", "Z" or an offset in place
/// of "GMT", no comma. The day of the week is not compared with the date. A two-digit year is the
/// last such year that is at most 50 years after `now`, or after 2026 if the clock is behind that.
std::optional<time_point> read_http_date(std::string_view text, time_point now) noexcept;

/// Reads a time of ISO 8601 in its long form: "2026-04-21T14:38:25Z", "2026-04-21T16:38:25.5+0200",
/// with a blank for the T and before the zone, too. Rounds a fraction up to a whole microsecond.
/// The seconds may be missing, because Atlassian omits them; the zone may not.
std::optional<time_point> read_timestamp(std::string_view text) noexcept;

}  // namespace weir::feedback

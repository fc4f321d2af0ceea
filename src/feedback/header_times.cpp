#include "feedback/header_times.hpp"

#include <algorithm>

#include "feedback/date_text.hpp"
#include "feedback/number_text.hpp"
#include "feedback/tally.hpp"

namespace weir::feedback {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// About the range of an HTTP date. Within it, sums of times cannot overflow.
constexpr time_point earliest{};
constexpr time_point latest{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}};

/// The longest of the times that can be read.
template <class Read>
std::optional<microseconds> longest_of(const header_lines& lines, Read read) noexcept {
  std::optional<microseconds> longest;
  read_each(lines, [&](std::string_view element) {
    const std::optional<microseconds> time = read(element);
    keep_highest(longest, time);
    return time.has_value();
  });
  return longest;
}

constexpr microseconds nanosecond{0};  // stands for the unit that microseconds cannot hold

/// Reads a number of units since 1970; empty if no clock shows such a time.
std::optional<time_point> since_1970(const decimal& count, microseconds unit) noexcept {
  if (unit == nanosecond) return time_point{nanoseconds_up(count)};
  if (count.whole > latest.time_since_epoch() / unit) return std::nullopt;
  decimal fraction = count;
  fraction.whole = 0;
  return time_point{count.whole * unit + times(fraction, unit)};
}

}  // namespace

header_times::header_times(time_point now) noexcept : now_(std::clamp(now, earliest, latest)) {}

void header_times::date(const header_lines& lines) noexcept {
  read_each(lines, [&](std::string_view element) {
    const auto at = read_http_date(element, now_);
    keep_lowest(date_, at);
    return at.has_value();
  });
}

void header_times::age(const header_lines& lines) noexcept {
  const auto longest = longest_of(
      lines, [&](std::string_view one) { return number(one, reset_unit::seconds); });
  if (longest) age_ = std::max(age_, *longest);
}

time_point header_times::base() const noexcept {
  // Some proxies have no clock, and begin in 1970 or 2000.
  const bool is_likely = date_ && *date_ >= now_ - 2 * longest_feedback;
  return is_likely ? *date_ + age_ : now_;
}

microseconds header_times::until(time_point at) const noexcept {
  return std::clamp<microseconds>(at - base(), microseconds{0}, longest_feedback);
}

std::optional<microseconds> header_times::number(std::string_view value,
                                                 reset_unit unit) const noexcept {
  const auto count = read_decimal(value);
  if (!count) return std::nullopt;
  const auto from_1970 = [&](microseconds each) -> std::optional<microseconds> {
    const auto at = since_1970(*count, each);
    return at ? until(*at) : longest_feedback;
  };
  const auto near_now = [&](microseconds each) {
    const auto at = since_1970(*count, each);
    return at && *at - base() <= longest_feedback && base() - *at <= longest_feedback;
  };
  switch (unit) {
    case reset_unit::seconds:
      return times(*count, seconds{1});
    case reset_unit::milliseconds:
      return times(*count, milliseconds{1});
    case reset_unit::epoch_seconds:
      return from_1970(seconds{1});
    case reset_unit::epoch_milliseconds:
      return from_1970(milliseconds{1});
    case reset_unit::automatic:
      break;
  }
  if (count->whole < longest_feedback / seconds{1}) return times(*count, seconds{1});
  for (const microseconds unit :
       {microseconds{seconds{1}}, microseconds{milliseconds{1}}, microseconds{1}, nanosecond}) {
    if (near_now(unit)) return from_1970(unit);
  }
  return std::nullopt;
}

std::optional<microseconds> header_times::one_reset(std::string_view value,
                                                    reset_unit unit) const noexcept {
  if (const auto plain = number(value, unit)) return plain;
  if (const auto at = read_http_date(value, now_)) return until(*at);
  if (const auto duration = read_go_duration(value)) return duration;
  if (const auto at = read_timestamp(value)) return until(*at);
  return std::nullopt;
}

std::optional<microseconds> header_times::retry_seconds(const header_lines& lines) const noexcept {
  return longest_of(lines, [&](std::string_view one) {
    const auto time = one_reset(one, reset_unit::automatic);
    // A number that is no time near now, however large, is one of seconds.
    return time ? time : number(one, reset_unit::seconds);
  });
}

std::optional<microseconds> header_times::retry_milliseconds(
    const header_lines& lines) const noexcept {
  return longest_of(lines,
                    [&](std::string_view one) { return number(one, reset_unit::milliseconds); });
}

std::optional<microseconds> header_times::reset(const header_lines& lines,
                                                reset_unit unit) const noexcept {
  return longest_of(lines, [&](std::string_view one) { return one_reset(one, unit); });
}

}  // namespace weir::feedback

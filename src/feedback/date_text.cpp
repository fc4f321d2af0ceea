#include "feedback/date_text.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "feedback/number_text.hpp"
#include "text/ascii.hpp"

namespace weir::feedback {
namespace {

namespace chrono = std::chrono;

constexpr std::array<std::string_view, 7> day_names = {
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 12> month_names = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// A date in parts. Readers below step over a part at the start of the text, or return false.
struct calendar_time {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;

  friend auto operator<=>(const calendar_time&, const calendar_time&) = default;
};

/// In upper or lower case.
bool take(std::string_view& text, std::string_view part) noexcept {
  if (!std::ranges::equal(text.substr(0, part.size()), part, {}, text::lower, text::lower)) {
    return false;
  }
  text.remove_prefix(part.size());
  return true;
}

bool take_digits(std::string_view& text, std::size_t count, int& value) noexcept {
  if (text.size() < count || !std::ranges::all_of(text.substr(0, count), text::is_digit))
    return false;
  value = 0;
  for (const char c : text.substr(0, count)) value = value * 10 + (c - '0');
  text.remove_prefix(count);
  return true;
}

bool take_day(std::string_view& text, calendar_time& at) noexcept {
  return take_digits(text, 2, at.day) || take_digits(text, 1, at.day);
}

bool take_day_name(std::string_view& text) noexcept {
  return std::ranges::any_of(day_names, [&](std::string_view name) {
    return take(text, name) || take(text, name.substr(0, 3));
  });
}

bool take_month(std::string_view& text, calendar_time& at) noexcept {
  at.month = 0;
  return std::ranges::any_of(month_names, [&](std::string_view name) {
    ++at.month;
    return take(text, name);
  });
}

bool take_clock(std::string_view& text, calendar_time& at) noexcept {
  return take_digits(text, 2, at.hour) && take(text, ":") && take_digits(text, 2, at.minute) &&
         take(text, ":") && take_digits(text, 2, at.second);
}

/// Steps over "Z", "GMT", "UTC", an offset ("+02:00", "-0730", "+02"), or a name with an offset.
bool take_zone(std::string_view& text, chrono::minutes& offset) noexcept {
  offset = {};
  if (take(text, "Z")) return true;
  const bool has_name = take(text, "GMT") || take(text, "UTC");
  const bool ahead = take(text, "+");
  if (!ahead && !take(text, "-")) return has_name;
  int hours = 0;
  int minutes = 0;
  if (!take_digits(text, 2, hours)) return false;
  const bool has_colon = take(text, ":");
  if (!take_digits(text, 2, minutes) && has_colon) return false;
  offset = chrono::minutes{hours * 60 + minutes};
  if (!ahead) offset = -offset;
  return hours <= 23 && minutes <= 59;
}

/// Reads what stands behind the name of the day: "06 Nov 1994 08:49:37 GMT", "06-Nov-94 ...".
bool day_first(std::string_view text, calendar_time& at, chrono::minutes& offset,
               bool& has_century) noexcept {
  if (!take_day(text, at)) return false;
  const std::string_view separator = text.starts_with('-') ? "-" : " ";
  if (!take(text, separator) || !take_month(text, at) || !take(text, separator)) return false;
  has_century = take_digits(text, 4, at.year);
  return (has_century || take_digits(text, 2, at.year)) && take(text, " ") &&
         take_clock(text, at) && take(text, " ") && take_zone(text, offset) && text.empty();
}

/// The same for "Nov  6 08:49:37 1994", and for "Nov 06 1994 08:49:37 GMT+0000 (Some Zone)".
bool month_first(std::string_view text, calendar_time& at, chrono::minutes& offset) noexcept {
  if (!take_month(text, at) || !take(text, " ")) return false;
  take(text, " ");
  if (!take_day(text, at) || !take(text, " ")) return false;
  if (std::string_view rest = text; take_clock(rest, at)) {
    return take(rest, " ") && take_digits(rest, 4, at.year) && rest.empty();
  }
  if (!take_digits(text, 4, at.year) || !take(text, " ") || !take_clock(text, at) ||
      !take(text, " ") || !take_zone(text, offset)) {
    return false;
  }
  return text.empty() || (text.starts_with(" (") && text.ends_with(')'));
}

calendar_time in_parts(time_point at) noexcept {
  const auto day = chrono::floor<chrono::days>(at);
  const chrono::year_month_day date{day};
  const chrono::hh_mm_ss clock{chrono::floor<chrono::seconds>(at - day)};
  return {int{date.year()},
          static_cast<int>(unsigned{date.month()}),
          static_cast<int>(unsigned{date.day()}),
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count())};
}

/// No response is older. A clock that was never set shows a time long before.
constexpr time_point first_response = chrono::sys_days{chrono::year{2026} / 1 / 1};

int last_year_with(int two_digits, const calendar_time& date, time_point now) noexcept {
  calendar_time latest = in_parts(std::max(now, first_response));
  latest.year += 50;
  calendar_time candidate = date;
  candidate.year = latest.year - latest.year % 100 + two_digits;
  return candidate > latest ? candidate.year - 100 : candidate.year;
}

/// Empty if there is no such time. Second 60, a leap second, is read as the next second.
std::optional<time_point> on_the_clock(const calendar_time& at) noexcept {
  const chrono::year_month_day date{chrono::year{at.year},
                                    chrono::month{static_cast<unsigned>(at.month)},
                                    chrono::day{static_cast<unsigned>(at.day)}};
  if (!date.ok() || at.hour > 23 || at.minute > 59 || at.second > 60) return std::nullopt;
  return chrono::sys_days{date} + chrono::hours{at.hour} + chrono::minutes{at.minute} +
         chrono::seconds{at.second};
}

}  // namespace

std::optional<time_point> read_http_date(std::string_view text, time_point now) noexcept {
  calendar_time at;
  chrono::minutes offset{0};
  if (!take_day_name(text)) return std::nullopt;
  take(text, ",");
  if (!take(text, " ")) return std::nullopt;
  bool has_century = true;
  if (!day_first(text, at, offset, has_century) && !month_first(text, at, offset)) {
    return std::nullopt;
  }
  if (!has_century) at.year = last_year_with(at.year, at, now);
  const auto clock = on_the_clock(at);
  return clock ? std::optional{*clock - offset} : clock;
}

std::optional<time_point> read_timestamp(std::string_view text) noexcept {
  calendar_time at;
  if (!take_digits(text, 4, at.year) || !take(text, "-") || !take_digits(text, 2, at.month) ||
      !take(text, "-") || !take_digits(text, 2, at.day) || !(take(text, "T") || take(text, " ")) ||
      !take_digits(text, 2, at.hour) || !take(text, ":") || !take_digits(text, 2, at.minute)) {
    return std::nullopt;
  }
  chrono::microseconds fraction{0};
  if (take(text, ":")) {
    const std::string_view seconds = text;
    if (!take_digits(text, 2, at.second)) return std::nullopt;
    if (text.starts_with('.')) {
      text = seconds.substr(1);  // a number with its fraction
      auto number = take_decimal(text);
      if (!number) return std::nullopt;
      number->whole = 0;
      fraction = times(*number, chrono::seconds{1});
    }
  }
  take(text, " ");
  chrono::minutes offset{0};
  if (!take_zone(text, offset) || !text.empty()) return std::nullopt;
  const auto clock = on_the_clock(at);
  return clock ? std::optional{*clock + fraction - offset} : clock;
}

}  // namespace weir::feedback

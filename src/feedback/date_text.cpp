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

bool take(std::string_view& text, std::string_view part) noexcept {
  if (!text.starts_with(part)) return false;
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

bool take_day_name(std::string_view& text, bool whole) noexcept {
  return std::ranges::any_of(day_names, [&](std::string_view name) {
    return take(text, whole ? name : name.substr(0, 3));
  });
}

bool take_month(std::string_view& text, int& month) noexcept {
  month = 0;
  return std::ranges::any_of(month_names, [&](std::string_view name) {
    ++month;
    return take(text, name);
  });
}

bool take_clock(std::string_view& text, calendar_time& at) noexcept {
  return take_digits(text, 2, at.hour) && take(text, ":") && take_digits(text, 2, at.minute) &&
         take(text, ":") && take_digits(text, 2, at.second);
}

bool imf_fixdate(std::string_view text, calendar_time& at) noexcept {
  return take_day_name(text, false) && take(text, ", ") && take_digits(text, 2, at.day) &&
         take(text, " ") && take_month(text, at.month) && take(text, " ") &&
         take_digits(text, 4, at.year) && take(text, " ") && take_clock(text, at) && text == " GMT";
}

bool rfc850_date(std::string_view text, calendar_time& at) noexcept {
  return take_day_name(text, true) && take(text, ", ") && take_digits(text, 2, at.day) &&
         take(text, "-") && take_month(text, at.month) && take(text, "-") &&
         take_digits(text, 2, at.year) && take(text, " ") && take_clock(text, at) && text == " GMT";
}

bool asctime_date(std::string_view text, calendar_time& at) noexcept {
  return take_day_name(text, false) && take(text, " ") && take_month(text, at.month) &&
         take(text, " ") &&
         (take(text, " ") ? take_digits(text, 1, at.day) : take_digits(text, 2, at.day)) &&
         take(text, " ") && take_clock(text, at) && take(text, " ") &&
         take_digits(text, 4, at.year) && text.empty();
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

int last_year_with(int two_digits, const calendar_time& date, time_point now) noexcept {
  calendar_time latest = in_parts(now);
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

/// Reads an offset from UTC: "Z", "+02:00", "-07:30".
std::optional<chrono::minutes> read_offset(std::string_view text) noexcept {
  if (text == "Z" || text == "z") return chrono::minutes{0};
  const bool ahead = take(text, "+");
  if (!ahead && !take(text, "-")) return std::nullopt;
  int hours = 0;
  int minutes = 0;
  if (!take_digits(text, 2, hours) || !take(text, ":") || !take_digits(text, 2, minutes) ||
      !text.empty() || hours > 23 || minutes > 59) {
    return std::nullopt;
  }
  const chrono::minutes offset{hours * 60 + minutes};
  return ahead ? offset : -offset;
}

}  // namespace

std::optional<time_point> read_http_date(std::string_view text, time_point now) noexcept {
  calendar_time at;
  if (imf_fixdate(text, at) || asctime_date(text, at)) return on_the_clock(at);
  if (!rfc850_date(text, at)) return std::nullopt;
  at.year = last_year_with(at.year, at, now);
  return on_the_clock(at);
}

std::optional<time_point> read_timestamp(std::string_view text) noexcept {
  calendar_time at;
  if (!take_digits(text, 4, at.year) || !take(text, "-") || !take_digits(text, 2, at.month) ||
      !take(text, "-") || !take_digits(text, 2, at.day) || !(take(text, "T") || take(text, "t")) ||
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
  const auto offset = read_offset(text);
  const auto clock = on_the_clock(at);
  if (!offset || !clock) return std::nullopt;
  return *clock + fraction - *offset;
}

}  // namespace weir::feedback

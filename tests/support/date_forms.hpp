#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace weir::test {

/// How many forms date_in_form() knows.
inline constexpr int date_forms = 23;

/// A second since 1970 as vendors write it, from 2000 to 2050: forms with a two-digit year too. All
/// forms name that second, those with an offset by the clock of their place.
inline std::string date_in_form(int form, std::int64_t second) {
  using namespace std::chrono;
  static constexpr std::array<const char*, 7> days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                      "Thursday", "Friday", "Saturday"};
  static constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  static constexpr std::array<const char*, 12> small_months = {
      "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"};
  std::array<char, 128> text{};
  // What the form adds to the clock of UTC.
  const int minutes = form == 8 || form == 11 || form == 16 ? 120 : form == 17 ? -450 : 0;
  const sys_seconds local{seconds{second + 60 * minutes}};
  const auto day = floor<std::chrono::days>(local);
  const year_month_day date{day};
  const hh_mm_ss clock{local - day};
  const char* const name = days[weekday{day}.c_encoding()];
  const int y = int{date.year()};
  const auto m = static_cast<int>(unsigned{date.month()});
  const auto d = static_cast<int>(unsigned{date.day()});
  const auto h = static_cast<int>(clock.hours().count());
  const auto min = static_cast<int>(clock.minutes().count());
  const auto s = static_cast<int>(clock.seconds().count());
  const char* const month = months[static_cast<std::size_t>(m - 1)];
  const auto put = [&](const char* pattern, auto... values) {
    const int size = std::snprintf(text.data(), text.size(), pattern, values...);
    return std::string(text.data(), static_cast<std::size_t>(size));
  };
  const auto http = [&](const char* pattern) { return put(pattern, name, d, month, y, h, min, s); };
  const auto printed = [&](const char* pattern) {
    return put(pattern, name, month, d, y, h, min, s);
  };
  const auto iso = [&](const char* pattern) { return put(pattern, y, m, d, h, min, s); };
  switch (form) {
    case 0:  // IMF-fixdate, and JavaScript's toUTCString()
      return http("%.3s, %02d %s %04d %02d:%02d:%02d GMT");
    case 1:
      return put("%s, %02d-%s-%02d %02d:%02d:%02d GMT", name, d, month, y % 100, h, min, s);
    case 2:
      return put("%.3s %s %2d %02d:%02d:%02d %04d", name, month, d, h, min, s, y);
    case 3:
      return http("%.3s, %d %s %04d %02d:%02d:%02d GMT");
    case 4:
      return http("%.3s, %02d %s %04d %02d:%02d:%02d UTC");
    case 5:
      return http("%.3s, %02d %s %04d %02d:%02d:%02d +0000");
    case 6:
      return put("%.3s, %02d %s %04d %02d:%02d:%02d gmt", name, d,
                 small_months[static_cast<std::size_t>(m - 1)], y, h, min, s);
    case 7:
      return http("%s, %02d-%s-%04d %02d:%02d:%02d GMT");
    case 8:
      return http("%.3s, %02d %s %04d %02d:%02d:%02d +0200");
    case 9:
      return put("%.3s %s %d %02d:%02d:%02d %04d", name, month, d, h, min, s, y);
    case 10:  // JavaScript's Date.toString()
      return printed("%.3s %s %02d %04d %02d:%02d:%02d GMT+0000 (Coordinated Universal Time)");
    case 11:
      return printed("%.3s %s %02d %04d %02d:%02d:%02d GMT+0200 (Central European Summer Time)");
    case 12:
      return iso("%04d-%02d-%02dT%02d:%02d:%02dZ");
    case 13:
      return iso("%04d-%02d-%02dT%02d:%02d:%02d.000Z");
    case 14:
      return iso("%04d-%02d-%02dT%02d:%02d:%02d+00:00");
    case 15:
      return iso("%04d-%02d-%02dt%02d:%02d:%02d.000000z");
    case 16:
      return iso("%04d-%02d-%02dT%02d:%02d:%02d+0200");
    case 17:
      return iso("%04d-%02d-%02dT%02d:%02d:%02d.0-07:30");
    case 18:
      return iso("%04d-%02d-%02d %02d:%02d:%02d UTC");
    case 19:
      return std::to_string(second);
    case 20:
      return std::to_string(second) + "000";
    case 21:
      return std::to_string(second) + "000000";
    default:
      return std::to_string(second) + "000000000";
  }
}

}  // namespace weir::test

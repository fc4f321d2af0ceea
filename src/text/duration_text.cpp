#include "text/duration_text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "text/ascii.hpp"
#include "weir/decision.hpp"

namespace weir::text {
namespace {

struct named_unit {
  std::string_view name;
  std::int64_t microseconds;
};

constexpr std::int64_t second = 1'000'000;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;
constexpr std::int64_t week = 7 * day;

constexpr named_unit units[] = {
    {"us", 1},          {"ms", 1'000},       {"s", second}, {"sec", second}, {"secs", second},
    {"second", second}, {"seconds", second}, {"m", minute}, {"min", minute}, {"mins", minute},
    {"minute", minute}, {"minutes", minute}, {"h", hour},   {"hour", hour},  {"hours", hour},
    {"d", day},         {"day", day},        {"days", day}, {"w", week},     {"week", week},
    {"weeks", week},
};

constexpr bool same_letters(std::string_view text, std::string_view lower_case) noexcept {
  return std::ranges::equal(text, lower_case, {}, lower);
}

}  // namespace

void text_reader::skip_spaces() noexcept {
  constexpr std::string_view blank = " \t\r\n";
  position_ = std::min(text_.find_first_not_of(blank, position_), text_.size());
}

bool text_reader::accept(std::string_view token) noexcept {
  if (!same_letters(rest().substr(0, token.size()), token)) return false;
  position_ += token.size();
  return true;
}

bool text_reader::accept_word(std::string_view word) noexcept {
  const std::string_view behind = rest().substr(std::min(word.size(), rest().size()));
  const char next = behind.empty() ? ' ' : behind.front();
  return !is_letter(next) && !is_digit(next) && next != '_' && accept(word);
}

bool text_reader::next_is_digit() const noexcept {
  return position_ < text_.size() && is_digit(text_[position_]);
}

std::nullopt_t text_reader::fail(const char* expected) noexcept {
  expected_ = expected;
  return std::nullopt;
}

std::optional<std::int64_t> text_reader::positive_number() noexcept {
  constexpr const char* no_fraction =
      "a whole number, not a fraction (a smaller unit or a longer period says the same: \"3 per "
      "2s\" "
      "for 1.5/s, \"1500ms\" for 1.5s)";
  if (rest().starts_with('.')) return fail(no_fraction);

  // Digits only: from_chars would also accept a minus.
  std::int64_t value = 0;
  const char* const begin = rest().data();
  std::from_chars_result result{begin, std::errc::invalid_argument};
  if (next_is_digit()) result = std::from_chars(begin, begin + rest().size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    return fail("a number of at most 9223372036854775807");
  }
  if (result.ec != std::errc{} || value == 0) return fail("a whole number above 0");

  position_ += static_cast<std::size_t>(result.ptr - begin);
  if (rest().starts_with('.')) return fail(no_fraction);
  return value;
}

std::optional<std::chrono::microseconds> text_reader::unit() noexcept {
  const std::string_view tail = rest();
  const auto length = std::ranges::find_if_not(tail, is_letter) - tail.begin();
  const std::string_view name = tail.substr(0, static_cast<std::size_t>(length));
  const auto found = std::ranges::find_if(units, [&](const named_unit& u) {
    // 5000/M would mean minutes, and many write it for months.
    return name.size() == 1 ? name == u.name : same_letters(name, u.name);
  });
  if (found == std::ranges::end(units)) return fail("a unit (us, ms, s, min, h, day or week)");
  position_ += name.size();
  return std::chrono::microseconds{found->microseconds};
}

std::optional<std::chrono::microseconds> text_reader::duration(bool count_optional) noexcept {
  const std::size_t start = position_;
  std::int64_t count = 1;
  const bool no_count = rest().empty() || is_letter(rest().front());
  if (!count_optional || !no_count) {
    const auto number = positive_number();
    if (!number) return std::nullopt;
    count = *number;
    skip_spaces();
  }
  const auto one = unit();
  if (!one) return std::nullopt;
  if (count > std::numeric_limits<std::int64_t>::max() / one->count()) {
    position_ = start;
    return fail("a duration of at most 9223372036854775807 microseconds");
  }
  return std::chrono::microseconds{count * one->count()};
}

std::optional<rate> text_reader::rate(bool or_unlimited) noexcept {
  skip_spaces();
  const bool is_unlimited = or_unlimited && accept_word("unlimited");
  if (or_unlimited && !is_unlimited && !next_is_digit()) {
    return fail("a whole number above 0, or \"unlimited\"");
  }
  const auto count = is_unlimited ? std::optional{unlimited} : positive_number();
  if (!count) return std::nullopt;
  skip_spaces();
  if (!accept("/") && !accept("per")) return fail("\"/\" or \"per\" after the count");
  skip_spaces();
  const auto period = duration(/*count_optional=*/true);
  if (!period) return std::nullopt;
  return weir::rate{*count, *period};
}

bool text_reader::end() noexcept {
  skip_spaces();
  if (position_ == text_.size()) return true;
  fail("the end of the text");
  return false;
}

scaled_duration scale(std::chrono::microseconds duration) noexcept {
  constexpr named_unit written[] = {{"d", day},    {"h", hour},   {"min", minute},
                                    {"s", second}, {"ms", 1'000}, {"us", 1}};
  const std::int64_t count = duration.count();
  for (const named_unit& unit : written) {
    if (count != 0 && count % unit.microseconds == 0) {
      return {count / unit.microseconds, unit.name.data()};
    }
  }
  return {count, "us"};
}

std::string duration_text(std::chrono::microseconds duration) {
  const auto [count, unit] = scale(duration);
  return std::to_string(count) + unit;
}

std::string units_text(std::int64_t units) {
  return units == unlimited ? "unlimited" : std::to_string(units);
}

}  // namespace weir::text

#include "feedback/number_text.hpp"

#include <algorithm>

#include "text/ascii.hpp"
#include "weir/feedback.hpp"

namespace weir::feedback {
namespace {

using std::chrono::microseconds;

constexpr std::int64_t nanos_per_unit = 1'000'000'000;

struct go_unit {
  std::string_view name;
  microseconds length;  // zero: a nanosecond
};

// "m" is behind the units that begin with it. Go writes the micro sign as U+00B5, keyboards U+03BC.
constexpr go_unit go_units[] = {
    {"ns", microseconds{0}},
    {"us", microseconds{1}},
    {"\u00b5s", microseconds{1}},
    {"\u03bcs", microseconds{1}},
    {"ms", std::chrono::milliseconds{1}},
    {"s", std::chrono::seconds{1}},
    {"m", std::chrono::minutes{1}},
    {"h", std::chrono::hours{1}},
};

}  // namespace

std::optional<decimal> take_decimal(std::string_view& text) noexcept {
  std::string_view rest = text;
  if (rest.empty() || !text::is_digit(rest.front())) return std::nullopt;

  decimal out;
  for (; !rest.empty() && text::is_digit(rest.front()); rest.remove_prefix(1)) {
    const int digit = rest.front() - '0';
    out.whole = out.whole > (decimal::most - digit) / 10 ? decimal::most : out.whole * 10 + digit;
  }
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    if (rest.empty() || !text::is_digit(rest.front())) return std::nullopt;
    std::int32_t weight = 100'000'000;
    for (; !rest.empty() && text::is_digit(rest.front()); rest.remove_prefix(1)) {
      const int digit = rest.front() - '0';
      out.nanos += digit * weight;
      out.more = out.more || (weight == 0 && digit != 0);
      weight /= 10;
    }
  }
  text = rest;
  return out;
}

std::optional<decimal> read_decimal(std::string_view text) noexcept {
  const auto number = take_decimal(text);
  return text.empty() ? number : std::nullopt;
}

microseconds times(const decimal& count, microseconds unit) noexcept {
  if (count.whole > longest_feedback / unit) return longest_feedback;
  const std::int64_t fraction = count.nanos * unit.count();
  const bool part = fraction % nanos_per_unit != 0 || count.more;
  const microseconds sum{count.whole * unit.count() + fraction / nanos_per_unit + (part ? 1 : 0)};
  return std::min(longest_feedback, sum);
}

microseconds nanoseconds_up(const decimal& count) noexcept {
  const bool part = count.whole % 1'000 != 0 || count.nanos != 0 || count.more;
  return microseconds{count.whole / 1'000 + (part ? 1 : 0)};
}

std::optional<microseconds> read_go_duration(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  microseconds sum{0};
  while (!text.empty()) {
    const auto count = take_decimal(text);
    if (!count) return std::nullopt;
    const auto unit = std::ranges::find_if(
        go_units, [&](const go_unit& known) { return text.starts_with(known.name); });
    if (unit == std::ranges::end(go_units)) return std::nullopt;
    text.remove_prefix(unit->name.size());
    const bool nano = unit->length == microseconds{0};
    sum = std::min(longest_feedback,
                   sum + (nano ? nanoseconds_up(*count) : times(*count, unit->length)));
  }
  return sum;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

}  // namespace weir::feedback

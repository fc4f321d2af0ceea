#include "redis/script/record_reply.hpp"

namespace weir::redis {
namespace {

constexpr std::int64_t most_seconds = policies::max_exact / 1'000'000;

/// Reads a number and the space behind it; -1 if there is none.
std::int64_t read_digits(const char*& at, const char* end, std::int64_t most) noexcept {
  constexpr std::ptrdiff_t longest = 18;  // digits that fit in any case
  const char* const first = at;
  const char* const stop = end - first > longest ? first + longest : end;
  std::int64_t value = 0;
  for (; at != stop; ++at) {
    const auto digit = static_cast<unsigned char>(*at - '0');
    if (digit > 9) break;
    value = 10 * value + digit;
  }
  if (at == first || at == end || *at != ' ' || value > most) return -1;
  ++at;
  return value;
}

}  // namespace

std::int64_t take_time(std::string_view& text) noexcept {
  const char *at = text.data(), *const end = at + text.size();
  const std::int64_t seconds = read_digits(at, end, most_seconds);
  const std::int64_t rest = seconds < 0 ? -1 : read_digits(at, end, 999'999);
  if (rest < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  return seconds * 1'000'000 + rest;
}

bool take_integers(std::span<const reply_value>& values, std::span<std::int64_t> to) noexcept {
  if (values.size() < to.size()) return false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (values[i].type != reply_type::integer) return false;
    to[i] = values[i].integer;
  }
  values = values.subspan(to.size());
  return true;
}

}  // namespace weir::redis

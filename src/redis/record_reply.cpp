#include "redis/record_reply.hpp"

namespace weir::redis {
namespace {

constexpr std::int64_t most_seconds = policies::max_exact / 1'000'000;

/// A number up to the next space, which goes too; -1 if there is none.
std::int64_t take_digits(std::string_view& text, std::int64_t most) noexcept {
  std::int64_t value = 0;
  const char* const all = text.data() + text.size();
  const auto [end, ec] = std::from_chars(text.data(), all, value);
  if (ec != std::errc() || end == all || *end != ' ' || value < 0 || value > most) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return value;
}

}  // namespace

std::int64_t take_time(std::string_view& text) noexcept {
  const std::int64_t seconds = take_digits(text, most_seconds);
  const std::int64_t rest = seconds < 0 ? -1 : take_digits(text, 999'999);
  return rest < 0 ? -1 : seconds * 1'000'000 + rest;
}

}  // namespace weir::redis

#include "feedback/header_name.hpp"

#include <algorithm>
#include <array>

#include "text/ascii.hpp"

namespace weir::feedback {
namespace {

using enum header_kind;
using enum feedback_source;

struct known_header {
  std::string_view name;
  header_meaning meaning;
};

constexpr known_header known_headers[] = {
    {"date", {date, none}},
    {"age", {age, none}},
    {"retry-after", {retry_seconds, retry_after}},
    {"retry-after-ms", {retry_milliseconds, retry_after_ms}},
    {"x-ms-retry-after-ms", {retry_milliseconds, retry_after_ms}},
    {"x-ratelimit-retry-after", {retry_seconds, x_ratelimit}},
    {"ratelimit", {ratelimit, ratelimit_field}},
    {"ratelimit-policy", {ratelimit_policy, ratelimit_field}},
    {"x-shopify-shop-api-call-limit", {used_of_limit, x_api_call_limit}},
    {"x-gorgias-account-api-call-limit", {used_of_limit, x_api_call_limit}},
    {"x-hubspot-ratelimit-max", {limit, x_hubspot_ratelimit}},
    {"x-hubspot-ratelimit-remaining", {remaining, x_hubspot_ratelimit}},
    {"x-hubspot-ratelimit-daily", {limit, x_hubspot_ratelimit, window_name::day}},
    {"x-hubspot-ratelimit-daily-remaining", {remaining, x_hubspot_ratelimit, window_name::day}},
};

/// A prefix of header names. The rest is the name of a field, with or without that of a window
/// before or after it.
struct family {
  std::string_view prefix;
  feedback_source source;
  window_name window = window_name::whole;  // if the header's name has no window
};

constexpr family families[] = {
    {"ratelimit-", ratelimit_triple},
    {"x-ratelimit-", x_ratelimit},
    {"x-rate-limit-", x_rate_limit},
    {"x-user-limit-24hour-", x_rate_limit, window_name::user_day},
    {"x-app-limit-24hour-", x_rate_limit, window_name::app_day},
    {"anthropic-ratelimit-", anthropic_ratelimit},
};

struct named_kind {
  std::string_view name;
  header_kind kind;
};

constexpr named_kind fields[] = {
    {"limit", limit}, {"remaining", remaining}, {"reset", reset}, {"reset-after", reset_after},
    {"next", reset},
};

struct named_window {
  std::string_view name;
  window_name window;
};

constexpr named_window windows[] = {
    {"second", window_name::second},
    {"minute", window_name::minute},
    {"hour", window_name::hour},
    {"day", window_name::day},
    {"month", window_name::month},
    {"requests", window_name::requests},
    {"global", window_name::global},
    {"route", window_name::route},
    {"tokens", window_name::tokens},
    {"input-tokens", window_name::input_tokens},
    {"output-tokens", window_name::output_tokens},
    {"project-tokens", window_name::project_tokens},
};

constexpr std::size_t longest_name = 48;

/// Reads the rest of a name: "remaining", "remaining-minute", "tokens-remaining".
header_meaning field_of(const family& from, std::string_view name) noexcept {
  for (const auto& [field, kind] : fields) {
    if (name == field) return {kind, from.source, from.window};
    if (from.window != window_name::whole || name.size() <= field.size() + 1) continue;
    for (const auto& [window, known] : windows) {
      if (name.size() != field.size() + 1 + window.size()) continue;
      const bool behind = name.starts_with(field) && name[field.size()] == '-' &&
                          name.ends_with(window);
      const bool before = name.starts_with(window) && name[window.size()] == '-' &&
                          name.ends_with(field);
      // RapidAPI's X-RateLimit-Requests-Remaining is the quota of a day or a month.
      const bool is_quota = before && from.source == x_ratelimit && known == window_name::requests;
      if (behind || before) return {kind, from.source, is_quota ? window_name::month : known};
    }
  }
  return {};
}

}  // namespace

header_meaning meaning_of(std::string_view name) noexcept {
  if (name.size() > longest_name) return {};
  std::array<char, longest_name> buffer;
  std::ranges::transform(name, buffer.begin(), text::lower);
  const std::string_view lowered{buffer.data(), name.size()};

  const auto exact = std::ranges::find(known_headers, lowered, &known_header::name);
  if (exact != std::ranges::end(known_headers)) return exact->meaning;
  for (const family& from : families) {
    if (lowered.starts_with(from.prefix)) return field_of(from, lowered.substr(from.prefix.size()));
  }
  return {};
}

}  // namespace weir::feedback

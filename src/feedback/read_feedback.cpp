#include <algorithm>
#include <array>
#include <utility>

#include "feedback/header_lines.hpp"
#include "feedback/header_name.hpp"
#include "feedback/header_times.hpp"
#include "feedback/policy_list.hpp"
#include "feedback/structured_field.hpp"
#include "feedback/tally.hpp"
#include "weir/feedback.hpp"

namespace weir {
namespace feedback {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

/// The values that the headers of one family give for one window, in any order and repeated.
struct stated_window {
  vendor_quota quota;
  std::optional<microseconds> reset_after;  // given as a duration, so it needs no clock
};

class response_reader {
 public:
  response_reader(int status, std::span<const header_field> headers, time_point now,
                  const feedback_options& options) noexcept
      : status_(status), headers_(headers), options_(options), moments_(now) {}

  vendor_feedback read() noexcept;

 private:
  bool error() const noexcept { return status_ >= 400 && status_ <= 599; }
  /// What is left in a cached response is out of date. With 401, it is that of a caller that the
  /// vendor does not know.
  bool counts_for_us() const noexcept { return !moments_.cached() && status_ != 401; }

  void read_context() noexcept;
  void read_header(const header_meaning& meaning, const header_lines& lines) noexcept;
  void read_retry(std::optional<microseconds> time, feedback_source source) noexcept;
  void read_quota(const header_meaning& meaning, const header_lines& lines) noexcept;
  void read_used(const header_lines& lines) noexcept;
  void read_service_limits(const header_lines& lines) noexcept;
  void read_service_limit(structured_reader& reader, std::string_view name) noexcept;
  void read_service_dictionary(const header_lines& lines) noexcept;
  void add_windows() noexcept;
  vendor_feedback result() const noexcept;

  stated_window& window_of(const header_meaning& meaning) noexcept {
    const auto family = static_cast<std::size_t>(meaning.source) - first_family;
    return windows_[family][static_cast<std::size_t>(meaning.window)];
  }

  // Sources in this range have headers that name a window and a field of it.
  static constexpr auto first_family = static_cast<std::size_t>(feedback_source::ratelimit_triple);
  static constexpr auto last_family = static_cast<std::size_t>(
      feedback_source::x_hubspot_ratelimit);

  int status_;
  std::span<const header_field> headers_;
  const feedback_options& options_;
  header_times moments_;
  policy_list policies_;
  std::array<std::array<stated_window, window_names>, last_family - first_family + 1> windows_{};
  quota_tally requests_;
  quota_tally tokens_;
  longest_wait empty_for_;  // for limits that count neither requests nor tokens
  longest_wait retry_;
  bool says_retry_ = false;
};

struct stated_numbers {
  std::optional<std::int64_t> in_force;  // the lowest that is not that of a policy
  std::optional<std::int64_t> lowest;
};

/// Reads "100", or "100, 100;w=60, 5000;w=3600", where a `w` marks the quota of a policy. Empty if
/// the list holds anything but numbers.
stated_numbers read_numbers(const header_lines& lines) noexcept {
  constexpr auto type = field_type::list_of_any_numbers;
  if (!well_formed(lines, type)) return {};
  structured_reader reader{lines, type};
  stated_numbers out;
  for (keyed_item member; reader.next_member(member);) {
    if (!member.item.is_count()) return {};
    bool is_policy = false;
    for (keyed_item parameter; reader.next_parameter(parameter);) {
      is_policy = is_policy || parameter.key == "w";
    }
    keep_lowest(out.lowest, {member.item.number.whole});
    if (!is_policy) keep_lowest(out.in_force, {member.item.number.whole});
  }
  return out;
}

/// Reads "39/40", the used units and the limit.
std::optional<vendor_quota> read_used_of_limit(std::string_view value) noexcept {
  const auto used = take_decimal(value);
  if (!used || !value.starts_with('/')) return std::nullopt;
  const auto limit = read_decimal(value.substr(1));
  if (!limit) return std::nullopt;
  const std::int64_t rounded_up = used->whole + (used->nanos != 0 || used->more ? 1 : 0);
  return vendor_quota{.remaining = std::max<std::int64_t>(0, limit->whole - rounded_up),
                      .limit = limit->whole,
                      .source = feedback_source::x_api_call_limit};
}

vendor_feedback response_reader::read() noexcept {
  read_context();
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    const header_meaning meaning = meaning_of(headers_[i].name);
    if (meaning.kind == header_kind::unknown) continue;
    const header_lines lines{headers_, i};
    if (lines.at_first()) read_header(meaning, lines);
  }
  add_windows();
  return result();
}

// Reads the headers that others depend on (dates, ages, policies) first, wherever they are.
void response_reader::read_context() noexcept {
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    const header_lines lines{headers_, i};
    switch (meaning_of(headers_[i].name).kind) {
      case header_kind::date:
        if (lines.at_first()) moments_.date(lines);
        break;
      case header_kind::age:
        if (lines.at_first()) moments_.age(lines);
        break;
      case header_kind::ratelimit_policy:
        if (lines.at_first()) policies_.add_field(lines);
        break;
      default:
        break;
    }
  }
}

void response_reader::read_header(const header_meaning& meaning,
                                  const header_lines& lines) noexcept {
  switch (meaning.kind) {
    case header_kind::unknown:
    case header_kind::date:
    case header_kind::age:
    case header_kind::ratelimit_policy:
      return;
    case header_kind::retry_seconds:
      return read_retry(moments_.retry_seconds(lines), meaning.source);
    case header_kind::retry_milliseconds:
      return read_retry(moments_.retry_milliseconds(lines), meaning.source);
    default:
      break;
  }
  if (!counts_for_us()) return;
  if (meaning.kind == header_kind::ratelimit) return read_service_limits(lines);
  if (meaning.kind == header_kind::used_of_limit) return read_used(lines);
  read_quota(meaning, lines);
}

void response_reader::read_retry(std::optional<microseconds> time,
                                 feedback_source source) noexcept {
  // With 202 it concerns the polling of one job, with 3xx one redirect; neither is a reason for a
  // cool-down of the subject.
  if (!error()) return;
  // With a time of zero it does not explain the error: try again at once.
  says_retry_ = says_retry_ || time != microseconds{0};
  if (time) retry_.add(*time, source);
}

void response_reader::read_quota(const header_meaning& meaning,
                                 const header_lines& lines) noexcept {
  stated_window& window = window_of(meaning);
  switch (meaning.kind) {
    case header_kind::limit: {
      const stated_numbers numbers = read_numbers(lines);
      return keep_lowest(window.quota.limit, numbers.in_force ? numbers.in_force : numbers.lowest);
    }
    case header_kind::remaining:
      return keep_lowest(window.quota.remaining, read_numbers(lines).lowest);
    case header_kind::reset:
      return keep_highest(window.quota.reset_after, moments_.reset(lines, options_.reset));
    case header_kind::reset_after:
      return keep_highest(window.reset_after, moments_.reset(lines, reset_unit::seconds));
    default:
      return;
  }
}

void response_reader::read_used(const header_lines& lines) noexcept {
  read_each(lines, [&](std::string_view element) {
    const auto used = read_used_of_limit(element);
    if (used) requests_.add(*used);
    return used.has_value();
  });
}

/// Reads "\"default\";r=50;t=30" (draft 08 and later) or "limit=100, remaining=50, reset=30" (07).
void response_reader::read_service_limits(const header_lines& lines) noexcept {
  if (!well_formed(lines, field_type::list)) return read_service_dictionary(lines);
  structured_reader reader{lines, field_type::list};
  for (keyed_item member; reader.next_member(member);) {
    if (member.item.is_name()) read_service_limit(reader, member.item.name());
  }
}

/// A key that comes again begins the next policy: two fields of draft 07 were joined.
void response_reader::read_service_dictionary(const header_lines& lines) noexcept {
  if (!well_formed(lines, field_type::dictionary)) return;
  constexpr std::string_view keys[] = {"limit", "remaining", "reset"};
  structured_reader reader{lines, field_type::dictionary};
  const vendor_quota none{.source = feedback_source::ratelimit_field};
  vendor_quota policy = none;
  std::array<bool, std::size(keys)> seen{};
  for (keyed_item member; reader.next_member(member);) {
    const auto key = static_cast<std::size_t>(std::ranges::find(keys, member.key) - keys);
    if (key == std::size(keys)) continue;
    if (seen[key]) {
      requests_.add(std::exchange(policy, none));
      seen = {};
    }
    seen[key] = true;
    if (!member.item.is_count()) continue;
    const decimal& number = member.item.number;
    if (key == 0) policy.limit = number.whole;
    if (key == 1) policy.remaining = number.whole;
    if (key == 2) policy.reset_after = times(number, seconds{1});
  }
  requests_.add(policy);
}

void response_reader::read_service_limit(structured_reader& reader,
                                         std::string_view name) noexcept {
  vendor_quota limit{.source = feedback_source::ratelimit_field};
  for (keyed_item parameter; reader.next_parameter(parameter);) {
    const bool is_count = parameter.item.is_count();
    const decimal& number = parameter.item.number;
    if (parameter.key == "r") {
      limit.remaining = is_count ? std::optional{number.whole} : std::nullopt;
    } else if (parameter.key == "t") {
      limit.reset_after = is_count ? std::optional{times(number, seconds{1})} : std::nullopt;
    }
  }
  const stated_policy* const policy = policies_.find(name);
  if (policy && !policy->of_requests) {  // it limits bytes or concurrent calls
    if (limit.remaining == 0 && limit.reset_after) empty_for_.add(*limit.reset_after, limit.source);
    return;
  }
  if (policy) limit.limit = policy->quota;
  requests_.add(limit);
}

void response_reader::add_windows() noexcept {
  if (!counts_for_us()) return;
  for (std::size_t family = 0; family < windows_.size(); ++family) {
    for (std::size_t name = 0; name < window_names; ++name) {
      const stated_window& window = windows_[family][name];
      vendor_quota quota = window.quota;
      if (window.reset_after) quota.reset_after = window.reset_after;
      quota.source = static_cast<feedback_source>(family + first_family);
      const auto window_is = static_cast<window_name>(name);
      // Their reset means "full again": if nothing was refused, there may be room long before.
      const bool blocks = status_ == 429 || status_ == 403 || !refills(window_is);
      (counts_tokens(window_is) ? tokens_ : requests_).add(quota, blocks);
    }
  }
  requests_.add({.limit = policies_.lowest_quota(), .source = feedback_source::ratelimit_field});
}

vendor_feedback response_reader::result() const noexcept {
  vendor_feedback out{.requests = requests_.result(), .tokens = tokens_.result()};
  const auto nothing_left = [](const vendor_quota& quota) { return quota.remaining == 0; };
  out.refused = status_ == 429 || says_retry_ ||
                (status_ == 403 && (nothing_left(out.requests) || nothing_left(out.tokens)));

  longest_wait wait = retry_;
  const auto add = [&](const longest_wait& other) {
    if (other.time()) wait.add(*other.time(), other.source());
  };
  const auto is_known = [&] { return wait.time() > microseconds{0}; };
  if (!is_known() || !options_.retry_after_decides) {
    add(empty_for_);
    for (const quota_tally* tally : {&requests_, &tokens_}) add(tally->empty_for());
  }
  // A 429 that gives only the window's end means that the window is used up. An end of zero would
  // not explain the refusal, so it is ignored.
  if (status_ == 429 && !is_known()) {
    for (const vendor_quota* quota : {&out.requests, &out.tokens}) {
      if (!quota->remaining && quota->reset_after > microseconds{0}) {
        wait.add(*quota->reset_after, quota->source);
      }
    }
  }
  out.blocked_for = wait.time();
  out.source = wait.source();
  return out;
}

}  // namespace
}  // namespace feedback

std::string_view to_string(feedback_source source) noexcept {
  switch (source) {
    case feedback_source::none:
      return {};
    case feedback_source::retry_after:
      return "Retry-After";
    case feedback_source::retry_after_ms:
      return "retry-after-ms";
    case feedback_source::ratelimit_field:
      return "RateLimit";
    case feedback_source::ratelimit_triple:
      return "RateLimit-*";
    case feedback_source::x_ratelimit:
      return "X-RateLimit-*";
    case feedback_source::x_rate_limit:
      return "X-Rate-Limit-*";
    case feedback_source::anthropic_ratelimit:
      return "anthropic-ratelimit-*";
    case feedback_source::x_hubspot_ratelimit:
      return "X-HubSpot-RateLimit-*";
    case feedback_source::x_api_call_limit:
      return "X-*-Api-Call-Limit";
  }
  return {};
}

vendor_feedback read_feedback(int status, std::span<const header_field> headers, time_point now,
                              const feedback_options& options) noexcept {
  return feedback::response_reader{status, headers, now, options}.read();
}

}  // namespace weir

#include <algorithm>
#include <array>

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
  void read_header(const header_field& header) noexcept;
  void read_retry(std::optional<microseconds> time, feedback_source source) noexcept;
  void read_quota(const header_meaning& meaning, std::string_view value) noexcept;
  void read_service_limits(std::string_view value) noexcept;
  void read_service_limit(structured_reader& reader, std::string_view name) noexcept;
  void add_windows() noexcept;
  vendor_feedback result() const noexcept;

  stated_window& window_of(const header_meaning& meaning) noexcept {
    const auto family = static_cast<std::size_t>(meaning.source) - first_family;
    return windows_[family][static_cast<std::size_t>(meaning.window)];
  }

  // Sources in this range have headers that name a window and a field of it.
  static constexpr auto first_family = static_cast<std::size_t>(feedback_source::ratelimit_triple);
  static constexpr auto last_family = static_cast<std::size_t>(feedback_source::x_api_call_limit);

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
  std::int64_t first;
  std::int64_t lowest;
};

/// Reads "100", or "100, 100;w=60, 5000;w=3600". Empty if the list holds anything but numbers.
std::optional<stated_numbers> read_numbers(std::string_view value) noexcept {
  if (!well_formed(value)) return std::nullopt;
  structured_reader reader{value};
  std::optional<stated_numbers> out;
  for (keyed_item member; reader.next_member(member);) {
    if (!member.key.empty() || member.item.is != bare_item::kind::number) return std::nullopt;
    const std::int64_t number = member.item.number.whole;
    if (!out) out = {number, number};
    out->lowest = std::min(out->lowest, number);
  }
  return out;
}

/// Reads "39/40", the used units and the limit, or a list of such.
void read_used(std::string_view list, vendor_quota& quota) noexcept {
  vendor_quota lowest = quota;
  const bool is_valid = read_each(list, [&](std::string_view value) {
    const auto used = take_decimal(value);
    if (!used || !value.starts_with('/')) return false;
    const auto limit = read_decimal(value.substr(1));
    if (!limit) return false;
    const std::int64_t rounded_up = used->whole + (used->nanos != 0 || used->more ? 1 : 0);
    keep_lowest(lowest.limit, {limit->whole});
    keep_lowest(lowest.remaining, {std::max<std::int64_t>(0, limit->whole - rounded_up)});
    return true;
  });
  if (is_valid) quota = lowest;
}

vendor_feedback response_reader::read() noexcept {
  read_context();
  for (const header_field& header : headers_) read_header(header);
  add_windows();
  return result();
}

// Reads the headers that others depend on (dates, ages, policies) first, wherever they are.
void response_reader::read_context() noexcept {
  for (const auto& [name, value] : headers_) {
    switch (meaning_of(name).kind) {
      case header_kind::date:
        moments_.date(value);
        break;
      case header_kind::age:
        moments_.age(value);
        break;
      case header_kind::ratelimit_policy:
        policies_.add_field(value);
        break;
      default:
        break;
    }
  }
}

void response_reader::read_header(const header_field& header) noexcept {
  const header_meaning meaning = meaning_of(header.name);
  switch (meaning.kind) {
    case header_kind::unknown:
    case header_kind::date:
    case header_kind::age:
    case header_kind::ratelimit_policy:
      return;
    case header_kind::retry_seconds:
      return read_retry(moments_.retry_seconds(header.value), meaning.source);
    case header_kind::retry_milliseconds:
      return read_retry(moments_.retry_milliseconds(header.value), meaning.source);
    default:
      break;
  }
  if (!counts_for_us()) return;
  if (meaning.kind == header_kind::ratelimit) return read_service_limits(header.value);
  read_quota(meaning, header.value);
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

void response_reader::read_quota(const header_meaning& meaning, std::string_view value) noexcept {
  stated_window& window = window_of(meaning);
  switch (meaning.kind) {
    case header_kind::limit:
      // In the drafts with a list, the first number is the limit in force; policies follow.
      if (const auto numbers = read_numbers(value)) {
        keep_lowest(window.quota.limit, {numbers->first});
      }
      return;
    case header_kind::remaining:
      if (const auto numbers = read_numbers(value)) {
        keep_lowest(window.quota.remaining, {numbers->lowest});
      }
      return;
    case header_kind::reset:
      return keep_highest(window.quota.reset_after, moments_.reset(value, options_.reset));
    case header_kind::reset_after:
      return keep_highest(window.reset_after, moments_.reset(value, reset_unit::seconds));
    case header_kind::used_of_limit:
      return read_used(value, window.quota);
    default:
      return;
  }
}

/// Reads "\"default\";r=50;t=30" (draft 08 and later) or "limit=100, remaining=50, reset=30" (07).
void response_reader::read_service_limits(std::string_view value) noexcept {
  if (!well_formed(value)) return;
  structured_reader reader{value};
  vendor_quota dictionary{.source = feedback_source::ratelimit_field};
  for (keyed_item member; reader.next_member(member);) {
    const bare_item& item = member.item;
    if (member.key.empty()) {
      if (item.is == bare_item::kind::text) read_service_limit(reader, item.text);
    } else if (item.is != bare_item::kind::number) {
      continue;
    } else if (member.key == "limit") {
      keep_lowest(dictionary.limit, {item.number.whole});
    } else if (member.key == "remaining") {
      keep_lowest(dictionary.remaining, {item.number.whole});
    } else if (member.key == "reset") {
      keep_highest(dictionary.reset_after, {times(item.number, seconds{1})});
    }
  }
  requests_.add(dictionary);
}

void response_reader::read_service_limit(structured_reader& reader,
                                         std::string_view name) noexcept {
  vendor_quota limit{.source = feedback_source::ratelimit_field};
  for (keyed_item parameter; reader.next_parameter(parameter);) {
    if (parameter.item.is != bare_item::kind::number) continue;
    if (parameter.key == "r") limit.remaining = parameter.item.number.whole;
    if (parameter.key == "t") limit.reset_after = times(parameter.item.number, seconds{1});
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

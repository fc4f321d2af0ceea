#pragma once

#include <ostream>

#include "support/response_text.hpp"
#include "support/test.hpp"

namespace weir {

inline std::ostream& operator<<(std::ostream& out, feedback_source source) {
  return out << (source == feedback_source::none ? "nobody" : to_string(source));
}

template <class T>
std::ostream& show(std::ostream& out, std::string_view name, const std::optional<T>& value) {
  out << ' ' << name << '=';
  if (!value) return out << '-';
  if constexpr (requires { value->count(); })
    return out << value->count() << "us";
  else
    return out << *value;
}

inline std::ostream& operator<<(std::ostream& out, const vendor_quota& quota) {
  out << '{' << quota.source;
  show(out, "remaining", quota.remaining);
  show(out, "limit", quota.limit);
  return show(out, "reset_after", quota.reset_after) << '}';
}

inline std::ostream& operator<<(std::ostream& out, const vendor_feedback& feedback) {
  out << (feedback.refused ? "refused" : "served");
  show(out, "blocked_for", feedback.blocked_for) << " by " << feedback.source;
  return out << " requests" << feedback.requests << " tokens" << feedback.tokens;
}

}  // namespace weir

namespace weir::test {

using namespace std::chrono_literals;
using std::chrono::microseconds;

/// The clock of tests that care: 2026-04-21 14:38:02 UTC, 1776782282 seconds since 1970.
inline constexpr time_point at_now{std::chrono::seconds{1'776'782'282}};

inline vendor_feedback read(std::string_view response, time_point now = at_now,
                            const feedback_options& options = {}) {
  const response_text parsed = read_response(response);
  return read_feedback(parsed.status, parsed.headers, now, options);
}

/// How long one header blocks a response with this status.
inline std::optional<microseconds> blocked(int status, std::string_view name,
                                           std::string_view value, time_point now = at_now,
                                           const feedback_options& options = {}) {
  const header_field header{name, value};
  return read_feedback(status, {&header, 1}, now, options).blocked_for;
}

/// What a response says that refuses, and blocks for that time because of that header.
inline vendor_feedback refused(microseconds blocked_for, feedback_source by,
                               const vendor_quota& requests = {}, const vendor_quota& tokens = {}) {
  return {true, blocked_for, by, requests, tokens};
}

struct response_row {
  std::string_view response;
  vendor_feedback expected;
};

inline void expect_rows(std::span<const response_row> rows) {
  for (const auto& [response, expected] : rows) {
    BOOST_TEST_CONTEXT(response) { BOOST_TEST(read(response) == expected); }
  }
}

}  // namespace weir::test

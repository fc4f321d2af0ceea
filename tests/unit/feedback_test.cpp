// Which headers count when, and what becomes of several.
#include "feedback_fixture.hpp"

namespace feedback_test {

using namespace weir;
using namespace weir::test;
using enum feedback_source;

constexpr std::optional<microseconds> nothing;
constexpr std::int64_t most = 9'000'000'000'000'000'000;

BOOST_AUTO_TEST_SUITE(feedback_suite)

BOOST_AUTO_TEST_CASE(a_response_that_says_nothing) {
  for (const int status : {200, 204, 304, 400, 403, 404, 500, 502, 503, 504, 0, -1, 1000,
                           std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    BOOST_TEST(read_feedback(status, {}, at_now) == vendor_feedback{}, status);
  }
  const char* const other =
      "200\nContent-Type: text/html\nRetry: 5\nX-RateLimit: 5\nX-RateLimit-: 5\n: 5\nLimit: 5";
  BOOST_TEST(read(other) == vendor_feedback{});
}

// As docs/vendor_feedback.md has it.
BOOST_AUTO_TEST_CASE(the_example_of_the_documentation) {
  const header_field headers[] = {
      {"Date", "Tue, 21 Apr 2026 14:38:02 GMT"},
      {"X-RateLimit-Remaining", "0"},
      {"X-RateLimit-Reset", "1776782312"},
  };
  const vendor_feedback expected = refused(30s, x_ratelimit, {0, {}, 30s, x_ratelimit});
  BOOST_TEST(read_feedback(429, headers, at_now + 1h) == expected);
}

// RFC 9110, 10.2.3, speaks of 503 and of 3xx, RFC 6585 of 429; GitHub sends it with 403. With 202
// it tells when to look after a job, with 3xx when to follow one redirect: neither is a reason to
// stop all other calls.
BOOST_AUTO_TEST_CASE(retry_after_counts_with_errors) {
  for (const int status : {400, 403, 404, 408, 413, 429, 499, 500, 502, 503, 504, 529, 599}) {
    const vendor_feedback expected = refused(7s, retry_after);
    BOOST_TEST(read(std::to_string(status) + "\nRetry-After: 7") == expected, status);
  }
  for (const int status : {100, 200, 201, 202, 301, 302, 307, 304, 399, 600, 0, -429}) {
    BOOST_TEST(read(std::to_string(status) + "\nRetry-After: 7\nretry-after-ms: 7000") ==
                   vendor_feedback{},
               status);
  }
}

BOOST_AUTO_TEST_CASE(a_refusal_without_a_time_is_left_to_the_caller) {
  const vendor_feedback refused{.refused = true};
  BOOST_TEST(read("429") == refused);
  BOOST_TEST(read("429\nRetry-After: soon") == refused);
  BOOST_TEST(read("429\nRetry-After: -5") == refused);
  BOOST_TEST(read("503\nRetry-After:") == refused);
  BOOST_TEST(read("403\nRetry-After: NaN") == refused);
  // Something is left, and the window goes on: nothing explains this refusal.
  const auto unexplained = read("429\nX-RateLimit-Remaining: 14\nX-RateLimit-Reset: 30");
  BOOST_TEST(unexplained.refused);
  BOOST_TEST((unexplained.blocked_for == nothing));
  // Zero is an answer, and not the same as none.
  BOOST_TEST((read("429\nRetry-After: 0").blocked_for == 0us));
}

// One page that is not there, with "Retry-After: 0" from a cache, stopped a fleet for a second.
BOOST_AUTO_TEST_CASE(an_error_to_be_tried_again_at_once_is_no_refusal) {
  for (const int status : {403, 404, 500, 503}) {
    BOOST_TEST(!read(std::to_string(status) + "\nRetry-After: 0").refused, status);
  }
  BOOST_TEST(read("404\nRetry-After: 0\nretry-after-ms: 5").refused);
  BOOST_TEST(read("429\nRetry-After: 0").refused);
}

// A fleet asked once a second, through a pause of half an hour.
BOOST_AUTO_TEST_CASE(a_time_of_zero_does_not_hide_when_the_window_ends) {
  const char* const full = "429\nRetry-After: 0\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800";
  BOOST_TEST((read(full).blocked_for == 1800s));
  BOOST_TEST((read("429\nRetry-After: 0\nX-RateLimit-Reset: 1800").blocked_for == 1800s));
  BOOST_TEST(
      (read("429\nRetry-After: 1\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800").blocked_for ==
       1s));
}

// GitHub counts callers with a bad token by their address: one such process stopped all others.
BOOST_AUTO_TEST_CASE(a_caller_that_the_vendor_does_not_know_has_counts_of_its_own) {
  const vendor_feedback said = read("401\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800");
  BOOST_TEST(said == vendor_feedback{});
  BOOST_TEST((read("401\nRetry-After: 5").blocked_for == 5s));
}

// The day's last request that was there at once stopped all others for an hour, though the next one
// may go after 86 s.
BOOST_AUTO_TEST_CASE(a_success_does_not_block_until_a_bucket_is_full_again) {
  const std::string left = "\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 24h";
  BOOST_TEST((read("200" + left).blocked_for == nothing));
  BOOST_TEST((read("200" + left).requests.reset_after == 24h));
  BOOST_TEST((read("400" + left).blocked_for == nothing));
  BOOST_TEST((read("429" + left).blocked_for == 24h));
  BOOST_TEST((read("429" + left + "\nretry-after: 86").blocked_for == 86s));
  // A quota, and no bucket (RapidAPI).
  BOOST_TEST(
      (read("200\nx-ratelimit-requests-remaining: 0\nx-ratelimit-requests-reset: 9").blocked_for ==
       9s));
  const char* const both =
      "200\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 60s\n"
      "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 9";
  BOOST_TEST((read(both).blocked_for == 9s));
}

BOOST_AUTO_TEST_CASE(forbidden_is_a_refusal_if_nothing_is_left) {
  BOOST_TEST(read("403\nX-RateLimit-Remaining: 0").refused);
  BOOST_TEST(read("403\nX-RateLimit-Remaining-Tokens: 0").refused);
  BOOST_TEST(!read("403\nX-RateLimit-Remaining: 1").refused);
  BOOST_TEST(!read("403\nX-RateLimit-Reset: 30").refused);
  BOOST_TEST(!read("404\nX-RateLimit-Remaining: 0").refused);
  BOOST_TEST(!read("200\nX-RateLimit-Remaining: 0").refused);
}

BOOST_AUTO_TEST_CASE(nothing_left_blocks_until_the_reset_with_any_status) {
  for (const int status : {200, 301, 404, 429, 500}) {
    const auto text = std::to_string(status) + "\nRateLimit-Remaining: 0\nRateLimit-Reset: 9";
    BOOST_TEST((read(text).blocked_for == 9s), status);
  }
  BOOST_TEST((read("200\nRateLimit-Remaining: 1\nRateLimit-Reset: 9").blocked_for == nothing));
  BOOST_TEST((read("200\nRateLimit-Remaining: 0").blocked_for == nothing));
  BOOST_TEST((read("200\nRateLimit-Reset: 9").blocked_for == nothing));
  // A zero of one kind, a reset of another.
  const char* const
      other = "200\nRateLimit-Remaining: 5\nX-RateLimit-Remaining: 0\nRateLimit-Reset: 9";
  BOOST_TEST((read(other).blocked_for == nothing));
  const char* const tokens = "200\nX-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Tokens: 9";
  BOOST_TEST((read(tokens).blocked_for == nothing));
  // A zero that no other header explains goes by what is said of no window in particular.
  const auto shared = read("200\nX-RateLimit-Remaining-Minute: 0\nRateLimit-Reset: 9");
  BOOST_TEST((shared.blocked_for == 9s));
  BOOST_TEST(shared.source == x_ratelimit);
}

// Part of a refusal only: on success a reset says nothing of what is left.
BOOST_AUTO_TEST_CASE(a_refusal_with_a_reset_alone_lasts_until_then) {
  BOOST_TEST((read("429\nRateLimit-Reset: 9").blocked_for == 9s));
  BOOST_TEST((read("429\nX-RateLimit-Reset-Tokens: 9s").blocked_for == 9s));
  BOOST_TEST((read("429\nRateLimit: \"a\";t=9").blocked_for == 9s));
  BOOST_TEST((read("429\nRateLimit-Reset: 9\nRetry-After: 2").blocked_for == 2s));
  BOOST_TEST((read("429\nRateLimit-Reset: 0").blocked_for == nothing));
  BOOST_TEST((read("503\nRateLimit-Reset: 9").blocked_for == nothing));
}

BOOST_AUTO_TEST_CASE(the_longest_time_and_the_least_left_win) {
  const struct {
    std::string_view response;
    microseconds expected;
    feedback_source source;
  } rows[] = {
      {"429\nRetry-After: 5\nRetry-After: 9\nRetry-After: 7", 9s, retry_after},
      {"429\nRetry-After: 5\nretry-after-ms: 5001", 5001ms, retry_after_ms},
      {"429\nRetry-After: 5\nretry-after-ms: 5000", 5s, retry_after},
      {"429\nretry-after-ms: 5000\nRetry-After: 5", 5s, retry_after},
      {"429\nRetry-After: 5\nRetry-After: bad", 5s, retry_after},
      {"429\nRetry-After: bad, 5", 5s, retry_after},
      {"429\nRetry-After: 5\nRateLimit: a;r=0;t=6", 6s, ratelimit_field},
      {"429\nRetry-After: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 6", 6s, x_ratelimit},
      {"429\nRateLimit-Remaining: 0\nRateLimit-Reset: 7\nX-RateLimit-Remaining: "
       "0\nX-RateLimit-Reset: 6",
       7s, ratelimit_triple},
      {"429\nX-RateLimit-Remaining: 0\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: "
       "6\nX-RateLimit-Reset: 8",
       8s, x_ratelimit},
      // The windows with nothing left, whichever has the least.
      {"429\nX-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 3s\n"
       "X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 5s",
       5s, x_ratelimit},
  };
  for (const auto& row : rows) {
    BOOST_TEST_CONTEXT(row.response) {
      const auto feedback = read(row.response, at_now, {.retry_after_decides = false});
      BOOST_TEST((feedback.blocked_for == row.expected));
      BOOST_TEST(feedback.source == row.source);
    }
  }
}

BOOST_AUTO_TEST_CASE(limit_and_reset_are_those_of_the_window_with_the_least_left) {
  const auto least = read(
      "200\n"
      "X-RateLimit-Limit-Second: 10\nX-RateLimit-Remaining-Second: 9\nX-RateLimit-Reset-Second: 1\n"
      "X-RateLimit-Limit-Day: 1000\nX-RateLimit-Remaining-Day: 3\nX-RateLimit-Reset-Day: 5000\n"
      "X-RateLimit-Limit-Hour: 100\nX-RateLimit-Remaining-Hour: 50\nX-RateLimit-Reset-Hour: 2000");
  BOOST_TEST(least.requests == (vendor_quota{3, 1000, 5000s, x_ratelimit}));
  // Equal ones: the one that lasts longer.
  const auto equal = read(
      "200\nX-RateLimit-Remaining-Hour: 3\nX-RateLimit-Reset-Hour: 20\n"
      "X-RateLimit-Remaining-Day: 3\nX-RateLimit-Reset-Day: 50");
  BOOST_TEST(equal.requests == (vendor_quota{3, {}, 50s, x_ratelimit}));
  // A limit that comes twice, and Reset-After, which needs no clock, beside Reset.
  const auto twice = read(
      "200\nX-RateLimit-Limit: 7\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 3\n"
      "X-RateLimit-Reset-After: 4\nX-RateLimit-Reset: 60\nX-RateLimit-Reset-After: 4.5");
  BOOST_TEST(twice.requests == (vendor_quota{3, 5, 4500ms, x_ratelimit}));
}

BOOST_AUTO_TEST_CASE(names_are_known_in_any_case_and_only_whole) {
  for (const std::string_view name : {"Retry-After", "retry-after", "RETRY-AFTER", "rEtRy-aFtEr"}) {
    BOOST_TEST((blocked(429, name, "7") == 7s), name);
  }
  for (const std::string_view name : {"Retry-After ", " Retry-After", "Retry_After", "XRetry-After",
                                      "X-Retry-After", "Retry-After-S", "Retry", ""}) {
    BOOST_TEST((blocked(429, name, "7") == nothing), name);
  }
  const auto remaining = [](std::string name) {
    const header_field header{name, "7"};
    const auto feedback = read_feedback(200, {&header, 1}, at_now);
    return feedback.requests.remaining ? feedback.requests.remaining : feedback.tokens.remaining;
  };
  for (const char* const name :
       {"RateLimit-Remaining", "x-ratelimit-remaining", "X-RateLimit-Remaining-Month",
        "X-RateLimit-Month-Remaining", "X-RATE-LIMIT-REMAINING", "X-App-Limit-24Hour-Remaining",
        "Anthropic-Ratelimit-Input-Tokens-Remaining", "x-ratelimit-remaining-project-tokens",
        "X-HubSpot-RateLimit-Daily-Remaining"}) {
    BOOST_TEST((remaining(name) == 7), name);
  }
  for (const char* const name :
       {"RateLimit-Remaining-", "RateLimit--Remaining", "X-RateLimit-Remaining-Videos",
        "X-RateLimit-Remainingminute", "X-RateLimit-Minute-Remaining-Minute",
        "X-RateLimit-Remaining-Reset", "X-RateLimit-Used", "XX-RateLimit-Remaining",
        "X-App-Limit-24hour-Remaining-Day", "anthropic-ratelimit-unified-remaining",
        "RateLimit-Remaining\n", "X-HubSpot-RateLimit-Secondly-Remaining"}) {
    BOOST_TEST((remaining(name) == std::nullopt), name);
  }
  BOOST_TEST((remaining("RateLimit-Remaining" + std::string(10'000, 'x')) == std::nullopt));
}

BOOST_AUTO_TEST_CASE(counts_are_whole_and_not_negative) {
  const struct {
    std::string_view value;
    std::int64_t count;
  } rows[] = {
      {"0", 0},
      {"59", 59},
      {" 59\t", 59},
      {"599.0", 599},
      {"0.99999999999", 0},
      {"5, 3, 4", 3},
      {"100, 100;w=60, 5000;w=3600", 100},
      {"8999999999999999999", most - 1},
      {"9000000000000000001", most},
      {"99999999999999999999999999", most},
  };
  const auto quota = [](std::string_view value) {
    const header_field headers[] = {{"X-RateLimit-Remaining", value}, {"X-RateLimit-Limit", value}};
    return read_feedback(200, headers, at_now).requests;
  };
  for (const auto& [value, count] : rows) {
    BOOST_TEST(quota(value) == (vendor_quota{count, count, {}, x_ratelimit}), value);
  }
  for (const std::string_view bad :
       {"-1", "+1", "5, -1", "5, unlimited", "5,", "a=5", "5/10", "60/minute", "unlimited", "1e3",
        "NaN", "1,000.5.", "6          ; using 50%", ""}) {
    BOOST_TEST(quota(bad) == vendor_quota{}, bad);
  }
}

BOOST_AUTO_TEST_CASE(so_much_of_so_much) {
  const auto read_used = [](std::string_view value) {
    const header_field header{"X-Shopify-Shop-Api-Call-Limit", value};
    return read_feedback(200, {&header, 1}, at_now).requests;
  };
  BOOST_TEST(read_used("32/40") == (vendor_quota{8, 40, {}, x_api_call_limit}));
  BOOST_TEST(read_used(" 0/40 ") == (vendor_quota{40, 40, {}, x_api_call_limit}));
  BOOST_TEST(read_used("41/40") == (vendor_quota{0, 40, {}, x_api_call_limit}));
  BOOST_TEST(read_used("38.5/40") == (vendor_quota{1, 40, {}, x_api_call_limit}));
  BOOST_TEST(read_used("99999999999999999999/1") == (vendor_quota{0, 1, {}, x_api_call_limit}));
  BOOST_TEST(read_used("1/99999999999999999999") ==
             (vendor_quota{most - 1, most, {}, x_api_call_limit}));
  // Both numbers are those of the same limit.
  BOOST_TEST(read_used("5/10, 39/40") == (vendor_quota{1, 40, {}, x_api_call_limit}));
  BOOST_TEST(read_used("x, 39/40") == (vendor_quota{1, 40, {}, x_api_call_limit}));
  for (const std::string_view bad :
       {"", "/", "40", "40/", "/40", "-1/40", "1/-40", "1/2/3", "1 / 40", "a/b"}) {
    BOOST_TEST(read_used(bad) == vendor_quota{}, bad);
  }
}

// What was left when the response went into the cache says nothing of now; draft 10, section 7.3.
BOOST_AUTO_TEST_CASE(of_a_response_from_a_cache_only_retry_after_counts) {
  const std::string quotas =
      "\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60\nRateLimit: a;r=0;t=60\nRateLimit-Policy: "
      "a;q=5"
      "\nX-Shopify-Shop-Api-Call-Limit: 40/40";
  BOOST_TEST(read("200\nAge: 1" + quotas) == vendor_feedback{});
  BOOST_TEST(read("429" + quotas + "\nRetry-After: 5\nAge: 1") == refused(5s, retry_after));
  for (const std::string_view fresh : {"0", "-1", "old", ""}) {
    BOOST_TEST((read("200\nAge: " + std::string(fresh) + quotas).blocked_for == 60s), fresh);
  }
  BOOST_TEST(read("200\nAge: 0\nAge: 99999999999999999999" + quotas) == vendor_feedback{});
}

BOOST_AUTO_TEST_CASE(sources_have_names) {
  for (int i = 0; i <= static_cast<int>(x_api_call_limit); ++i) {
    BOOST_TEST(to_string(static_cast<feedback_source>(i)).empty() == (i == 0), i);
  }
  BOOST_TEST(to_string(retry_after) == "Retry-After");
  BOOST_TEST(to_string(static_cast<feedback_source>(200)).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace feedback_test

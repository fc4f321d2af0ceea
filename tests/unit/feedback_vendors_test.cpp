// What vendors really send. Each row names where its headers were found.
#include "feedback_fixture.hpp"

namespace feedback_vendors_test {

using namespace weir::test;
using enum weir::feedback_source;

BOOST_AUTO_TEST_SUITE(feedback_vendors_suite)

BOOST_AUTO_TEST_CASE(vendors_that_say_retry_after) {
  const response_row rows[] = {
      // Slack: api.slack.com/docs/rate-limits.
      {"429\n"
       "Retry-After: 30",
       refused(30s, retry_after)},
      // GitHub, secondary limit: docs.github.com, "Troubleshooting the REST API": 403 or 429, and
      // no zero needed.
      {"403\n"
       "Date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "Retry-After: 60\n"
       "X-RateLimit-Limit: 5000\n"
       "X-RateLimit-Remaining: 4870\n"
       "X-RateLimit-Reset: 1776783282\n"
       "X-RateLimit-Used: 130\n"
       "X-RateLimit-Resource: core",
       refused(60s, retry_after, {4870, 5000, 1000s, x_ratelimit})},
      // Shopify: shopify.dev/docs/api/admin-rest/usage/rate-limits; the fraction from
      // zenn.dev/frog/scraps/d08e016761a4e2.
      {"429\n"
       "X-Shopify-Shop-Api-Call-Limit: 40/40\n"
       "Retry-After: 2.0",
       refused(2s, retry_after, {0, 40, {}, x_api_call_limit})},
      {"200\n"
       "X-Shopify-Shop-Api-Call-Limit: 39/40",
       {.requests = {1, 40, {}, x_api_call_limit}}},
      // Gorgias: developers.gorgias.com/reference/limitations-1.
      {"429\n"
       "Retry-after: 5\n"
       "X-Gorgias-Account-Api-Call-Limit: 10/40",
       refused(5s, retry_after, {30, 40, {}, x_api_call_limit})},
      // Azure: the names and units from @azure/core-rest-pipeline, throttlingRetryStrategy.js.
      {"429\n"
       "retry-after-ms: 1250\n"
       "Retry-After: 2",
       refused(2s, retry_after)},
      {"503\n"
       "x-ms-retry-after-ms: 250",
       refused(250ms, retry_after_ms)},
      // MailerLite: developers-classic.mailerlite.com/docs/api-rate-limits.
      {"429\n"
       "X-RateLimit-Limit: 60\n"
       "X-RateLimit-Remaining: 0\n"
       "X-RateLimit-Retry-After: 59",
       refused(59s, x_ratelimit, {0, 60, {}, x_ratelimit})},
      // HubSpot: developers.hubspot.com/docs/api/usage-details, and its changelog of 2018-11-06.
      {"200\n"
       "X-HubSpot-RateLimit-Daily: 250000\n"
       "X-HubSpot-RateLimit-Daily-Remaining: 249000\n"
       "X-HubSpot-RateLimit-Interval-Milliseconds: 10000\n"
       "X-HubSpot-RateLimit-Max: 100\n"
       "X-HubSpot-RateLimit-Remaining: 99\n"
       "X-HubSpot-RateLimit-Secondly: 10\n"
       "X-HubSpot-RateLimit-Secondly-Remaining: 9",
       {.requests = {99, 100, {}, x_hubspot_ratelimit}}},
      // Stripe: docs.stripe.com/rate-limits promises no header; how long is up to the caller.
      {"429\n"
       "Stripe-Rate-Limited-Reason: global-rate",
       {.refused = true}},
  };
  expect_rows(rows);
}

BOOST_AUTO_TEST_CASE(vendors_with_a_reset_since_1970) {
  const response_row rows[] = {
      // GitHub, a dump of a search response: KnpLabs/php-github-api, pull request 1072. Four years
      // ago: only the Date tells.
      {"200\n"
       "Date: Mon, 13 Jun 2022 11:48:53 GMT\n"
       "X-RateLimit-Limit: 30\n"
       "X-RateLimit-Remaining: 14\n"
       "X-RateLimit-Reset: 1655120964\n"
       "X-RateLimit-Used: 16",
       {.requests = {14, 30, 31s, x_ratelimit}}},
      // GitHub, primary limit: 403 and nothing left.
      {"403\n"
       "date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "x-ratelimit-limit: 60\n"
       "x-ratelimit-remaining: 0\n"
       "x-ratelimit-reset: 1776784082",
       refused(1800s, x_ratelimit, {0, 60, 1800s, x_ratelimit})},
      // GitLab: user_and_ip_rate_limits.md; the names of the IETF draft, the reset of GitHub.
      {"429\n"
       "Date: Tue, 05 Jan 2021 10:59:30 GMT\n"
       "RateLimit-Limit: 60\n"
       "RateLimit-Name: throttle_authenticated_web\n"
       "RateLimit-Observed: 67\n"
       "RateLimit-Remaining: 0\n"
       "RateLimit-Reset: 1609844400\n"
       "RateLimit-ResetTime: Tue, 05 Jan 2021 11:00:00 GMT\n"
       "Retry-After: 30",
       refused(30s, retry_after, {0, 60, 30s, ratelimit_triple})},
      // X: docs.x.com/fundamentals/rate-limits; the limits of a day from x-api-sdk-ts,
      // dist/utils/rate-limit.js.
      {"429\n"
       "Date: Tue, 16 Jan 2024 15:58:20 GMT\n"
       "x-rate-limit-limit: 900\n"
       "x-rate-limit-remaining: 847\n"
       "x-rate-limit-reset: 1705420800\n"
       "x-user-limit-24hour-limit: 100\n"
       "x-user-limit-24hour-remaining: 0\n"
       "x-user-limit-24hour-reset: 1705435200\n"
       "x-app-limit-24hour-limit: 500\n"
       "x-app-limit-24hour-remaining: 1\n"
       "x-app-limit-24hour-reset: 1705478400",
       refused(14500s, x_rate_limit, {0, 100, 14500s, x_rate_limit})},
      // Okta: oktadeveloper/okta-blog-archive, pull request 170.
      {"429\n"
       "Date: Sat, 14 Nov 2015 20:55:00 GMT\n"
       "X-Rate-Limit-Limit: 1\n"
       "X-Rate-Limit-Remaining: 0\n"
       "X-Rate-Limit-Reset: 1447534590",
       refused(90s, x_rate_limit, {0, 1, 90s, x_rate_limit})},
      // LaunchDarkly: milliseconds; its OpenAPI text. The reset is that of whichever window is
      // meant.
      {"429\n"
       "Date: Tue, 18 Aug 2026 13:54:20 GMT\n"
       "X-Ratelimit-Global-Remaining: 900\n"
       "X-Ratelimit-Route-Remaining: 0\n"
       "X-Ratelimit-Reset: 1787061262429",
       refused(2429ms, x_ratelimit, {0, {}, 2429ms, x_ratelimit})},
      // Discord: the example of its rate limit page. Reset-After needs no clock, so it counts
      // rather than Reset.
      {"429\n"
       "Retry-After: 65\n"
       "X-RateLimit-Limit: 10\n"
       "X-RateLimit-Remaining: 0\n"
       "X-RateLimit-Reset: 1470173023.123\n"
       "X-RateLimit-Reset-After: 64.57\n"
       "X-RateLimit-Bucket: abcd1234\n"
       "X-RateLimit-Scope: user",
       refused(65s, retry_after, {0, 10, 64570ms, x_ratelimit})},
  };
  expect_rows(rows);
}

BOOST_AUTO_TEST_CASE(vendors_with_a_reset_from_now) {
  const response_row rows[] = {
      // Reddit, with success and nothing left: github.com/reddit/reddit/wiki/API; "0.0" from live
      // responses of 2026.
      {"200\n"
       "x-ratelimit-used: 100\n"
       "x-ratelimit-remaining: 0.0\n"
       "x-ratelimit-reset: 40",
       {.blocked_for = 40s, .source = x_ratelimit, .requests = {0, {}, 40s, x_ratelimit}}},
      {"200\n"
       "X-Ratelimit-Used: 1\n"
       "X-Ratelimit-Remaining: 599.0\n"
       "X-Ratelimit-Reset: 480",
       {.requests = {599, {}, 480s, x_ratelimit}}},
      // Envoy, DRAFT_VERSION_03, as Lokalise sends it: the limit in force and then the policies.
      {"429\n"
       "x-envoy-ratelimited: true\n"
       "x-ratelimit-limit: 10, 10;w=1, 100;w=60;name=\"per-minute\"\n"
       "x-ratelimit-remaining: 0\n"
       "x-ratelimit-reset: 1",
       refused(1s, x_ratelimit, {0, 10, 1s, x_ratelimit})},
      // Kong: a response in a workshop on its gateway, of 2023.
      {"200\n"
       "X-RateLimit-Remaining-Minute: 2\n"
       "RateLimit-Remaining: 2\n"
       "RateLimit-Limit: 3\n"
       "RateLimit-Reset: 41\n"
       "X-RateLimit-Limit-Minute: 3",
       {.requests = {2, 3, 41s, ratelimit_triple}}},
      // pyannote: docs.pyannote.ai/ratelimits; it says no more than the end of the window when it
      // refuses.
      {"429\n"
       "Date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "X-RateLimit-Reset: 1776782320",
       refused(38s, x_ratelimit, {{}, {}, 38s, x_ratelimit})},
      // OpenAI: its guide to rate limits (spybara.com keeps the versions).
      {"200\n"
       "x-ratelimit-limit-requests: 60\n"
       "x-ratelimit-limit-tokens: 150000\n"
       "x-ratelimit-remaining-requests: 59\n"
       "x-ratelimit-remaining-tokens: 149984\n"
       "x-ratelimit-reset-requests: 1s\n"
       "x-ratelimit-reset-tokens: 6m0s",
       {.requests = {59, 60, 1s, x_ratelimit}, .tokens = {149984, 150000, 360s, x_ratelimit}}},
      // OpenAI, milliseconds: a test of the PHP client, and one more zero.
      {"429\n"
       "x-ratelimit-limit-requests: 3000\n"
       "x-ratelimit-remaining-requests: 0\n"
       "x-ratelimit-reset-requests: 20ms\n"
       "x-ratelimit-limit-tokens: 250000\n"
       "x-ratelimit-remaining-tokens: 249989\n"
       "x-ratelimit-reset-tokens: 2ms",
       refused(20ms, x_ratelimit, {0, 3000, 20ms, x_ratelimit},
               {249989, 250000, 2ms, x_ratelimit})},
      // Azure OpenAI: openai/openai-dotnet, issue 838. -1 is no number of tokens, and a window that
      // ends at once no reason to call again at once.
      {"429\n"
       "x-ratelimit-limit-tokens: -1\n"
       "x-ratelimit-remaining-tokens: -1\n"
       "x-ratelimit-reset-tokens: 0",
       {.refused = true, .tokens = {{}, {}, 0s, x_ratelimit}}},
  };
  expect_rows(rows);
}

BOOST_AUTO_TEST_CASE(vendors_with_a_reset_in_words) {
  const response_row rows[] = {
      // Anthropic: the example of its Compliance API. It adds some seconds to the reset, and asks
      // to follow retry-after.
      {"429\n"
       "date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "retry-after: 25\n"
       "anthropic-ratelimit-requests-limit: 600\n"
       "anthropic-ratelimit-requests-remaining: 0\n"
       "anthropic-ratelimit-requests-reset: 2026-04-21T14:38:25Z",
       refused(25s, retry_after, {0, 600, 23s, anthropic_ratelimit})},
      // Anthropic: docs.anthropic.com/en/api/rate-limits has these twelve names.
      {"200\n"
       "Date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "anthropic-ratelimit-requests-limit: 4000\n"
       "anthropic-ratelimit-requests-remaining: 3999\n"
       "anthropic-ratelimit-requests-reset: 2026-04-21T14:38:03Z\n"
       "anthropic-ratelimit-input-tokens-limit: 400000\n"
       "anthropic-ratelimit-input-tokens-remaining: 399000\n"
       "anthropic-ratelimit-input-tokens-reset: 2026-04-21T14:38:03Z\n"
       "anthropic-ratelimit-output-tokens-limit: 80000\n"
       "anthropic-ratelimit-output-tokens-remaining: 0\n"
       "anthropic-ratelimit-output-tokens-reset: 2026-04-21T14:39:02Z\n"
       "anthropic-ratelimit-tokens-limit: 480000\n"
       "anthropic-ratelimit-tokens-remaining: 399000\n"
       "anthropic-ratelimit-tokens-reset: 2026-04-21T14:38:03Z",
       {.requests = {3999, 4000, 1s, anthropic_ratelimit},
        .tokens = {0, 80000, 60s, anthropic_ratelimit}}},
      // Jira: jira.atlassian.com/browse/JRACLOUD-69262 gives the format, which has no seconds.
      {"429\n"
       "Date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "Retry-After: 57\n"
       "X-RateLimit-Limit: 350\n"
       "X-RateLimit-Remaining: 0\n"
       "X-RateLimit-Reset: 2026-04-21T14:39Z\n"
       "X-RateLimit-NearLimit: true",
       refused(57s, retry_after, {0, 350, 58s, x_ratelimit})},
      // Akamai: techdocs.akamai.com/msl/reference/resource-limiting.
      {"429\n"
       "Date: Tue, 21 Apr 2026 14:38:02 GMT\n"
       "X-RateLimit-Limit: 60\n"
       "X-RateLimit-Remaining: 0\n"
       "X-RateLimit-Next: 2026-04-21T14:38:12.500Z",
       refused(10500ms, x_ratelimit, {0, 60, 10500ms, x_ratelimit})},
      // lemlist: developer.lemlist.com. A date as JavaScript prints it.
      {"429\n"
       "Date: Tue, 16 Feb 2021 08:02:40 GMT\n"
       "Retry-After: 2\n"
       "X-RateLimit-Limit: 20\n"
       "X-RateLimit-Remaining: 7\n"
       "X-RateLimit-Reset: Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
       refused(2s, retry_after, {7, 20, 2s, x_ratelimit})},
  };
  expect_rows(rows);
}

BOOST_AUTO_TEST_CASE(prisjakt_counts_in_milliseconds_and_has_to_be_told_so) {
  // developer.prisjakt.nu/docs/sections/rate-limit
  constexpr std::string_view response =
      "429\n"
      "X-Rate-Limit-Limit: 10000\n"
      "X-Rate-Limit-Remaining: 0\n"
      "X-Rate-Limit-Reset: 600000";
  BOOST_TEST(
      (read(response, at_now, {.reset = weir::reset_unit::milliseconds}).blocked_for == 600s));
  BOOST_TEST((read(response).blocked_for == 600000s));
}

// A day's allowance that refills all the time: the reset is when all of it is there again,
// retry-after when the next call may go. Headers of Groq, figures of a probe of its API (1000 a
// day, one each 86.4 s).
BOOST_AUTO_TEST_CASE(retry_after_decides_where_the_reset_means_full_again) {
  constexpr std::string_view response =
      "429\n"
      "retry-after: 87\n"
      "x-ratelimit-limit-requests: 1000\n"
      "x-ratelimit-remaining-requests: 0\n"
      "x-ratelimit-reset-requests: 24h0m0s";
  const auto longest = read(response, at_now, {.retry_after_decides = false});
  BOOST_TEST((longest.blocked_for == 24h));
  BOOST_TEST(longest.source == x_ratelimit);
  // Also if another field is set: a limiter's own default was lost then.
  const auto decided = read(response, at_now, {.reset = weir::reset_unit::seconds});
  BOOST_TEST((decided.blocked_for == 87s));
  BOOST_TEST(decided.source == retry_after);
  BOOST_TEST(decided.requests == longest.requests);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace feedback_vendors_test

// Numbers, dates and durations, as they stand in headers.
#include "feedback/date_text.hpp"
#include "feedback/number_text.hpp"
#include "feedback_fixture.hpp"
#include "support/date_forms.hpp"
#include "support/random_source.hpp"

namespace feedback_times_test {

using namespace weir;
using namespace weir::test;
using namespace weir::feedback;

constexpr time_point at(int year, unsigned month, unsigned day, microseconds clock = 0us) {
  using namespace std::chrono;
  return sys_days{std::chrono::year{year} / static_cast<int>(month) / static_cast<int>(day)} +
         clock;
}

/// What a reset header says, of a response without a Date, with nothing left.
std::optional<microseconds> reset(std::string_view value, reset_unit unit = reset_unit::automatic,
                                  time_point now = at_now) {
  const header_field headers[] = {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", value}};
  return read_feedback(200, headers, now, {.reset = unit}).blocked_for;
}

constexpr std::optional<microseconds> nothing;

BOOST_AUTO_TEST_SUITE(feedback_times_suite)

BOOST_AUTO_TEST_CASE(retry_after_in_seconds) {
  const struct {
    std::string_view value;
    std::optional<microseconds> expected;
  } rows[] = {
      {"0", 0us},
      {"120", 120s},
      {"007", 7s},
      {"1.5", 1500ms},
      {"2.0", 2s},
      {"0.000001", 1us},
      // Rounded up, however little there is beyond a microsecond.
      {"0.0000001", 1us},
      {"0.0000000000000000001", 1us},
      {"1.0000000000000000000", 1s},
      {"  120\t", 120s},
      // Lists, of proxies that join equal headers.
      {"120, 120", 120s},
      {"1, 60,2", 60s},
      {",5,", 5s},
      // In the forms of a reset: read as seconds, these times would last for years.
      {"1776782342", 60s},
      {"1776782342000", 60s},
      {"1776782281", 0us},
      {"1776782342000000", 60s},
      {"1776782342000000000", 60s},
      {"2026-04-21T14:39:02Z", 60s},
      {"Tue, 21 Apr 2026 14:39:02 UTC", 60s},
      {"Tue Apr 21 2026 14:39:02 GMT+0000 (Coordinated Universal Time)", 60s},
      {"5, Tue, 21 Apr 2026 14:39:02 +0000, 7", 60s},
      {"1m30s", 90s},
      // Longer than anyone waits.
      {"315619199.9999999", longest_feedback},
      {"315619200", longest_feedback},
      {"315619201", longest_feedback},
      {"18446744073709", longest_feedback},  // below zero in 64 bits of microseconds
      {"9223372036854775807", longest_feedback},
      {"9223372036854775808", longest_feedback},
      {"999999999999999999999999999999999999999.9", longest_feedback},
      {"1,5x", 1s},
  };
  for (const auto& [value, expected] : rows) {
    BOOST_TEST_CONTEXT('"' << value << '"') {
      BOOST_TEST((blocked(429, "Retry-After", value) == expected));
    }
  }
  for (const std::string_view bad : {"",
                                     "   ",
                                     ",",
                                     "-1",
                                     "+1",
                                     "1e3",
                                     "0x10",
                                     "1.",
                                     ".5",
                                     "1.5.2",
                                     "1 000",
                                     "30 seconds",
                                     "NaN",
                                     "inf",
                                     "null",
                                     "\"30\"",
                                     "Wed, 21 Apr 2026",
                                     "Tue, 21 Apr 2026 14:39:02 CEST",
                                     "Tue, 21 Apr 2026 14:39:02 +2400",
                                     "2026-04-21T14:39:02"}) {
    BOOST_TEST((blocked(429, "Retry-After", bad) == nothing), bad);
  }
}

BOOST_AUTO_TEST_CASE(retry_after_in_milliseconds) {
  for (const std::string_view name : {"retry-after-ms", "x-ms-retry-after-ms"}) {
    BOOST_TEST((blocked(429, name, "1250") == 1250ms));
    BOOST_TEST((blocked(429, name, "0.5") == 500us));
    BOOST_TEST((blocked(429, name, "0.00001") == 1us));
    BOOST_TEST((blocked(429, name, "99999999999999999999") == longest_feedback));
    BOOST_TEST((blocked(429, name, "Tue, 21 Apr 2026 14:39:02 GMT") == nothing));
  }
}

BOOST_AUTO_TEST_CASE(retry_after_as_a_date) {
  for (const std::string_view value :
       {"Tue, 21 Apr 2026 14:39:02 GMT", "Tuesday, 21-Apr-26 14:39:02 GMT",
        "Tue Apr 21 14:39:02 2026"}) {
    BOOST_TEST((blocked(503, "Retry-After", value) == 60s), value);
    // Rounded up to the microsecond, and never below zero.
    BOOST_TEST((blocked(503, "Retry-After", value, at_now + 1us) == 60s - 1us), value);
    BOOST_TEST((blocked(503, "Retry-After", value, at_now + 60s) == 0us), value);
    BOOST_TEST((blocked(503, "Retry-After", value, at_now + 61s) == 0us), value);
  }
  // Clocks that are not set.
  const char* const value = "Tue, 21 Apr 2026 14:39:02 GMT";
  BOOST_TEST((blocked(503, "Retry-After", value, time_point::max()) == 0us));
  BOOST_TEST((blocked(503, "Retry-After", value, time_point::min()) == longest_feedback));
  BOOST_TEST((blocked(503, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT") == longest_feedback));
  BOOST_TEST((blocked(503, "Retry-After", "Sat, 01 Jan 0000 00:00:00 GMT") == 0us));
}

BOOST_AUTO_TEST_CASE(dates_are_relative_to_the_responses_own) {
  for (const char* const response : {
           // The vendor's clock is an hour ahead of ours, and then eight years behind.
           "Date: Tue, 21 Apr 2026 15:38:02 GMT\nRetry-After: Tue, 21 Apr 2026 15:38:12 GMT",
           "Retry-After: Sat, 21 Apr 2018 15:38:12 GMT\nDate: Saturday, 21-Apr-18 15:38:02 GMT",
           "Retry-After: Sat, 21 Apr 2018 15:38:12 GMT\nDate: Sat Apr 21 15:38:02 2018",
           // Our own clock, for want of a better one.
           "Date: yesterday\nRetry-After: Tue, 21 Apr 2026 14:38:12 GMT",
           // Two that differ: the earlier is on the safe side.
           "Date: Tue, 21 Apr 2026 14:38:04 GMT\nDate: Tue, 21 Apr 2026 14:38:02 GMT\n"
           "Retry-After: Tue, 21 Apr 2026 14:38:12 GMT",
           // Split at their own commas.
           "Date: Tue\nDate: 21 Apr 2026 14:38:02 GMT\nRetry-After: 5, Tue\n"
           "Retry-After: 21 Apr 2026 14:38:12 GMT",
           // A server without a clock.
           "Date: Thu, 01 Jan 1970 00:00:10 GMT\nRetry-After: Tue, 21 Apr 2026 14:38:12 GMT",
       }) {
    BOOST_TEST((read("429\n" + std::string(response)).blocked_for == 10s), response);
  }
  // Out of a cache, where it lay for four seconds.
  const char* const cached =
      "429\nAge: 4\nDate: Tue, 21 Apr 2026 14:38:02 GMT\nRetry-After: Tue, 21 Apr 2026 14:38:12 "
      "GMT";
  BOOST_TEST((read(cached).blocked_for == 6s));
}

BOOST_AUTO_TEST_CASE(http_dates) {
  const time_point now = at(2026, 4, 21);
  const time_point sunday = at(1994, 11, 6, 8h + 49min + 37s);
  const struct {
    std::string_view text;
    std::optional<time_point> expected;
  } rows[] = {
      // RFC 9110, section 5.6.7.
      {"Sun, 06 Nov 1994 08:49:37 GMT", at(1994, 11, 6, 8h + 49min + 37s)},
      {"Sunday, 06-Nov-94 08:49:37 GMT", at(1994, 11, 6, 8h + 49min + 37s)},
      {"Sun Nov  6 08:49:37 1994", at(1994, 11, 6, 8h + 49min + 37s)},
      {"Wed Nov 16 08:49:37 1994", at(1994, 11, 16, 8h + 49min + 37s)},
      // As JavaScript's Date prints it: toString() and toUTCString().
      {"Sun Nov 06 1994 08:49:37 GMT+0000 (Coordinated Universal Time)", sunday},
      {"Sun Nov 06 1994 09:49:37 GMT+0100 (Central European Standard Time)", sunday},
      {"Sun Nov 06 1994 01:19:37 GMT-0730", sunday},
      {"Sun, 06 Nov 1994 08:49:37 GMT", sunday},
      // As other servers write it.
      {"Sun, 6 Nov 1994 08:49:37 GMT", sunday},
      {"Sun, 06 Nov 1994 08:49:37 UTC", sunday},
      {"Sun, 06 Nov 1994 08:49:37 +0000", sunday},
      {"Sun, 06 Nov 1994 08:49:37 -0000", sunday},
      {"Sun, 06 Nov 1994 10:49:37 +0200", sunday},
      {"Sun, 06 Nov 1994 10:49:37 +02:00", sunday},
      {"Sun, 06 Nov 1994 08:49:37 Z", sunday},
      {"sun, 06 nov 1994 08:49:37 gmt", sunday},
      {"SUNDAY, 06-NOV-94 08:49:37 UTC", sunday},
      {"Sun 06 Nov 1994 08:49:37 GMT", sunday},
      {"Sunday, 06 Nov 1994 08:49:37 GMT", sunday},
      {"Sunday, 06-Nov-1994 08:49:37 GMT", sunday},
      {"Sunday, 6-Nov-94 08:49:37 GMT", sunday},
      {"Sun, 06-Nov-94 08:49:37 GMT", sunday},
      {"Sun, 06 Nov 94 08:49:37 GMT", sunday},
      {"Sun Nov 6 08:49:37 1994", sunday},
      {"Sun Nov 06 08:49:37 1994", sunday},
      // The end of February, and of a minute with a leap second.
      {"Thu, 29 Feb 2024 00:00:00 GMT", at(2024, 2, 29)},
      {"Thu, 29 Feb 2000 00:00:00 GMT", at(2000, 2, 29)},
      {"Wed, 29 Feb 2023 00:00:00 GMT", {}},
      {"Thu, 29 Feb 2100 00:00:00 GMT", {}},
      {"Sat, 31 Dec 2016 23:59:60 GMT", at(2017, 1, 1)},
      {"Sat, 31 Dec 2016 23:59:61 GMT", {}},
      // The day of the week is not checked, its name is.
      {"Mon, 06 Nov 1994 08:49:37 GMT", at(1994, 11, 6, 8h + 49min + 37s)},
      {"Son, 06 Nov 1994 08:49:37 GMT", {}},
      // Two digits: not more than 50 years ahead.
      {"Tuesday, 21-Apr-76 00:00:00 GMT", at(2076, 4, 21)},
      {"Tuesday, 21-Apr-76 00:00:01 GMT", at(1976, 4, 21, 1s)},
      {"Tuesday, 22-Apr-76 00:00:00 GMT", at(1976, 4, 22)},
      {"Tuesday, 01-May-76 00:00:00 GMT", at(1976, 5, 1)},
      {"Tuesday, 01-Jan-77 00:00:00 GMT", at(1977, 1, 1)},
      {"Saturday, 01-Jan-00 00:00:00 GMT", at(2000, 1, 1)},
      // Malformed.
      {"", {}},
      {"Sun, 06 Nov 1994 08:49:37", {}},
      {"Sun, 06 Nov 1994 08:49:37 GMT ", {}},
      {"Sun, 06 Nov 1994 08:49:37 GMT+1", {}},
      {"Sun, 06 Nov 1994 08:49:37 +2400", {}},
      {"Sun, 06 Nov 1994 08:49:37 +0060", {}},
      {"Sun, 06 Nov 1994 08:49:37 +00:", {}},
      {"Sun, 06 Nov 1994 08:49:37 CET", {}},
      {"06 Nov 1994 08:49:37 GMT", {}},
      {"Sun,06 Nov 1994 08:49:37 GMT", {}},
      {"Sun, 006 Nov 1994 08:49:37 GMT", {}},
      {"Sun, 06-Nov 1994 08:49:37 GMT", {}},
      {"Sun, 00 Nov 1994 08:49:37 GMT", {}},
      {"Sun, 31 Nov 1994 08:49:37 GMT", {}},
      {"Sun, 06 Nov 994 08:49:37 GMT", {}},
      {"Sun, 06 Nov 19940 08:49:37 GMT", {}},
      {"Sun, 06 Nov -994 08:49:37 GMT", {}},
      {"Sun, 06 Nov 1994 24:00:00 GMT", {}},
      {"Sun, 06 Nov 1994 08:60:00 GMT", {}},
      {"Sun, 06 Nov 1994 8:49:37 GMT", {}},
      {"Sun Nov  6 08:49:37 1994 GMT", {}},
      {"Sun Nov   6 08:49:37 1994", {}},
      {"Sun Nov 06 1994 08:49:37", {}},
      {"Sun Nov 06 1994 08:49:37 GMT+0000 (Coordinated", {}},
      {"Sun Nov 06 1994 08:49:37 GMT+0000 UTC", {}},
      {"Sun Nov 06 1994 08:49:37 GMT+0000 UTC)", {}},
  };
  for (const auto& [text, expected] : rows) {
    BOOST_TEST_CONTEXT('"' << text << '"') { BOOST_TEST((read_http_date(text, now) == expected)); }
  }
  // Late in a century, the next one is near.
  BOOST_TEST((read_http_date("Friday, 01-Jan-10 00:00:00 GMT", at(2095, 6, 1)) == at(2110, 1, 1)));
  BOOST_TEST((read_http_date("Friday, 01-Jan-94 00:00:00 GMT", at(2095, 6, 1)) == at(2094, 1, 1)));
  // A clock that was never set once made it 1926.
  BOOST_TEST(
      (read_http_date("Tuesday, 21-Apr-26 00:00:00 GMT", at(1970, 1, 1)) == at(2026, 4, 21)));
}

BOOST_AUTO_TEST_CASE(timestamps) {
  const struct {
    std::string_view text;
    std::optional<time_point> expected;
  } rows[] = {
      {"2026-04-21T14:38:25Z", at_now + 23s},
      {"2026-04-21t14:38:25z", at_now + 23s},
      {"2026-04-21T14:38:25.5Z", at_now + 23500ms},
      {"2026-04-21T14:38:25.0000001Z", at_now + 23s + 1us},
      {"2026-04-21T16:38:25+02:00", at_now + 23s},
      {"2026-04-21T07:08:25-07:30", at_now + 23s},
      {"2026-04-21T14:38:25-00:00", at_now + 23s},
      {"2026-04-21T14:39Z", at_now + 58s},
      {"2026-04-21T16:38:25+0200", at_now + 23s},
      {"2026-04-21T16:38:25.25+02", at_now + 23250ms},
      {"2026-04-21 14:38:25Z", at_now + 23s},
      {"2026-04-21 14:38:25 UTC", at_now + 23s},
      {"2026-04-21 16:38:25 +0200", at_now + 23s},
      {"2016-12-31T23:59:60Z", at(2017, 1, 1)},
  };
  for (const auto& [text, expected] : rows) {
    BOOST_TEST_CONTEXT('"' << text << '"') { BOOST_TEST((read_timestamp(text) == expected)); }
  }
  for (const std::string_view bad :
       {"", "2026-04-21", "2026-04-21T14Z", "2026-04-21T14:38:25", "2026-04-21T14:38:25,5Z",
        "2026-04-21T14:38:25.Z", "2026-04-21T14:38:250Z", "2026-04-21T14:38:5Z",
        "2026-04-21T14:38:25ZZ", "2026-04-21T14:38:25+2:00", "2026-04-21T14:38:25+020",
        "2026-04-21T14:38:25+24:00", "2026-04-21T14:38:25+00:60", "2026-02-29T14:38:25Z",
        "2026-13-01T14:38:25Z", "2026-04-21T25:38:25Z", "-026-04-21T14:38:25Z"}) {
    BOOST_TEST((read_timestamp(bad) == std::nullopt), bad);
  }
}

BOOST_AUTO_TEST_CASE(go_durations) {
  const struct {
    std::string_view text;
    std::optional<microseconds> expected;
  } rows[] = {
      {"6m0s", 6min},
      {"1s", 1s},
      {"120ms", 120ms},
      {"2m59.56s", 179560ms},
      {"1h2m3.5s", 1h + 2min + 3500ms},
      {"24h0m0s", 24h},
      {"7.66s", 7660ms},
      {"0s", 0us},
      {"15us", 15us},
      {"15\u00b5s", 15us},
      {"15\u03bcs", 15us},
      {"1001ns", 2us},
      {"1ns", 1us},
      {"0.1ns", 1us},
      {"2000ns", 2us},
      {"99999999999999999999h1s", longest_feedback},
      {"87672h1ns", longest_feedback},
  };
  for (const auto& [text, expected] : rows) {
    BOOST_TEST_CONTEXT('"' << text << '"') { BOOST_TEST((read_go_duration(text) == expected)); }
  }
  for (const std::string_view bad :
       {"", "5", "s", "-1s", "1 s", "1s ", "1.s", "1m0", "1d", "1S", "6m0sx"}) {
    BOOST_TEST((read_go_duration(bad) == nothing), bad);
  }
}

BOOST_AUTO_TEST_CASE(a_reset_is_told_by_its_size) {
  const struct {
    std::string_view value;
    std::optional<microseconds> expected;
  } rows[] = {
      {"0", 0us},
      {"30", 30s},
      {"0.98", 980ms},
      {"315619199", 315619199s},
      // Neither ten years from now, nor a time within ten years of now.
      {"315619201", nothing},
      {"1461163081", nothing},
      {"1461163082", 0us},
      {"1776782281", 0us},
      {"1776782282", 0us},
      {"1776782312", 30s},
      {"1776782312.123", 30123ms},
      {"2092401482", longest_feedback},
      {"2092401483", nothing},
      // The same in milliseconds.
      {"1461163081999", nothing},
      {"1776782282000", 0us},
      {"1776782312123", 30123ms},
      {"2092401482001", nothing},
      // In microseconds, and in nanoseconds.
      {"1461163081999999", nothing},
      {"1776782281999999", 0us},
      {"1776782312123456", 30123456us},
      {"1776782312123456.5", 30123457us},
      {"2092401482000001", nothing},
      {"1461163081999999000", nothing},
      {"1461163082000000000", 0us},
      {"1776782312123456000", 30123456us},
      {"1776782312123456001", 30123457us},
      {"2092401482000000000", longest_feedback},
      {"2092401482000000001", nothing},
      // What is no time at all.
      {"9223372036854775807", nothing},
      {"99999999999999999999", nothing},
      // Several: the longest.
      {"30, 1776782322, 7s", 40s},
      {"30, soon", 30s},
      {"soon, 30", 30s},
      {"Tue, 21 Apr 2026 14:38:32 GMT", 30s},
      {"2026-04-21T14:38:32Z", 30s},
      {"30s", 30s},
      {"-30", nothing},
      {"", nothing},
  };
  for (const auto& [value, expected] : rows) {
    BOOST_TEST_CONTEXT('"' << value << '"') { BOOST_TEST((reset(value) == expected)); }
  }
}

BOOST_AUTO_TEST_CASE(a_reset_is_what_the_caller_knows_it_to_be) {
  BOOST_TEST((reset("1776782312", reset_unit::seconds) == longest_feedback));
  BOOST_TEST((reset("600000", reset_unit::milliseconds) == 600s));
  BOOST_TEST((reset("30", reset_unit::epoch_seconds) == 0us));
  BOOST_TEST((reset("1776782312.5", reset_unit::epoch_seconds) == 30500ms));
  BOOST_TEST((reset("1776782312500", reset_unit::epoch_seconds) == longest_feedback));
  BOOST_TEST((reset("1776782312500", reset_unit::epoch_milliseconds) == 30500ms));
  BOOST_TEST((reset("1776782312", reset_unit::epoch_milliseconds) == 0us));
  for (const auto unit : {reset_unit::seconds, reset_unit::milliseconds, reset_unit::epoch_seconds,
                          reset_unit::epoch_milliseconds}) {
    BOOST_TEST((reset("99999999999999999999", unit) == longest_feedback));
    BOOST_TEST((reset("2026-04-21T14:38:32Z", unit) == 30s));
    BOOST_TEST((reset("6m0s", unit) == 6min));
  }
  // X-RateLimit-Reset-After is always in seconds, and the IETF's own field too.
  const char* const after = "200\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 2.5";
  BOOST_TEST((read(after, at_now, {.reset = reset_unit::milliseconds}).blocked_for == 2500ms));
  BOOST_TEST((read("200\nRateLimit: \"a\";r=0;t=5", at_now, {.reset = reset_unit::milliseconds})
                  .blocked_for == 5s));
}

BOOST_AUTO_TEST_CASE(each_form_of_a_second_is_that_second) {
  random_source random{run_seed(), 9};
  for (int round = 0; round < 20'000; ++round) {
    const std::int64_t second = random.between(946'684'800, 2'524'607'999);  // 2000 to 2049
    const time_point then{std::chrono::seconds{second}};
    const time_point now = then - microseconds{random.magnitude(1'000'000'000'000)};
    for (int form = 0; form < date_forms; ++form) {
      const std::string text = date_in_form(form, second);
      BOOST_TEST_REQUIRE((reset(text, reset_unit::automatic, now) == then - now),
                         "WEIR_TEST_SEED=" << run_seed() << ' ' << text);
    }
  }
}

// A byte more, less or changed is another time, or none; here nothing is thrown.
BOOST_AUTO_TEST_CASE(a_damaged_date_is_read_without_harm) {
  random_source random{run_seed(), 10};
  int absent = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int form = static_cast<int>(random.between(0, date_forms - 1));
    std::string text = date_in_form(form, random.between(946'684'800, 2'524'607'999));
    const auto place = static_cast<std::size_t>(
        random.between(0, static_cast<std::int64_t>(text.size()) - 1));
    switch (random.between(0, 2)) {
      case 0:
        text.erase(place, 1);
        break;
      case 1:
        text.insert(place, 1, static_cast<char>(random.between(0, 255)));
        break;
      default:
        text[place] = static_cast<char>(random.between(0, 255));
    }
    const auto got = reset(text);
    BOOST_TEST((!got || (*got >= 0us && *got <= longest_feedback)), text);
    absent += got ? 0 : 1;
  }
  BOOST_TEST(absent > 5'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace feedback_times_test

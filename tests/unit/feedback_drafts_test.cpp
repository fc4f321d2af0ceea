// The RateLimit fields of draft-ietf-httpapi-ratelimit-headers. Each row names its draft and where
// it stands there.
#include "feedback/structured_field.hpp"
#include "feedback_fixture.hpp"

namespace feedback_drafts_test {

using namespace weir;
using namespace weir::test;
using namespace weir::feedback;
using enum feedback_source;

/// True if a header of this one line is a list or a dictionary.
bool is_field(std::string_view text) {
  const header_field header{"RateLimit", text};
  const header_lines lines{{&header, 1}, 0};
  return well_formed(lines, field_type::list) || well_formed(lines, field_type::dictionary);
}

BOOST_AUTO_TEST_SUITE(feedback_drafts_suite)

BOOST_AUTO_TEST_CASE(the_ratelimit_fields_of_the_drafts) {
  const response_row rows[] = {
      // 10, section 4, as Cloudflare sends it:
      // developers.cloudflare.com/fundamentals/api/reference/limits.
      {"200\n"
       "Ratelimit: \"default\";r=50;t=30\n"
       "Ratelimit-Policy: \"default\";q=100;w=60",
       {.requests = {50, 100, 30s, ratelimit_field}}},
      // 10, section 6: also with a redirect.
      {"301\n"
       "Location: /foo/123\n"
       "RateLimit: \"problemPolicy\";r=0;t=10",
       {.blocked_for = 10s, .source = ratelimit_field, .requests = {0, {}, 10s, ratelimit_field}}},
      // 10, appendix B.3.1.
      {"200\n"
       "RateLimit-Policy: \"hour\";q=1000;w=3600, \"day\";q=5000;w=86400\n"
       "RateLimit: \"day\";r=100;t=36000",
       {.requests = {100, 5000, 36000s, ratelimit_field}}},
      // 10, section 3.2: a key, and a unit that is not requests.
      {"200\n"
       "RateLimit-Policy: \"peruser\";q=65535;qu=\"content-bytes\";w=10;pk=:sdfjLJUOUH==:, "
       "\"calls\";q=9\n"
       "RateLimit: \"peruser\";r=0;t=7;pk=:sdfjLJUOUH==:, \"calls\";r=5",
       {.blocked_for = 7s, .source = ratelimit_field, .requests = {5, 9, {}, ratelimit_field}}},
      // 10, appendix B.1.4: both say the same moment.
      {"429\n"
       "Date: Mon, 05 Aug 2019 09:27:00 GMT\n"
       "Retry-After: Mon, 05 Aug 2019 09:27:05 GMT\n"
       "RateLimit: \"default\";r=0;t=5",
       refused(5s, retry_after, {0, {}, 5s, ratelimit_field})},
      // Several policies: the one with the least left is told, and the longest empty one blocks.
      {"200\n"
       "RateLimit: \"burst\";r=0;t=5, \"daily\";r=900;t=40000",
       {.blocked_for = 5s, .source = ratelimit_field, .requests = {0, {}, 5s, ratelimit_field}}},
      {"200\n"
       "RateLimit: \"daily\";r=0;t=40000\n"
       "RateLimit: \"burst\";r=0;t=5",
       {.blocked_for = 40000s,
        .source = ratelimit_field,
        .requests = {0, {}, 40000s, ratelimit_field}}},
      // 07, section 3: a dictionary.
      {"200\n"
       "RateLimit-Policy: 100;w=10\n"
       "RateLimit: limit=100, remaining=50, reset=5",
       {.requests = {50, 100, 5s, ratelimit_field}}},
      {"429\n"
       "RateLimit: limit=100, remaining=0, reset=30",
       refused(30s, ratelimit_field, {0, 100, 30s, ratelimit_field})},
      // 07: only policies. The strictest is the one with the least quota.
      {"200\n"
       "RateLimit-Policy: 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400",
       {.requests = {{}, 10, {}, ratelimit_field}}},
      // 06, appendix B.2.1.
      {"200\n"
       "RateLimit-Limit: 5000\n"
       "RateLimit-Policy: 1000;w=3600, 5000;w=86400\n"
       "RateLimit-Remaining: 100\n"
       "RateLimit-Reset: 36000",
       {.requests = {100, 5000, 36000s, ratelimit_triple}}},
      // 01, section 3.1: policies behind the limit in force.
      {"200\n"
       "RateLimit-Limit: 100, 100;w=60;burst=1000;comment=\"sliding, window\", "
       "5000;w=3600;burst=0\n"
       "RateLimit-Remaining: 50\n"
       "RateLimit-Reset: 60",
       {.requests = {50, 100, 60s, ratelimit_triple}}},
  };
  expect_rows(rows);
}

BOOST_AUTO_TEST_CASE(structured_fields_are_read_to_the_end_or_not_at_all) {
  for (const std::string_view good : {
           "",
           "  ",
           "1",
           "1.5",
           "-1",
           "a",
           "A/b:c",
           "*",
           "\"a b\"",
           "\"\\\"\\\\\"",
           "\"\"",
           ":YQ==:",
           "::",
           "?0",
           "?1",
           "@1659578233",
           "1, 2",
           "1 ,\t2",
           "a;b",
           "a;b=1",
           "a; b=\"c\";d=?1",
           "a;*b.-_9=c",
           "a=1, b=2;c",
           "a=\"x\"",
           "123456789012345",
           "()",
           "( 1  \"a\";b )",
           "(1 2);c, a",
           "a=(1 2), b",
           "a;b=(1 2);c=3",
           "a;b=%\"gr%c3%bc%c3%9fe, Ina\"",
       }) {
    BOOST_TEST(is_field(good), '<' << good << '>');
  }
  for (const std::string_view bad : {
           ",",           "1,",        ",1",
           "1,,2",        "1 2",       "1;",
           "1;B",         "1;=2",      "1 ;a",
           "1;a=",        "1;a= 2",    "\"",
           "\"a",         "\"a\\",     "\"\\a\"",
           "\"\x1f\"",    "\"\x7f\"",  "\"\xc3\xa9\"",
           ":YQ==",       ":Y Q:",     "?",
           "?2",          "@",         "-",
           "1.",          ".1",        "+1",
           "--1",         "(1 2",      "a=",
           "a=,b=1",      "a= 1",      "\"a\"b",
           "1a",          "=1",        "\x01",
           "((1))",       "a;b=((1))", "a;b=(c;d=(1))",
           "%\"%C3%BC\"", "@1.5",      "1234567890123456",
       }) {
    BOOST_TEST(!is_field(bad), '<' << bad << '>');
  }
}

BOOST_AUTO_TEST_CASE(a_field_with_a_mistake_is_ignored_as_a_whole) {
  for (const std::string_view bad :
       {"\"a\";r=0;t=5, ", "\"a\";r=0;t=5, \"b", "\"a\";r=0;t=5 \"b\";r=1;t=6", "\"a\";r=0;t=5;;",
        "\"a\";r=0;t=+5", "limit=10, remaining=0, reset=5,",
        "limit=10, remaining=0, reset=5, (1)"}) {
    const header_field header{"RateLimit", bad};
    BOOST_TEST(read_feedback(429, {&header, 1}, at_now) == weir::vendor_feedback{.refused = true},
               bad);
  }
  // A header of several lines is one field, as if a proxy had joined them.
  BOOST_TEST((read("429\nRateLimit: \"a\";r=0;t=5,\nRateLimit: \"a\";r=0;t=4").blocked_for ==
              std::nullopt));
}

BOOST_AUTO_TEST_CASE(what_is_well_formed_but_means_nothing_says_nothing) {
  for (const std::string_view value :
       {"\"a\"", "\"a\";r=-1;t=5.5x", "\"a\";r=\"0\";t=\"5\"", "5;r=0;t=5", "?1;r=0;t=5",
        "\"a\";R=0", "remaining=none, reset=later", "limit=-1", "remaining", "\"a\";q=5;w=5",
        "\"a\";r=-1"}) {
    const header_field header{"RateLimit", value};
    BOOST_TEST(read_feedback(200, {&header, 1}, at_now) == weir::vendor_feedback{}, value);
  }
}

// Joined by a proxy, these gave 20,000 s: the least left of the one, the reset of the other.
BOOST_AUTO_TEST_CASE(two_dictionaries_of_draft_07_stay_apart) {
  const response_row rows[] = {
      {"429\n"
       "RateLimit: limit=100, remaining=0, reset=30\n"
       "RateLimit: limit=5000, remaining=4000, reset=20000",
       refused(30s, ratelimit_field, {0, 100, 30s, ratelimit_field})},
      {"429\n"
       "RateLimit: limit=100, remaining=0, reset=30,limit=5000, remaining=4000, reset=20000",
       refused(30s, ratelimit_field, {0, 100, 30s, ratelimit_field})},
      {"429\n"
       "RateLimit: limit=5000, remaining=4000, reset=20000, limit=100\n"
       "RateLimit: remaining=0, reset=30, policy",
       refused(30s, ratelimit_field, {0, 100, 30s, ratelimit_field})},
      // A value that is no number still belongs to its policy.
      {"429\n"
       "RateLimit: limit=100, remaining=none, reset=30, limit=50, remaining=0, reset=7",
       refused(7s, ratelimit_field, {0, 50, 7s, ratelimit_field})},
  };
  expect_rows(rows);
}

// Drafts up to 03: the limit in force has no window, and policies have one. Two numbers without a
// window are the limits of two senders, as if they stood in two lines: the lower is reached first.
BOOST_AUTO_TEST_CASE(of_several_limits_in_force_the_lowest_counts) {
  const auto limit = [](std::string_view lines) {
    return read("200\n" + std::string(lines)).requests.limit;
  };
  BOOST_TEST((limit("RateLimit-Limit: 7, 5") == 5));
  BOOST_TEST((limit("RateLimit-Limit: 7\nRateLimit-Limit: 5") == 5));
  BOOST_TEST((limit("RateLimit-Limit: 100, 50;w=1, 100;w=60") == 100));
  BOOST_TEST((limit("RateLimit-Limit: 100\nRateLimit-Limit: 50;w=1, 100;w=60") == 100));
  BOOST_TEST((limit("RateLimit-Limit: 100, 50;w=1, 90, 10;w=1") == 90));
  // No limit is named as the one in force.
  BOOST_TEST((limit("RateLimit-Limit: 5000;w=3600, 100;w=60") == 100));
  BOOST_TEST((limit("X-RateLimit-Limit: 7, 5;comment=\"w\"") == 5));
}

// One parameter that the reader did not know made the whole header count as absent.
BOOST_AUTO_TEST_CASE(values_of_any_type_are_read_past) {
  const vendor_feedback blocked{
      .blocked_for = 5s, .source = ratelimit_field, .requests = {0, 9, 5s, ratelimit_field}};
  for (const std::string_view extra :
       {"x=%\"gr%c3%bc%c3%9fe\"", "x=(1 2)", "x=(a;b \"c\");y", "x=()", "x=@1776782282", "x=-1.5",
        "x=:YQ==:", "x", "x=?0"}) {
    const std::string parameter(extra);
    const std::string list = "200\nRateLimit: \"a\";" + parameter + ";r=0;t=5\nRateLimit-Policy: ";
    BOOST_TEST(read(list + "\"a\";q=9;" + parameter) == blocked, extra);
    BOOST_TEST(read(list + "(1 2);" + parameter + ", \"a\";q=9") == blocked, extra);
    BOOST_TEST(read("200\nRateLimit: limit=9, " + parameter + ", remaining=0;" + parameter +
                    ", reset=5") == blocked,
               extra);
    BOOST_TEST((read("200\nX-RateLimit-Remaining: 7;" + parameter).requests.remaining == 7), extra);
  }
}

// The comma may be where a line ends, with or without blanks.
BOOST_AUTO_TEST_CASE(a_policy_is_known_by_its_name_up_to_a_comma) {
  for (const std::string_view lines : {"RateLimit: \"a, b\";r=3", "RateLimit: \"a,b\";r=3",
                                       "RateLimit: \"a\nRateLimit: b\";r=3"}) {
    const auto said = read("200\nRateLimit-Policy: \"c\";q=2, \"a,b\";q=7\n" + std::string(lines));
    BOOST_TEST((said.requests.limit == 7), lines);
    BOOST_TEST((said.requests.remaining == 3), lines);
  }
}

BOOST_AUTO_TEST_CASE(policies_belong_to_limits_by_name) {
  const auto limit = [](std::string_view policies, std::string_view limits) {
    const header_field headers[] = {{"RateLimit", limits}, {"RateLimit-Policy", policies}};
    return read_feedback(200, headers, at_now).requests.limit;
  };
  BOOST_TEST((limit("\"a\";q=5, \"b\";q=7", "\"b\";r=3") == 7));
  BOOST_TEST((limit("a;q=5, b;q=7", "b;r=3") == 7));
  // If several policies have that name (and other partition keys), or none has it, the lowest
  // limit counts.
  BOOST_TEST((limit("\"b\";q=8;pk=:YQ==:, \"b\";q=7;pk=:Yg==:", "\"b\";r=3") == 7));
  BOOST_TEST((limit("\"a\";q=5, \"b\";q=7", "\"c\";r=3") == 5));
  // A unit of the draft's default, spelled out; another one, whose number is no number of requests.
  BOOST_TEST((limit("\"b\";q=7;qu=\"requests\"", "\"b\";r=3") == 7));
  BOOST_TEST((limit("\"b\";q=7;qu=\"content-bytes\"", "\"b\";r=3") == std::nullopt));
  BOOST_TEST((limit("\"b\";q=7;qu=1", "\"b\";r=3") == std::nullopt));
  // Malformed.
  BOOST_TEST((limit("\"b\";q=7,", "\"b\";r=3") == std::nullopt));
  BOOST_TEST((limit("\"b\";q=-7", "\"b\";r=3") == std::nullopt));
}

BOOST_AUTO_TEST_CASE(sixteen_policies_are_remembered_and_of_more_none) {
  std::string policies;
  const auto limit = [&] {
    const header_field headers[] = {{"RateLimit-Policy", policies},
                                    {"RateLimit", "p0;r=3, p15;r=2"}};
    return read_feedback(200, headers, at_now).requests.limit;
  };
  for (int i = 0; i < 16; ++i) {
    policies += (i == 0 ? "p" : ", p") + std::to_string(i) + ";q=" + std::to_string(100 + i);
  }
  BOOST_TEST((limit() == 115));
  policies += ", p7;q=1";
  BOOST_TEST((limit() == 115));
  policies += ", p16;q=1";
  BOOST_TEST((limit() == std::nullopt));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace feedback_drafts_test

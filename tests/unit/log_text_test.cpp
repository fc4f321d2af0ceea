// Decisions as texts for logs.
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace log_text_test {

using namespace weir;
using namespace weir::test;

BOOST_AUTO_TEST_SUITE(log_text_suite)

BOOST_AUTO_TEST_CASE(a_decision_tells_its_numbers) {
  decision d{.allowed = true, .limit = 20, .used = 3, .remaining = 17, .reset_after = 30ms};
  BOOST_TEST(to_string(d) == "allowed limit=20 used=3 remaining=17 reset_after=30ms");
  d = {.limit = unlimited, .remaining = unlimited};
  BOOST_TEST(to_string(d) ==
             "refused (the cost exceeds what remains) limit=unlimited used=0 remaining=unlimited "
             "reset_after=0us");
}

BOOST_AUTO_TEST_CASE(a_refusal_says_why) {
  const std::pair<decision, std::string_view> cases[] = {
      {{.limit = 3, .used = 3}, "the limit is used up"},
      {{.limit = 3, .used = 2, .remaining = 1}, "the cost exceeds what remains"},
      {{.limit = 3, .used = 4}, "more than the limit is in use"},
      {{.tier = 1, .limit = 3, .used = 3}, "tier 1"},
      {{.cooling_down = true, .tier = 1, .limit = 3}, "a cool-down"},
      {{.source = source::fallback, .failure = error::timed_out, .limit = 3}, "the store failed"}};
  for (const auto& [d, words] : cases) {
    BOOST_TEST(to_string(d).starts_with("refused (" + std::string(words) + ") "), to_string(d));
  }
}

BOOST_AUTO_TEST_CASE(a_decision_tells_what_is_not_usual) {
  const decision d{.allowed = false,
                   .cooling_down = true,
                   .clamped = true,
                   .source = source::fallback,
                   .tier = 2,
                   .failure = error::no_reply,
                   .limit = 1,
                   .retry_after = 1500us,
                   .reset_after = 2s,
                   .delay = 1s};
  BOOST_TEST(to_string(d) ==
             "refused (the store failed) source=fallback failure=no_reply cooling_down=true "
             "clamped=true tier=2 "
             "limit=1 used=0 remaining=0 retry_after=1500us reset_after=2s delay=1s");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace log_text_test

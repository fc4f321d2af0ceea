// Callers take four times what they settle for later, and there are more of them than the limit
// bears: what is really used comes close to the limit.
#include "model/kernel_subject.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace settled_use_test {

using namespace weir;
using namespace weir::test;
using model::kernel_subject;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t taken = 4, used = 1;

struct settled_later {
  std::int64_t due;
  kernel_subject::turn turn;
};

/// How many requests passed in that time, each settled `after` it was made.
std::int64_t passed_in(const policy& p, std::chrono::microseconds time,
                       std::chrono::microseconds after) {
  kernel_subject subject(p);
  std::deque<settled_later> under_way;
  std::int64_t passed = 0;
  for (std::int64_t now = t0; now < t0 + time.count(); now += 1000) {
    for (; !under_way.empty() && under_way.front().due <= now; under_way.pop_front()) {
      subject.give_back(now, under_way.front().turn);
    }
    // Each at a time of its own: entries of one time are one.
    for (std::int64_t at = now; at < now + 1000; ++at) {
      const decision d = subject.record(at, taken);
      if (!d.allowed) break;
      ++passed;
      under_way.push_back({at + after.count(), {d, policies::tickets_of(d), taken - used}});
    }
  }
  return passed;
}

BOOST_AUTO_TEST_SUITE(settled_use_suite)

// Callers come steadily, a little more of them than the log bears: 10,000 requests come between
// each one and its refund, but in few steps.
BOOST_AUTO_TEST_CASE(a_log_is_used_to_what_the_requests_under_way_leave) {
  constexpr std::int64_t a_second = 220, between = 1'000'000 / (a_second + 10);
  constexpr std::int64_t after = 50'000'000;
  // In each window 60 s of what is used, and 50 s of what is to be given back.
  constexpr std::int64_t limit = a_second * (60 * used + 50 * (taken - used));
  constexpr std::int64_t measured_from = t0 + 90'000'000;
  constexpr std::int64_t end = measured_from + (test::is_sanitized ? 60'000'000 : 120'000'000);
  const policy logs[] = {sliding_log{.limit = limit, .window = 60s, .resolution = 400ms},
                         sliding_log{.limit = limit, .window = 60s, .resolution = 500ms}};
  for (const policy& p : logs) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      kernel_subject subject(p);
      std::deque<settled_later> under_way;
      std::int64_t passed = 0, fewest_behind = limit;
      for (std::int64_t now = t0; now < end; now += between) {
        for (; !under_way.empty() && under_way.front().due <= now; under_way.pop_front()) {
          if (now >= measured_from) {
            fewest_behind = std::min<std::int64_t>(fewest_behind, under_way.size() - 1);
          }
          subject.give_back(now, under_way.front().turn);
        }
        const decision d = subject.record(now, taken);
        if (!d.allowed) continue;
        if (now >= measured_from) ++passed;
        under_way.push_back({now + after, {d, policies::tickets_of(d), taken - used}});
      }
      const std::int64_t most = a_second * (end - measured_from) / 1'000'000;
      BOOST_TEST_MESSAGE(passed << " of " << most << ", " << fewest_behind << " behind a refund");
      BOOST_TEST(fewest_behind >= 10'000);
      BOOST_TEST(passed > most * 97 / 100);
      BOOST_TEST(passed <= most * 101 / 100);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_window_is_used_to_what_the_requests_under_way_leave) {
  struct shape {
    policy p;
    std::int64_t most;
  };
  // At the end of a fixed window nothing is left of what was under way. In a sliding one there is 1
  // s of it at all times.
  const shape windows[] = {{fixed_window{.limit = 1000, .window = 60s}, 60'000},
                           {fixed_window{1000, 60s, anchor::epoch}, 60'000},
                           {sliding_window{.limit = 1000, .window = 60s}, 60'000 * 60 / 63}};
  for (const auto& [p, most] : windows) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      const std::int64_t passed = passed_in(p, 1h, 1s);
      BOOST_TEST_MESSAGE(passed << " of " << most);
      BOOST_TEST(passed > most * 97 / 100);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settled_use_test

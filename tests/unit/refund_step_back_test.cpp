// A refund, and then a clock that steps back by less than the window. The refunded request may have
// driven out what the clock now finds again: docs/settling.md says how much passes.
#include "policy/tier_set.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace refund_step_back_test {

using namespace weir;
using namespace weir::test;
using policies::any_state;
using policies::instant;

constexpr std::int64_t second = 1'000'000, hour = 3'600 * second;
constexpr instant start = 497'222 * hour;  // of a window that is aligned to the clock

struct subject {
  explicit subject(const policy& p) : kernel(policies::compile(p)) {
    std::visit([this]<class K>(const K&) { state = typename K::state{}; }, kernel);
  }

  decision record(instant now) {
    const policies::tier<any_state> one[] = {{&kernel, &state, 1}};
    return policies::record_all<any_state>(one, now);
  }
  void refund(const decision& d, instant now) {
    const policies::tier<any_state> one[] = {{&kernel, &state, 1}};
    policies::settle_all(std::span(one), now, policies::tickets_of(d));
  }

  policies::kernel kernel;
  any_state state;
};

const policy one_an_hour[] = {fixed_window{.limit = 1, .window = 1h, .anchor = anchor::epoch},
                              fixed_window{.limit = 1, .window = 1h},
                              sliding_log{.limit = 1, .window = 1h}};

BOOST_AUTO_TEST_SUITE(refund_step_back_suite)

BOOST_AUTO_TEST_CASE(what_the_refunded_request_drove_out_passes_once_more_and_no_more) {
  for (const policy& p : one_an_hour) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      subject s(p);
      const instant first = start - hour + second, later = start + second;
      BOOST_TEST(s.record(first).allowed);
      const decision refunded = s.record(later);
      BOOST_TEST(refunded.allowed);
      s.refund(refunded, later);
      const decision d = s.record(start - second / 2);
      if (d.allowed) BOOST_TEST(d.decided_at.time_since_epoch().count() >= start);
      // The clock steps further back, and comes again.
      for (const instant now : {start - second, start - 2 * second, later, later + 10 * second}) {
        BOOST_TEST(!s.record(now).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(without_a_refund_nothing_passes) {
  for (const policy& p : one_an_hour) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      subject s(p);
      BOOST_TEST(s.record(start - hour + second).allowed);
      BOOST_TEST(s.record(start + 2 * second).allowed);
      for (const instant now : {start - second / 2, start - second, start + 3 * second}) {
        BOOST_TEST(!s.record(now).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refund_step_back_test

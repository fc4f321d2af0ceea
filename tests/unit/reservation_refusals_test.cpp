// What a refused acquire() is told when the clock is behind the state.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "policy/kernel.hpp"
#include "policy/tier_set.hpp"
#include "support/text.hpp"

namespace reservation_refusals_test {
namespace {

using namespace std::chrono_literals;
using namespace weir::policies;
using weir::decision;

constexpr instant t0 = 1'790'000'000'000'000;
constexpr span max_wait = 50'000;

const weir::policy policies_to_try[] = {
    weir::token_bucket{.capacity = 2, .refill = weir::per_second(1)},
    weir::leaky_bucket{.capacity = 3, .leak = weir::per_second(1)},
    weir::fixed_window{.limit = 2, .window = 1s},
    weir::sliding_window{.limit = 2, .window = 1s},
    weir::sliding_log{.limit = 2, .window = 1s},
};

/// A subject with one tier, or with two alike.
struct subject {
  subject(const weir::policy& p, std::size_t count) : rules(compile(p)), states(count) {
    std::visit(
        [&](const auto& k) {
          for (any_state& s : states) state_for(k, s);
        },
        rules);
    for (any_state& s : states) tiers.push_back({&rules, &s, 1});
  }

  subject(const subject&) = delete;

  decision book(instant now) { return reserve_all<any_state>(tiers, now, max_wait); }

  const kernel rules;
  std::vector<any_state> states;
  std::vector<tier<any_state>> tiers;
};

/// What a limiter says of the script's reply.
decision read_reply(const subject& s, instant now, instant turn) {
  const std::vector<std::int64_t> numbers = found_in(s.tiers, now);
  std::span<const std::int64_t> fields(numbers);
  std::vector<any_replay> replays(s.states.size());
  std::vector<tier<any_replay>> tiers;
  for (any_replay& r : replays) {
    std::visit(
        [&]<class Kernel>(const Kernel&) {
          BOOST_TEST(Kernel::restore(fields.first(Kernel::reply_width),
                                     r.emplace<typename Kernel::replay>()));
          fields = fields.subspan(Kernel::reply_width);
        },
        s.rules);
    tiers.push_back({&s.rules, &r, 1});
  }
  return reserve_at<any_replay>(tiers, request_time(now, turn), max_wait);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reservation_refusals_suite)

// decided_at was the state's time, and retry_after counted from the clock behind it: the caller
// that came at the sum of both came later than it had to.
BOOST_AUTO_TEST_CASE(a_refusal_by_a_clock_behind_the_state_counts_from_its_decided_at) {
  for (const weir::policy& p : policies_to_try) {
    for (const std::size_t tiers : {1u, 2u}) {
      BOOST_TEST_CONTEXT("policy " << p.index() << ", " << tiers << " tiers") {
        subject s(p, tiers);
        while (s.book(t0 + 300'000).allowed) {
        }
        const instant now = t0 + 200'000;  // the clock steps back
        subject before(p, tiers);
        before.states = s.states;
        const decision d = s.book(now);
        BOOST_TEST(!d.allowed);
        BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
        BOOST_TEST(d.reset_after.count() > d.retry_after.count());
        const instant turn = now + d.retry_after.count() + max_wait;
        // The script tells less of a log; the model tests compare those answers.
        if (!std::holds_alternative<weir::sliding_log>(p)) {
          const decision replayed = read_reply(before, now, turn);
          BOOST_TEST((replayed == d), weir::test::text_of(replayed) + " " + weir::test::text_of(d));
        }
        BOOST_TEST(!s.book(now + d.retry_after.count() - 1).allowed);
        BOOST_TEST(s.book(now + d.retry_after.count()).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reservation_refusals_test

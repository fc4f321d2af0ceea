// A state that has ended, or out of which all has been taken back, stays for a while: the clock may
// step back.
#include "model/kernel_subject.hpp"
#include "model/tier_script.hpp"
#include "support/redis_server.hpp"
#include "support/text.hpp"

namespace grace_test {

using namespace weir;
using namespace weir::test;
using policies::any_replay;
using policies::any_state;

constexpr std::int64_t hour = 3'600'000'000;
constexpr std::int64_t t0 = 1'790'000'000'123'456 / hour * hour;

/// One subject, in C++ and in a real server, which have to agree.
class both {
 public:
  explicit both(const policy& p) {
    asked_.kernels.push_back(policies::compile(p));
    asked_.keys.push_back("k");
    asked_.costs.push_back(1);
    std::visit([&](const auto& k) { policies::state_for(k, states_.emplace_back()); },
               asked_.kernels[0]);
  }

  decision record(std::int64_t now) {
    auto found = at_.found_by(asked_, now);
    const decision d = policies::record_all<any_state>(asked_.tiers(states_), now);
    BOOST_TEST((d == policies::record_all<any_replay>(asked_.tiers(found), now)));
    return d;
  }

  void refund(std::int64_t now, const decision& said) {
    const policies::tickets known = policies::tickets_of(said);
    at_.settlements.forget_ttl("k");
    at_.give_back(asked_, now, known);
    policies::settle_all(asked_.tiers(states_), now, known);
  }

  /// How much longer than its state the key may stay, in microseconds, beyond the grace.
  std::int64_t most_longer() const {
    return std::visit(
        []<class Kernel>(const Kernel&) {
          return policies::is_policy(Kernel::kind) ? policies::grid : 0;
        },
        asked_.kernels[0]);
  }

  std::int64_t ttl() { return at_.settlements.requested_ttl("k").value_or(-1); }
  std::int64_t ttl_at(std::int64_t now) {
    at_.settlements.set_clock(now);
    return ttl();
  }

 private:
  model::script_server at_{990};
  model::tier_script asked_;
  std::vector<any_state> states_;
};

BOOST_AUTO_TEST_SUITE(grace_suite)

// The hour was full; a refund in the next one forgot that there was a next one.
BOOST_AUTO_TEST_CASE(an_emptied_window_does_not_let_a_clock_that_steps_back_into_the_one_before) {
  const policy all[] = {fixed_window{1, 1h, anchor::epoch}, fixed_window{1, 1h},
                        sliding_window{1, 1h}, sliding_log{1, 1h}, sliding_log{1, 1h, 1min}};
  for (const policy& p : all) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      both subject(p);
      BOOST_TEST(subject.record(t0).allowed);
      // Where the second passes, the first weighs nothing any more.
      std::int64_t now = t0 + hour + 100'000;
      decision second = subject.record(now);
      if (!second.allowed) second = subject.record(now += second.retry_after.count());
      BOOST_TEST(second.allowed);
      subject.refund(now + 1, second);
      BOOST_TEST(subject.ttl() >= 1);
      const std::int64_t begin = std::holds_alternative<fixed_window>(p) &&
                                         std::get<fixed_window>(p).anchor == anchor::epoch
                                     ? t0 + hour
                                     : now;
      const std::int64_t back = begin - 1'000'000;
      const decision third = subject.record(back);
      if (!std::holds_alternative<sliding_window>(p)) {
        BOOST_TEST(third.decided_at.time_since_epoch().count() > back);
        BOOST_TEST(third.allowed);
        BOOST_TEST(!subject.record(begin + 200'000).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_refund_emptied_stays_for_two_seconds) {
  const policy all[] = {fixed_window{1, 1h, anchor::epoch},
                        fixed_window{1, 1h},
                        sliding_window{1, 1h},
                        sliding_log{1, 1h},
                        token_bucket{1, per_hour(1)},
                        gcra{per_hour(1), 1}};
  for (const policy& p : all) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      both subject(p);
      const decision d = subject.record(t0);
      BOOST_TEST(d.allowed);
      subject.refund(t0 + 1000, d);
      BOOST_TEST(subject.ttl() >= 1999);
      BOOST_TEST(subject.ttl() <= 2001 + subject.most_longer() / 1000);
      // So a clock that steps back finds it. Both halves have to say the same.
      const decision back = subject.record(t0 + 1000 - 1'000'000);
      const bool is_bucket = std::holds_alternative<token_bucket>(p) ||
                             std::holds_alternative<gcra>(p);
      BOOST_TEST(back.allowed == !is_bucket);
      if (is_bucket) BOOST_TEST((back.retry_after == 1s));
    }
  }
}

// The key was removed, and begun anew. Now that it stays, it must not keep its end.
BOOST_AUTO_TEST_CASE(an_emptied_log_of_a_clock_that_was_ahead_ends_by_the_present_clock) {
  both subject(sliding_log{1, 1h});
  const std::int64_t ahead = t0 + 365 * 24 * hour;
  const decision d = subject.record(ahead);
  subject.refund(ahead + 1000, d);
  BOOST_TEST(subject.ttl_at(t0) > hour / 1000);
  BOOST_TEST(subject.record(t0).allowed);
  BOOST_TEST(subject.ttl_at(t0) >= hour / 1000);
  BOOST_TEST(subject.ttl_at(t0) <= hour / 1000 + 2001);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace grace_test

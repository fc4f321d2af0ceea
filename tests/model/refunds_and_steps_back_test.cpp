// Requests come and are refunded, then the clock steps back by less than the policy looks back: no
// more passes than if the refunded requests had never come.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "model/kernel_subject.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"

namespace refunds_and_steps_back_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;
using model::kernel_subject;
using std::chrono::microseconds;

constexpr std::int64_t second = 1'000'000, hour = 3600 * second;
constexpr std::int64_t t0 = 1'790'000'000'123'456 / hour * hour;
constexpr int traces_wanted = test::is_sanitized ? 4'000 : 40'000;

policy random_policy(test::random_source& random) {
  const std::int64_t limit = random.between(1, 6);
  const microseconds window(random.between(8, 60));
  const rate of{random.one_in(2) ? 1 : random.between(1, 3), microseconds(random.between(3, 40))};
  switch (random.between(0, 6)) {
    case 0:
      return fixed_window{limit, window};
    case 1:
      return fixed_window{limit, window, anchor::epoch};
    case 2:
      return sliding_window{limit, window};
    case 3:
      return sliding_log{limit, window};
    // The steps end with the window.
    case 4:
      return sliding_log{limit, window.count() / 4 * 4us, window / 4};
    case 5:
      return token_bucket{limit, of};
    default:
      return leaky_bucket{limit, of};
  }
}

/// How far the policy looks back.
std::int64_t length_of(const policy& p) {
  return std::visit(
      []<class P>(const P& one) -> std::int64_t {
        if constexpr (requires { one.window; }) return one.window.count();
        if constexpr (requires { one.refill; }) {
          return one.capacity * one.refill.period.count() / one.refill.count;
        }
        if constexpr (requires { one.leak; }) {
          return one.capacity * one.leak.period.count() / one.leak.count;
        }
        return 0;
      },
      p);
}

/// One subject, and the same subject without the requests that are refunded.
class trace {
 public:
  trace(test::random_source& random, const policy& p)
      : random_(random), policy_(p), length_(length_of(p)), with_(p), without_(p) {}

  void run() {
    for (std::int64_t n = random_.between(0, 4); n > 0; --n) {
      with_.record(now_, cost());
      now_ += random_.between(0, length_);
    }
    without_ = with_;
    latest_ = now_;
    for (std::int64_t n = random_.between(1, 3); n > 0; --n) {
      come();
      if (random_.one_in(4)) step_back();
    }
    while (!refundable_.empty()) {
      move_on();
      const auto last = static_cast<std::int64_t>(refundable_.size()) - 1;
      const auto which = refundable_.begin() + random_.between(0, last);
      with_.give_back(now_, *which);
      refundable_.erase(which);
      if (random_.one_in(4)) step_back();
    }
    compare(latest_);
    for (int n = 0; n < 6; ++n) compare(latest_ - random_.between(0, length_));
  }

  std::int64_t compared = 0, differ = 0;

 private:
  std::int64_t cost() { return random_.between(1, std::min<std::int64_t>(3, with_.ceiling())); }

  void move_on() {
    now_ += random_.between(0, length_ / 2);
    latest_ = std::max(latest_, now_);
  }
  void step_back() { now_ -= random_.between(0, now_ - std::max(latest_ - length_, t0)); }

  /// A queue keeps a reservation with another one behind it, and a window one of three windows.
  std::int64_t longest_wait() const {
    if (std::holds_alternative<leaky_bucket>(policy_)) return 0;
    const bool is_log = std::holds_alternative<sliding_log>(policy_);
    return is_log || std::holds_alternative<token_bucket>(policy_) ? 2 * length_ : length_;
  }

  /// A request that is refunded later.
  void come() {
    move_on();
    const auto wait = random_.one_in(2) ? 0 : longest_wait();
    const kernel_subject::turn t = with_.book(now_, wait, cost());
    if (t.said.allowed) refundable_.push_back(t);
  }

  void compare(std::int64_t at) {
    for (std::int64_t cost = 1; cost <= with_.ceiling(); ++cost) {
      const bool passes = with_.fetch(at, cost).allowed;
      const bool would = without_.fetch(at, cost).allowed;
      ++compared;
      differ += passes != would;
      BOOST_TEST_REQUIRE((!passes || would), "cost " << cost << " passes after a step back of "
                                                     << latest_ - at << " us");
      // No reservation comes earlier either, on either way.
      kernel_subject one(with_), other(without_);
      const kernel_subject::turn t = one.book(at, 8 * length_, cost);
      const kernel_subject::turn u = other.book(at, 8 * length_, cost);
      if (!t.said.allowed || !u.said.allowed) continue;
      BOOST_TEST_REQUIRE(t.when() >= u.when());
      // And what gives it back forgets nothing.
      one.give_back(at, t);
      BOOST_TEST_REQUIRE((!one.fetch(at, cost).allowed || would));
    }
  }

  test::random_source& random_;
  const policy policy_;
  const std::int64_t length_;
  kernel_subject with_, without_;
  std::vector<kernel_subject::turn> refundable_;
  std::int64_t now_ = t0, latest_ = t0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(refunds_and_steps_back_suite)

// One of one passed in each of two windows, though the second one's clock had not left the first.
BOOST_AUTO_TEST_CASE(a_refund_behind_a_border_lets_nothing_more_pass_before_it) {
  const policy all[] = {fixed_window{1, 1h, anchor::epoch},
                        fixed_window{1, 1h},
                        sliding_window{1, 1h},
                        sliding_log{1, 1h},
                        sliding_log{1, 1h, 1s},
                        token_bucket{1, per_hour(1)},
                        leaky_bucket{1, per_hour(1)}};
  for (const policy& p : all) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      // The unit of the first is free again at the border, t0.
      const auto* fixed = std::get_if<fixed_window>(&p);
      const bool is_aligned = (fixed != nullptr && fixed->anchor == anchor::epoch) ||
                              std::holds_alternative<sliding_window>(p);
      kernel_subject subject(p);
      BOOST_TEST(subject.record(is_aligned ? t0 - second : t0 - hour).allowed);
      const std::int64_t border = std::holds_alternative<sliding_window>(p) ? t0 + hour : t0;
      const kernel_subject::turn other = subject.book(border + second, 0);
      BOOST_TEST(other.said.allowed);
      subject.give_back(border + second, other);
      const decision d = subject.record(border - second / 2);
      BOOST_TEST(!d.allowed);
      BOOST_TEST(d.reset_after.count() > 0);
      BOOST_TEST(subject.record(border - second / 2 + d.retry_after.count()).allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_more_passes_when_the_clock_steps_back_behind_refunds) {
  test::random_source random(test::run_seed(), 1310);
  std::int64_t compared = 0, differ = 0;
  for (int i = 0; i < traces_wanted; ++i) {
    const policy p = random_policy(random);
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << test::text_of(p)) {
      trace t(random, p);
      t.run();
      compared += t.compared;
      differ += t.differ;
    }
  }
  BOOST_TEST_MESSAGE(compared << " compared, " << differ << " refused more");
  BOOST_TEST(compared > 10 * traces_wanted);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refunds_and_steps_back_test

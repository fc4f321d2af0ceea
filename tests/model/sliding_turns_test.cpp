// The turns of a sliding_window, microsecond by microsecond: the formula is asked at each of them.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "model/kernel_subject.hpp"
#include "support/random_source.hpp"
#include "support/text.hpp"

namespace {

using namespace weir;
using model::kernel_subject;
using std::chrono::microseconds;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr int traces_wanted = 400;
constexpr int steps_per_trace = 60;

/// previous * (window - e) + (current + c) * window <= limit * window, of counts that are all known.
class formula {
 public:
  explicit formula(const sliding_window& p) : limit_(p.limit), window_(p.window.count()) {}

  bool holds(std::int64_t at, std::int64_t cost) const {
    const std::int64_t index = at / window_;
    return counted(index - 1) * (window_ - at % window_) + (counted(index) + cost) * window_ <=
           limit_ * window_;
  }
  std::int64_t first_time(std::int64_t from, std::int64_t cost) const {
    while (!holds(from, cost)) ++from;
    return from;
  }
  void count(std::int64_t at, std::int64_t cost) { counts_[at / window_] += cost; }

 private:
  std::int64_t counted(std::int64_t index) const {
    const auto found = counts_.find(index);
    return found == counts_.end() ? 0 : found->second;
  }

  std::int64_t limit_, window_;
  std::map<std::int64_t, std::int64_t> counts_;
};

struct request {
  std::int64_t turn, cost;
};

/// Runs `check(policy, random)` for small windows and limits.
template <class Check>
void for_small_windows(std::uint32_t stream, Check check) {
  test::random_source random(test::run_seed(), stream);
  for (int i = 0; i < traces_wanted; ++i) {
    const sliding_window p{.limit = random.between(1, 9),
                           .window = microseconds(random.between(1, 40))};
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << test::text_of(policy(p))) {
      check(p, random);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sliding_turns)

BOOST_AUTO_TEST_CASE(each_turn_is_the_first_microsecond_at_which_the_formula_holds) {
  std::int64_t ahead = 0, refused = 0;
  for_small_windows(970, [&](const sliding_window& p, test::random_source& random) {
    kernel_subject subject(p);
    formula expected(p);
    std::vector<request> taken;
    std::int64_t now = t0, last = 0;
    for (int step = 0; step < steps_per_trace; ++step) {
      if (random.one_in(2)) now += random.between(0, 2 * p.window.count());
      const std::int64_t cost = random.one_in(2) ? 1 : random.between(1, p.limit);
      const std::int64_t first = expected.first_time(std::max(now, last), cost);
      if (random.one_in(3)) {
        const decision d = subject.record(now, cost);
        BOOST_TEST(d.allowed == (first == now));
        BOOST_TEST(d.retry_after.count() == first - now);
        refused += !d.allowed;
        if (!d.allowed) continue;
      } else {
        const decision d = subject.acquire(now, 1'000'000, cost);
        BOOST_TEST(d.allowed);
        BOOST_TEST(d.delay.count() == first - now);
        ahead += first > now;
      }
      expected.count(first, cost);
      taken.push_back({first, cost});
      last = std::max(last, first);
    }
    // On a fresh state, each passes as a plain record at its turn.
    kernel_subject again(p);
    for (const request& r : taken) BOOST_TEST(again.record(r.turn, r.cost).allowed);
  });
  BOOST_TEST_MESSAGE(ahead << " ahead, " << refused << " refused");
  BOOST_TEST(ahead > traces_wanted);
  BOOST_TEST(refused > traces_wanted);
}

BOOST_AUTO_TEST_CASE(a_refused_request_is_told_when_it_would_be_booked) {
  for_small_windows(971, [&](const sliding_window& p, test::random_source& random) {
    kernel_subject subject(p);
    for (int step = 0; step < steps_per_trace; ++step) {
      const std::int64_t cost = random.between(1, p.limit);
      const decision d = subject.acquire(t0, 50, cost);
      if (d.allowed) continue;
      const std::int64_t then = t0 + d.retry_after.count();
      BOOST_TEST(!kernel_subject(subject).acquire(then - 1, 50, cost).allowed);
      BOOST_TEST(kernel_subject(subject).acquire(then, 50, cost).delay.count() == 50);
    }
  });
}

// An hour's step back would hold the turn an hour longer.
BOOST_AUTO_TEST_CASE(a_clock_that_steps_back_by_more_than_a_window_takes_the_last_turn_along) {
  for_small_windows(972, [&](const sliding_window& p, test::random_source& random) {
    kernel_subject subject(p);
    std::int64_t wait = 0;
    for (int step = 0; step < 20; ++step) {
      wait = subject.acquire(t0, 1'000'000, random.between(1, p.limit)).delay.count();
    }
    const std::int64_t earlier = t0 - 3'600'000'000;
    const decision d = subject.record(earlier);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.at.time_since_epoch().count() == earlier);
    BOOST_TEST(d.retry_after.count() >= wait);
    BOOST_TEST(d.retry_after.count() <= wait + 2 * p.window.count());
    BOOST_TEST(subject.record(earlier + d.retry_after.count()).allowed);
  });
}

// The worst there is, as the documents state it: 2 * limit - 1 in a stretch of one window.
BOOST_AUTO_TEST_CASE(a_stretch_of_one_window_holds_199_of_100_and_no_more) {
  constexpr std::int64_t window = 1'000'000, border = (t0 / window + 1) * window;
  kernel_subject subject(sliding_window{.limit = 100, .window = microseconds(window)});
  std::int64_t passed = 0;
  for (std::int64_t at = border - 1; at < border - 1 + window; ++at) {
    while (subject.record(at).allowed) ++passed;
  }
  BOOST_TEST(passed == 199);
}

BOOST_AUTO_TEST_SUITE_END()

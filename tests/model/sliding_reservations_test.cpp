// The reservations of a sliding_window, microsecond by microsecond: the formula is asked at each of
// them.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "model/kernel_subject.hpp"
#include "support/random_source.hpp"
#include "support/text.hpp"

namespace sliding_reservations_test {
namespace {

using namespace weir;
using model::kernel_subject;
using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr int traces_wanted = 400;
constexpr int steps_per_trace = 60;

/// previous * (window - e) + (current + c) * window <= limit * window, of counts that are all
/// known.
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

BOOST_AUTO_TEST_SUITE(sliding_reservations_suite)

BOOST_AUTO_TEST_CASE(each_reservation_is_the_first_microsecond_at_which_the_formula_holds) {
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
    // On a fresh state, each passes as a plain record at its time.
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

// An hour's step back would hold the reservation an hour longer.
BOOST_AUTO_TEST_CASE(
    a_clock_that_steps_back_by_more_than_a_window_takes_the_last_reservation_along) {
  for_small_windows(972, [&](const sliding_window& p, test::random_source& random) {
    kernel_subject subject(p);
    std::int64_t wait = 0;
    for (int step = 0; step < 20; ++step) {
      wait = subject.acquire(t0, 1'000'000, random.between(1, p.limit)).delay.count();
    }
    const std::int64_t earlier = t0 - 3'600'000'000;
    const decision d = subject.record(earlier);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.decided_at.time_since_epoch().count() == earlier);
    BOOST_TEST(d.retry_after.count() >= wait);
    BOOST_TEST(d.retry_after.count() <= wait + 2 * p.window.count());
    BOOST_TEST(subject.record(earlier + d.retry_after.count()).allowed);
  });
}

BOOST_AUTO_TEST_CASE(
    when_a_thousand_who_wait_leave_from_the_last_on_it_is_as_if_they_had_never_come) {
  test::random_source random(test::run_seed(), 973);
  for (const policy& p : {policy(sliding_window{.limit = 7, .window = 10s}),
                          policy(fixed_window{.limit = 7, .window = 10s}),
                          policy(fixed_window{7, 10s, anchor::epoch}),
                          policy(sliding_log{.limit = 7, .window = 10s})}) {
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed() << " " << test::text_of(p)) {
      kernel_subject subject(p);
      std::int64_t now = t0;
      for (int i = 0; i < 5; ++i) subject.record(now += random.between(0, 1'000'000));
      const kernel_subject before = subject;
      std::vector<kernel_subject::turn> waiting;
      for (int i = 0; i < 1000; ++i) {
        waiting.push_back(subject.book(now, 9'000'000'000, random.between(1, 3)));
        BOOST_TEST(waiting.back().said.allowed);
      }
      BOOST_TEST(waiting.back().said.delay.count() > 2'000'000'000);
      while (!waiting.empty()) {
        now += random.between(0, 100);
        // No request passes before one that stays.
        const std::int64_t last = waiting.back().when();
        const decision d = subject.fetch(now);
        if (last > now) BOOST_TEST(!d.allowed);
        if (last > now) BOOST_TEST(now + d.retry_after.count() >= last);
        subject.give_back(now, waiting.back());
        waiting.pop_back();
      }
      for (int cost = 1; cost < 7; ++cost) {
        BOOST_TEST((kernel_subject(before).record(now, cost) ==
                    kernel_subject(subject).record(now, cost)));
      }
    }
  }
}

// In whatever order: none that stays is overtaken, and what passes fits.
BOOST_AUTO_TEST_CASE(a_waiter_that_leaves_from_the_middle_lets_no_other_overtake) {
  for_small_windows(974, [&](const sliding_window& p, test::random_source& random) {
    kernel_subject subject(p);
    std::vector<kernel_subject::turn> waiting;
    std::vector<request> went;
    std::int64_t now = t0;
    for (int step = 0; step < 200; ++step) {
      if (random.one_in(2)) now += random.between(0, p.window.count());
      for (std::size_t i = waiting.size(); i-- > 0;) {
        if (waiting[i].when() > now) continue;
        went.push_back({waiting[i].when(), waiting[i].cost});
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
      }
      const std::int64_t cost = random.between(1, p.limit);
      if (random.one_in(3)) {
        const decision d = subject.record(now, cost);
        if (d.allowed) BOOST_TEST(waiting.empty());
        if (d.allowed) went.push_back({now, cost});
      } else if (random.one_in(2)) {
        waiting.push_back(subject.book(now, 1'000'000, cost));
      } else if (!waiting.empty()) {
        const auto who = waiting.begin() +
                         random.between(0, static_cast<std::int64_t>(waiting.size()) - 1);
        subject.give_back(now, *who);
        waiting.erase(who);
      }
    }
    std::stable_sort(went.begin(), went.end(),
                     [](const request& a, const request& b) { return a.turn < b.turn; });
    kernel_subject again(p);
    for (const request& r : went) BOOST_TEST(again.record(r.turn, r.cost).allowed);
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

}  // namespace sliding_reservations_test

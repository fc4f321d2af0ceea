#include "link/deadline_wheel.hpp"

#include <random>

#include "support/fake_check.hpp"
#include "support/test.hpp"

namespace deadline_wheel_test {

using namespace weir;
using namespace weir::test;
using weir::detail::deadline_wheel;
using time = deadline_wheel::time;

struct fixture {
  core_ptr core = make_core("r", fixed_window{.limit = 1, .window = 1s});
  deadline_wheel wheel;
  std::deque<fake_check> checks;
  const time start = time(1000h + 123456ns);

  fake_check& add(std::chrono::nanoseconds in) {
    fake_check& c = checks.emplace_back(core, "s");
    c.deadline = start + in;
    wheel.add(c);
    return c;
  }
  std::vector<const weir::detail::check*> expire(std::chrono::nanoseconds at) {
    std::vector<const weir::detail::check*> out;
    wheel.expire(start + at, [&](weir::detail::check& c) { out.push_back(&c); });
    return out;
  }
};

BOOST_FIXTURE_TEST_SUITE(deadline_wheel_suite, fixture)

BOOST_AUTO_TEST_CASE(an_empty_wheel_has_no_deadline) {
  BOOST_TEST((wheel.next() == time::max()));
  BOOST_TEST(expire(1h).empty());
}

BOOST_AUTO_TEST_CASE(a_check_expires_at_its_deadline_and_not_before) {
  const auto& c = add(500ms);
  BOOST_TEST((wheel.next() == start + 500ms));
  BOOST_TEST(expire(500ms - 1ns).empty());
  const auto due = expire(500ms);
  BOOST_TEST_REQUIRE(due.size() == 1u);
  BOOST_TEST(due[0] == &c.check());
  BOOST_TEST((wheel.next() == time::max()));
}

BOOST_AUTO_TEST_CASE(a_deadline_in_the_past_is_due_at_once) {
  add(-5s);
  BOOST_TEST((wheel.next() <= start));
  BOOST_TEST(expire(0ns).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_deadline_many_turns_away_waits_for_its_turn) {
  add(10min);
  std::size_t expired = 0;
  int wakeups = 0;
  while (expired == 0) {
    const auto at = wheel.next() - start;
    BOOST_TEST_REQUIRE((wheel.next() != time::max()));
    BOOST_TEST_REQUIRE(++wakeups < 2000);
    expired = expire(at).size();
    if (expired == 0) BOOST_TEST_REQUIRE((at < 10min));
    if (expired == 1) BOOST_TEST((at >= 10min));
  }
}

// The end of a held check sent the next one to its node, whose wheel had it then.
BOOST_AUTO_TEST_CASE(the_end_of_one_check_may_move_another_to_another_wheel) {
  add(5ms);
  auto& moved = add(5ms);
  add(5ms);
  deadline_wheel other;
  int expired = 0;
  wheel.expire(start + 5ms, [&](weir::detail::check&) {
    if (++expired > 1) return;
    deadline_wheel::remove(moved);
    other.add(moved);
  });
  BOOST_TEST(expired == 2);
  BOOST_TEST((wheel.next() == time::max()));
  BOOST_TEST((other.next() == start + 5ms));
}

BOOST_AUTO_TEST_CASE(a_deadline_about_a_turn_away_is_announced_in_time) {
  for (auto in = 1000ms + 0us; in < 1600ms; in += 250us) {
    add(1ms);
    auto& c = add(in);
    BOOST_TEST_REQUIRE(expire(1ms).size() == 1u);
    BOOST_TEST_REQUIRE((wheel.next() > start + 1ms && wheel.next() <= start + in));
    deadline_wheel::remove(c);
    expire(1h);
  }
}

// A machine that was asleep: one look at each slot is enough, however long it was.
BOOST_AUTO_TEST_CASE(a_pause_of_years_takes_no_longer_than_a_turn) {
  add(1ms);
  BOOST_TEST(expire(1'000'000h).size() == 1u);
}

BOOST_AUTO_TEST_CASE(after_a_long_pause_everything_due_expires_at_once) {
  for (int i = 0; i < 3000; ++i) add(i * 1ms);
  add(2h);
  BOOST_TEST(expire(1h).size() == 3000u);
}

BOOST_AUTO_TEST_CASE(random_traces_agree_with_a_sorted_list) {
  const unsigned seed = std::random_device{}();
  BOOST_TEST_CONTEXT("seed " << seed) {
    std::mt19937 random(seed);
    std::vector<fake_check*> live;
    std::chrono::nanoseconds now{0};
    for (int step = 0; step < 20'000; ++step) {
      const auto in = std::chrono::microseconds(random() % 3'000'000);
      live.push_back(&add(now + in));
      if (random() % 4 == 0 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        deadline_wheel::remove(*live.back());
        live.pop_back();
      }
      if (random() % 3 != 0) continue;
      // Time moves to the announced deadline, or beside it.
      const auto earliest = std::min_element(
          live.begin(), live.end(), [](auto* a, auto* b) { return a->deadline < b->deadline; });
      if (earliest != live.end()) BOOST_TEST_REQUIRE((wheel.next() <= (*earliest)->deadline));
      now += std::chrono::microseconds(random() % 20'000);
      const auto due = expire(now);
      const auto split = std::partition(live.begin(), live.end(),
                                        [&](auto* c) { return c->deadline > start + now; });
      BOOST_TEST_REQUIRE(due.size() == static_cast<std::size_t>(live.end() - split));
      live.erase(split, live.end());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace deadline_wheel_test

#pragma once

#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "support/fake_check.hpp"
#include "support/run.hpp"
#include "waiting/reservation_queue.hpp"

namespace weir::test {

using namespace std::chrono_literals;

using numbers = std::vector<std::size_t>;

inline constexpr std::size_t nobody = static_cast<std::size_t>(-1);

/// A subject's line, with callers that the test makes, a store that the test plays, and the test's
/// clock. Callers and asks are numbered as they come, from zero.
class line_stage {
 public:
  struct manner {
    std::size_t max_waiting = 100;
    weir::on_overflow overflow = weir::on_overflow::refuse_new;
    std::chrono::microseconds priority_aging = 1s;
    std::chrono::microseconds retry_interval = 250ms;
  };

  explicit line_stage(const manner& m)
      : line(std::make_unique<waiting::reservation_queue>(
            waiting::queue_rules{m.max_waiting, m.overflow, m.priority_aging, m.retry_interval})),
        core_(make_core("r", token_bucket{100, per_second(1)})) {}

  ~line_stage() {
    detail::check_list rest;
    line->abandon(rest);
    rest.clear();
  }

  std::size_t arrive(std::int32_t priority = 0, std::chrono::microseconds max_wait = 10s,
                     std::int64_t cost = 1) {
    fake_check& c = callers.emplace_back(core_, "a", cost, detail::check_kind::acquire);
    auto& asked = detail::as<detail::acquire_request>(c);
    asked.priority = priority;
    asked.max_wait = max_wait;
    waiting::orders o;
    line->arrive(c, callers.size(), now, o);
    note(o);
    return callers.size() - 1;
  }

  void leave(std::size_t who, detail::cancel_scope scope = detail::cancel_scope::any) {
    BOOST_REQUIRE(waits(who));
    waiting::orders o;
    line->leave(callers[who], scope, now, o);
    note(o);
  }

  /// The store is done with an ask.
  void answer(std::size_t which, const decision& d, error_code ec = {}) {
    waiting::reservation_request& a = *asks.at(which);
    a.answer = d;
    a.ec = ec;
    waiting::orders o;
    line->answered(a, now, o);
    note(o);
  }
  void fail(std::size_t which, error_code ec) { answer(which, {}, ec); }
  void turn_in(std::size_t which, std::chrono::microseconds delay) {
    decision d;
    d.allowed = true;
    d.decided_at = clock();
    d.delay = delay;
    d.reset_after = delay + 1s;
    answer(which, d);
  }
  /// Everybody has a turn, a second apart, the first in a second.
  void give_turns() {
    const std::size_t n = asks.size();
    for (std::size_t i = 0; i < n; ++i) turn_in(i, 1s * (i + 1));
  }
  void refuse(std::size_t which, std::chrono::microseconds retry_after) {
    decision d;
    d.decided_at = clock();
    d.retry_after = retry_after;
    d.reset_after = retry_after + 1s;
    answer(which, d);
  }

  void hold(std::chrono::microseconds pause) {
    waiting::orders o;
    line->cool_down(now + pause, now, o);
    note(o);
  }

  /// Lets time go by, and wakes the line whenever it wants to be.
  void wait(std::chrono::microseconds span) {
    const auto end = now + span;
    while (line->wakeup() <= end) {
      BOOST_REQUIRE((line->wakeup() > now || line->wakeup() == end));
      now = std::max(now, line->wakeup());
      waiting::orders o;
      line->on_time(now, o);
      note(o);
    }
    now = end;
  }

  bool waits(std::size_t who) const { return callers.at(who).place != nullptr; }
  /// Those told since the last time this was asked.
  numbers told() { return std::exchange(told_, {}); }
  /// For whom something was asked since then.
  numbers asked() { return std::exchange(asked_, {}); }
  /// Which asks were cancelled, and which turns given back, since then.
  numbers cancelled() { return std::exchange(cancelled_, {}); }
  numbers returned() { return std::exchange(returned_, {}); }
  detail::cancel_scope last_scope{};

  const decision& answer_of(std::size_t who) const { return callers.at(who).answer; }
  error_code error_of(std::size_t who) const { return callers.at(who).ec; }
  /// The store's clock.
  time_point clock() const {
    return time_point(
        1'000'000s + std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()));
  }

  waiting::reservation_queue::time now{};
  std::unique_ptr<waiting::reservation_queue> line;
  std::deque<fake_check> callers;
  std::vector<waiting::request_ptr> asks;

 private:
  std::size_t number_of(const waiting::request_ptr& a) const {
    return static_cast<std::size_t>(std::find(asks.begin(), asks.end(), a) - asks.begin());
  }
  std::size_t number_of(const detail::check& c) const {
    std::size_t n = 0;
    while (&callers.at(n).check() != &c) ++n;
    return n;
  }

  void note(waiting::orders& o) {
    for (auto& a : o.starts) {
      asked_.push_back(a->owner == nullptr ? nobody : number_of(*a->owner->caller));
      asks.push_back(std::move(a));
    }
    for (const auto& [a, scope] : o.cancels) {
      cancelled_.push_back(number_of(a));
      last_scope = scope;
    }
    for (const auto& a : o.returns) returned_.push_back(number_of(a));
    while (!o.told.empty()) {
      detail::check& c = o.told.front();
      o.told.pop_front();
      told_.push_back(number_of(c));
      BOOST_TEST(c.place == nullptr);
    }
  }

  core_ptr core_;
  numbers told_, asked_, cancelled_, returned_;
};

}  // namespace weir::test

/// What lists of numbers are compared with.
#define WEIR_TEST_NUMBERS(actual, ...)                                         \
  do {                                                                         \
    const ::weir::test::numbers weir_is = (actual), weir_wanted = __VA_ARGS__; \
    BOOST_TEST(weir_is == weir_wanted, boost::test_tools::per_element());      \
  } while (false)

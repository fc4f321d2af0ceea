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
/// clock. Callers and requests are numbered as they come, from zero.
class queue_stage {
 public:
  struct manner {
    std::size_t max_waiting = 100;
    weir::on_overflow overflow = weir::on_overflow::refuse_new;
    std::chrono::microseconds priority_aging = 1s;
    std::chrono::microseconds retry_interval = 250ms;
    std::chrono::microseconds same_end = 100ms;
  };

  explicit queue_stage(const manner& m)
      : queue(std::make_unique<waiting::reservation_queue>(waiting::queue_rules{
            m.max_waiting, m.overflow, m.priority_aging, m.retry_interval, m.same_end})),
        core_(make_core("r", token_bucket{100, per_second(1)})) {}

  ~queue_stage() {
    waiting::orders rest;
    queue->abandon(rest);
    rest.told.clear();
  }

  std::size_t arrive(std::int32_t priority = 0, std::chrono::microseconds max_wait = 10s,
                     std::int64_t cost = 1) {
    fake_check& c = callers.emplace_back(core_, "a", cost, detail::check_kind::acquire);
    auto& asked = detail::as<detail::acquire_request>(c);
    asked.priority = priority;
    asked.max_wait = max_wait;
    waiting::orders out;
    queue->arrive(c, callers.size(), now, out);
    note(out);
    return callers.size() - 1;
  }

  void leave(std::size_t who, detail::cancel_scope scope = detail::cancel_scope::any) {
    BOOST_REQUIRE(waits(who));
    waiting::orders out;
    queue->leave(callers[who], scope, now, out);
    note(out);
  }

  /// While the store is busy, requests are made, but not started.
  bool store_is_busy = false;
  void start_requests() {
    for (; unstarted_ > 0; --unstarted_) queue->started();
  }

  /// The store is done with an ask.
  void answer(std::size_t which, const decision& d, error_code ec = {}) {
    waiting::reservation_request& a = *requests.at(which);
    a.answer = d;
    a.ec = ec;
    waiting::orders out;
    queue->answered(a, now, out);
    note(out);
  }
  void fail(std::size_t which, error_code ec) { answer(which, {}, ec); }
  void book_in(std::size_t which, std::chrono::microseconds delay) {
    decision d;
    d.allowed = true;
    d.decided_at = clock();
    d.delay = delay;
    d.reset_after = delay + 1s;
    answer(which, d);
  }
  /// Everybody has a turn, a second apart, the first in a second.
  void reserve_all() {
    const std::size_t n = requests.size();
    for (std::size_t i = 0; i < n; ++i) book_in(i, 1s * (i + 1));
  }
  void refuse(std::size_t which, std::chrono::microseconds retry_after) {
    decision d;
    d.decided_at = clock();
    d.retry_after = retry_after;
    d.reset_after = retry_after + 1s;
    answer(which, d);
  }

  void cool_down(std::chrono::microseconds pause) {
    waiting::orders out;
    queue->cool_down(now + pause, now, out);
    note(out);
  }

  /// Lets time go by, and wakes the line whenever it wants to be.
  void wait(std::chrono::microseconds span) {
    const auto end = now + span;
    while (queue->wakeup() <= end) {
      BOOST_REQUIRE((queue->wakeup() > now || queue->wakeup() == end));
      now = std::max(now, queue->wakeup());
      waiting::orders out;
      queue->on_time(now, out);
      note(out);
    }
    now = end;
  }

  bool waits(std::size_t who) const { return callers.at(who).queued != nullptr; }
  /// The callers that were told since the last time.
  numbers told() { return std::exchange(told_, {}); }
  /// The callers for which something was requested since the last time.
  numbers requested() { return std::exchange(requested_, {}); }
  /// Which requests were cancelled, and which turns given back, since then.
  numbers cancelled() { return std::exchange(cancelled_, {}); }
  numbers returned() { return std::exchange(returned_, {}); }

  const decision& answer_of(std::size_t who) const { return callers.at(who).answer; }
  error_code error_of(std::size_t who) const { return callers.at(who).ec; }
  /// The store's clock.
  time_point clock() const {
    return time_point(
        1'000'000s + std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()));
  }

  waiting::reservation_queue::time now{};
  std::unique_ptr<waiting::reservation_queue> queue;
  std::deque<fake_check> callers;
  std::vector<waiting::request_ptr> requests;

 private:
  std::size_t number_of(const waiting::request_ptr& a) const {
    return static_cast<std::size_t>(std::find(requests.begin(), requests.end(), a) -
                                    requests.begin());
  }
  std::size_t number_of(const detail::check& c) const {
    std::size_t n = 0;
    while (&callers.at(n).check() != &c) ++n;
    return n;
  }

  void note(waiting::orders& out) {
    for (auto& a : out.starts) {
      requested_.push_back(a->owner == nullptr ? nobody : number_of(*a->owner->caller));
      requests.push_back(std::move(a));
      ++unstarted_;
    }
    if (!store_is_busy) start_requests();
    for (const auto& [a, scope] : out.cancels) cancelled_.push_back(number_of(a));
    for (const auto& [a, caller] : out.returns) returned_.push_back(number_of(a));
    while (!out.told.empty()) {
      detail::check& c = out.told.front();
      out.told.pop_front();
      told_.push_back(number_of(c));
      BOOST_TEST(c.flight.queued == nullptr);
    }
  }

  core_ptr core_;
  int unstarted_ = 0;
  numbers told_, requested_, cancelled_, returned_;
};

}  // namespace weir::test

/// What lists of numbers are compared with.
#define WEIR_TEST_NUMBERS(actual, ...)                                         \
  do {                                                                         \
    const ::weir::test::numbers weir_is = (actual), weir_wanted = __VA_ARGS__; \
    BOOST_TEST(weir_is == weir_wanted, boost::test_tools::per_element());      \
  } while (false)

#pragma once

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "support/fake_check.hpp"
#include "support/run.hpp"
#include "waiting/waiter_line.hpp"

namespace weir::test {

using namespace std::chrono_literals;

using numbers = std::vector<std::size_t>;

/// A subject's line, with callers that the test makes, a room and a store that the test plays, and
/// the test's clock. Callers and requests are numbered as they come, from zero.
class line_stage {
 public:
  struct manner {
    std::size_t max_waiting = 100;
    weir::on_overflow overflow = weir::on_overflow::refuse_new;
    std::chrono::microseconds priority_aging = 1s;
    std::chrono::microseconds retry_interval = 250ms;
    std::chrono::microseconds same_end = 100ms;
  };
  /// What the store was asked.
  struct request {
    fake_check* asked;  // that of a caller, or its stand-in
    std::size_t caller;
    std::chrono::microseconds max_wait;
    waiting::waiter_line::time asked_at;
    std::chrono::microseconds cool_down_left{0};  // which the answer will name
  };

  explicit line_stage(const manner& m)
      : line(std::make_unique<waiting::waiter_line>(
            waiting::line_rules{m.max_waiting, m.overflow, m.priority_aging, m.retry_interval,
                                m.same_end},
            waiting::answers_due{})),
        core_(make_core("r", token_bucket{100, per_second(1)})) {}

  ~line_stage() {
    waiting::orders rest;
    line->abandon(rest);
    rest.completed.clear();
  }

  std::size_t arrive(std::int32_t priority = 0, std::chrono::microseconds max_wait = 10s,
                     std::int64_t cost = 1) {
    fake_check& c = callers.emplace_back(core_, "a", cost, detail::check_kind::acquire);
    auto& asked = detail::as<detail::acquire_request>(c);
    asked.priority = priority;
    asked.max_wait = max_wait;
    last_arrival_ = std::max(last_arrival_ + 1,
                             static_cast<std::uint64_t>(now.time_since_epoch().count()));
    with_line([&](waiting::orders& out) { line->arrive(c, last_arrival_, now, out); });
    return callers.size() - 1;
  }

  void leave(std::size_t who, detail::cancel_scope scope = detail::cancel_scope::any) {
    BOOST_REQUIRE(waits(who));
    fake_check& c = callers[who];
    detail::room_note& noted = c.check().flight.room;
    if (noted.place == detail::room_note::at_store) return leave_store(who, scope);
    if (noted.place == detail::room_note::held) --unstarted_;
    with_line([&](waiting::orders& out) { line->leave(c, scope, now, out); });
  }

  /// While the store is busy, checks are held, and not started.
  bool store_is_busy = false;
  void start_requests() {
    for (; unstarted_ > 0; --unstarted_) line->started();
    for (const request& r : requests) {
      detail::room_note& noted = r.asked->check().flight.room;
      if (noted.place == detail::room_note::held) noted.place = detail::room_note::at_store;
    }
  }

  /// The store is done with a request.
  void answer(std::size_t which, const decision& d, error_code ec = {}) {
    const request& r = requests.at(which);
    detail::check& c = *r.asked;
    c.answer = d;
    c.answer.receipt.id = which + 1;
    c.ec = ec;
    c.flight.stage = detail::check_stage::done;
    detail::as<detail::acquire_request>(c).cool_down_left = r.cool_down_left;
    with_line([&](waiting::orders& out) { line->answered(c, {}, now, out); });
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
    with_line([&](waiting::orders& out) { line->cool_down(now + pause, now, out); });
  }
  void close() {
    with_line([&](waiting::orders& out) { line->close(out); });
  }

  /// Lets time go by, and wakes the line whenever it wants to be.
  void wait(std::chrono::microseconds span) {
    const auto end = now + span;
    while (line->wakeup() <= end) {
      BOOST_REQUIRE((line->wakeup() > now || line->wakeup() == end));
      now = std::max(now, line->wakeup());
      with_line([&](waiting::orders& out) { line->on_time(now, out); });
    }
    now = end;
  }

  bool waits(std::size_t who) const { return callers.at(who).is_in_room(); }
  /// True if the caller's check is about to be started.
  bool is_held(std::size_t who) const {
    return callers.at(who).check().flight.room.place == detail::room_note::held;
  }
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

  waiting::waiter_line::time now{};
  std::unique_ptr<waiting::waiter_line> line;
  std::deque<fake_check> callers;
  std::vector<request> requests;

 private:
  /// A caller cancels a check that is at the store, which was sent.
  void leave_store(std::size_t who, detail::cancel_scope scope) {
    fake_check& c = callers[who];
    detail::in_flight& flight = c.check().flight;
    request& last = *std::find_if(requests.rbegin(), requests.rend(),
                                  [&](const request& r) { return r.asked == &c; });
    cancelled_.push_back(static_cast<std::size_t>(&last - requests.data()));
    const bool ends = scope == detail::cancel_scope::any;
    flight.room.wish = ends ? detail::room_note::leaves : detail::room_note::leaves_if_unsent;
    if (!ends) return;
    fake_check& other = stand_ins_.emplace_back(core_, "a", c.check().units, c.kind);
    other.check().flight.is_detached = true;
    other.check().flight.sent = last.asked_at;
    detail::as<detail::acquire_request>(other) = detail::as<detail::acquire_request>(c.check());
    last.asked = &other;
    flight.left_stand_in = true;
    c.ec = boost::asio::error::operation_aborted;
    with_line([&](waiting::orders& out) { line->answered(c, {}, now, out); });
  }

  std::size_t number_of(const fake_check& c) const {
    std::size_t n = 0;
    while (&callers.at(n) != &c) ++n;
    return n;
  }

  template <class Event>
  void with_line(Event event) {
    waiting::orders out;
    event(out);
    for (; !out.starts.empty(); ++unstarted_) {
      fake_check& c = fake_check::of(out.starts.front());
      out.starts.pop_front();
      requested_.push_back(number_of(c));
      requests.push_back(
          {&c, requested_.back(), detail::as<detail::acquire_request>(c.check()).max_wait, now});
    }
    if (!store_is_busy) start_requests();
    for (const auto& one : out.returns) {
      returned_.push_back(static_cast<std::size_t>(one.held.answer.receipt.id - 1));
    }
    while (!out.completed.empty()) {
      fake_check& c = fake_check::of(out.completed.front());
      out.completed.pop_front();
      told_.push_back(number_of(c));
      BOOST_TEST(!c.is_in_room());
    }
  }

  core_ptr core_;
  int unstarted_ = 0;
  std::uint64_t last_arrival_ = 0;
  std::deque<fake_check> stand_ins_;
  numbers told_, requested_, cancelled_, returned_;
};

}  // namespace weir::test

/// What lists of numbers are compared with.
#define WEIR_TEST_NUMBERS(actual, ...)                                         \
  do {                                                                         \
    const ::weir::test::numbers weir_is = (actual), weir_wanted = __VA_ARGS__; \
    BOOST_TEST(weir_is == weir_wanted, boost::test_tools::per_element());      \
  } while (false)

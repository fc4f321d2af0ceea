// Checks of acquire() that go to the store themselves, as long as nobody waits for the subject.
#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check/give_back.hpp"
#include "check/store_backend.hpp"
#include "limiter/limiter_impl.hpp"
#include "support/run.hpp"

namespace direct_checks_test {
namespace {

using namespace std::chrono_literals;
using namespace weir;
namespace asio = boost::asio;
using detail::check;
using detail::check_kind;
using detail::check_stage;

/// Keeps requests for reservations until the test answers them, and counts what comes back.
class held_store final : public detail::store_backend {
 public:
  explicit held_store(asio::io_context& io) : store_backend(io.get_executor()) {}
  ~held_store() override {
    for (check* c : held) c->finish(detail::delivery::discard);
  }

  void start(check& c) override {
    if (c.kind == check_kind::acquire) return held.push_back(&c);
    if (c.traits.gives_back) {
      ++returned;
      const decision& about = detail::as<detail::settle_request>(c).about;
      delays.push_back(about.delay);
      receipts.push_back(about.receipt.id);
    }
    end(c);
  }
  void cancel(check& c, detail::cancel_scope scope) override {
    if (state == unsent) return abort(c);
    if (state == answered || scope == detail::cancel_scope::only_unsent) return;
    check& other = detail::stand_in_for(c);
    c.flight.left_stand_in = true;
    held.push_back(&other);
    abort(c);
  }
  void close() override {}
  std::string_view key_prefix() const noexcept override { return "weir"; }

  /// Answers the first request: it may go out then.
  void reserve(std::chrono::microseconds delay) { end(take_reserved(delay)); }
  check& take_reserved(std::chrono::microseconds delay) {
    check& c = *take_first();
    c.answer.allowed = true;
    c.answer.decided_at = time_point(1'000'000s);
    c.answer.delay = delay;
    c.flight.stage = check_stage::done;
    return c;
  }
  /// The first request is a caller's whose deadline has passed.
  void time_out() {
    check& c = *take_first();
    held.push_back(&detail::stand_in_for(c));
    c.flight.left_stand_in = true;
    c.ec = error::no_reply;
    end(c);
  }
  void fail(error e) {
    check& c = *take_first();
    c.ec = e;
    end(c);
  }
  check* take_first() {
    check* const c = held.at(0);
    held.pop_front();
    return c;
  }

  enum { unsent, sent, answered } state = sent;  // of what is cancelled
  std::deque<check*> held;
  int returned = 0;
  std::vector<std::chrono::microseconds> delays;  // of what has come back
  std::vector<std::uint64_t> receipts;

  void end_together(detail::check_list&& done) { sink().complete(std::move(done)); }

 private:
  void abort(check& c) {
    std::erase(held, &c);
    c.ec = asio::error::operation_aborted;
    end(c);
  }
  void end(check& c) {
    c.flight.stage = check_stage::done;
    sink().complete(c);
  }
};

struct stage {
  struct caller {
    asio::cancellation_signal signal;
    int ended = 0;
    error_code ec;
    decision answer;

    bool has(const error_code& e) const { return ended == 1 && ec == e; }
    bool may_go() const { return has({}) && answer.allowed; }
  };

  explicit stage(limiter_options o = {})
      : partner(weir::store(held), "r", gcra{.rate = per_second(1), .burst = 1}, std::move(o)) {
    acquire("first");  // it starts the timer
    core = held->held.at(0)->limiter;
    reserve(0us);
  }

  caller& acquire(const std::string& subject, std::chrono::microseconds max_wait = 2h) {
    caller& c = callers.emplace_back();
    partner.acquire(
        subject, {.max_wait = max_wait},
        asio::bind_cancellation_slot(c.signal.slot(), [&, this](error_code ec, const decision& d) {
          ++c.ended;
          c.ec = ec;
          c.answer = d;
          order.push_back(&c);
        }));
    return c;
  }
  void poll() {
    io.restart();
    io.poll();
  }
  void cancel(caller& c, asio::cancellation_type how = asio::cancellation_type::terminal) {
    c.signal.emit(how);
    poll();
  }
  void reserve(std::chrono::microseconds delay) {
    held->reserve(delay);
    poll();
  }
  waiting::waiting_room& room() { return *detail::impl_of(*core).room; }

  asio::io_context io;
  std::shared_ptr<held_store> held = std::make_shared<held_store>(io);
  std::shared_ptr<const detail::limiter_spec> core;
  std::deque<caller> callers;
  std::vector<const caller*> order;  // in which they ended
  limiter partner;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(direct_checks_suite)

BOOST_AUTO_TEST_CASE(a_request_that_need_not_wait_is_the_callers_own_check) {
  stage s;
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  BOOST_TEST(s.room().lines() == 1u);
  s.reserve(0us);
  BOOST_TEST((a.may_go() && b.ended == 0));
  s.reserve(0us);
  BOOST_TEST(b.may_go());
  BOOST_TEST(s.room().lines() == 0u);
}

// Each went back as its answer came, with all later ones behind it, and the store took little back.
BOOST_AUTO_TEST_CASE(reservations_of_calls_that_got_no_reply_in_time_go_back_the_last_one_first) {
  stage s;
  for (int i = 0; i < 3; ++i) s.acquire("a");
  for (int i = 0; i < 3; ++i) s.held->time_out();
  detail::check_list done;
  for (const auto delay : {1s, 2s, 3s}) done.push_back(s.held->take_reserved(delay));
  s.held->end_together(std::move(done));
  s.poll();
  BOOST_TEST((s.held->delays == std::vector<std::chrono::microseconds>{3s, 2s, 1s}));
  for (const stage::caller& c : s.callers) BOOST_TEST(c.ended == 1);
  BOOST_TEST(s.room().lines() == 0u);
}

// A caller that took the reservation of a cancelled one got no receipt, and could not settle it.
BOOST_AUTO_TEST_CASE(a_reservation_that_passes_to_another_caller_has_a_receipt) {
  stage s;
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  s.cancel(a);
  std::swap(s.held->held[0], s.held->held[1]);  // b's answer comes last
  s.reserve(1h);
  auto& newcomer = s.acquire("a");
  BOOST_TEST(s.held->held.size() == 1u);  // it has the reservation
  s.cancel(newcomer);
  s.reserve(0us);
  BOOST_TEST(b.may_go());
  BOOST_TEST_REQUIRE(s.held->receipts.size() == 1u);
  BOOST_TEST(s.held->receipts[0] != 0u);
}

BOOST_AUTO_TEST_CASE(direct_checks_count_as_waiters) {
  stage s({.max_waiting = 2});
  auto& a = s.acquire("a");
  s.acquire("a");
  auto& c = s.acquire("a");
  s.poll();
  BOOST_TEST(c.has(error::overloaded));
  auto& other = s.acquire("b");
  s.reserve(0us);
  BOOST_TEST(a.may_go());
  auto& d = s.acquire("a");
  s.reserve(0us);
  s.reserve(0us);
  BOOST_TEST(other.may_go());
  s.reserve(0us);
  BOOST_TEST(d.may_go());
  BOOST_TEST(s.room().lines() == 0u);
}

// The last one is in the queue before the second one.
BOOST_AUTO_TEST_CASE(direct_checks_that_have_to_wait_go_in_the_order_of_their_calls) {
  stage s;
  const stage::caller* const called[] = {&s.acquire("a"), &s.acquire("a"), nullptr};
  s.held->reserve(1ms);
  const auto& last = s.acquire("a");
  s.held->reserve(2ms);
  s.held->reserve(3ms);
  s.order.clear();
  test::run_until(s.io, [&] { return s.order.size() == 3; });
  BOOST_TEST((s.order == std::vector<const stage::caller*>{called[0], called[1], &last}));
}

// One stand-in was counted off twice: from then on, all calls of the subject were overloaded.
BOOST_AUTO_TEST_CASE(a_stand_in_of_a_call_that_the_policy_has_answered_is_counted_off_once) {
  stage s({.on_failure = on_failure::open});
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  s.cancel(a);  // its stand-in comes behind b
  s.held->time_out();
  s.poll();
  BOOST_TEST(b.may_go());
  for (int i = 0; i < 2; ++i) s.held->fail(error::outcome_unknown);
  s.poll();
  BOOST_TEST(s.room().lines() == 0u);
  auto& c = s.acquire("a");
  s.reserve(0us);
  BOOST_TEST(c.may_go());
}

// Calls that timed out filled the line, and the failure policy was not asked any more.
BOOST_AUTO_TEST_CASE(stand_ins_take_no_room) {
  stage s({.on_failure = on_failure::open, .max_waiting = 2});
  for (int i = 0; i < 2; ++i) s.cancel(s.acquire("a"));
  for (int i = 0; i < 3; ++i) {
    auto& late = s.acquire("a");
    std::rotate(s.held->held.begin(), s.held->held.end() - 1, s.held->held.end());
    s.held->time_out();
    s.poll();
    BOOST_TEST(late.may_go());
  }
  while (!s.held->held.empty()) s.held->fail(error::outcome_unknown);
  BOOST_TEST(s.room().lines() == 0u);
}

// The memory store answers inside its start: a later block of checks was started before the rest of
// an earlier one, and callers that had come first were refused.
BOOST_AUTO_TEST_CASE(many_checks_that_were_held_go_to_a_memory_store_in_order) {
  asio::io_context io;
  const limiter l(make_memory_store(io.get_executor()), "r",
                  gcra{.rate = per_second(1), .burst = 1});
  const auto poll = [&] {
    io.restart();
    io.poll();
  };
  l.acquire("a", [](error_code, const decision&) {});
  asio::cancellation_signal leaves;
  l.acquire("a", {.max_wait = 1h},
            asio::bind_cancellation_slot(leaves.slot(), [](error_code, const decision&) {}));
  poll();
  leaves.emit(asio::cancellation_type::terminal);  // the others have to wait for its give-back
  std::vector<int> refused;
  for (int i = 0; i < 200; ++i) {
    l.acquire("a", {.max_wait = 100s}, [&, i](error_code, const decision& d) {
      if (!d.allowed) refused.push_back(i);
    });
  }
  poll();
  BOOST_TEST_REQUIRE(!refused.empty());
  BOOST_TEST(std::ranges::min(refused) > 95);
}

BOOST_AUTO_TEST_CASE(what_a_cancelled_direct_check_has_reserved_goes_back) {
  stage s;
  auto& a = s.acquire("a");
  s.cancel(a);
  BOOST_TEST(a.has(asio::error::operation_aborted));
  BOOST_TEST_REQUIRE(s.held->held.size() == 1u);
  s.reserve(1h);
  BOOST_TEST(s.held->returned == 1);
  BOOST_TEST(s.room().lines() == 0u);
}

// Each reservation goes back whole only if none stands behind it.
BOOST_AUTO_TEST_CASE(
    direct_checks_that_are_cancelled_together_give_back_when_the_last_answer_has_come) {
  stage s;
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  s.cancel(a);
  s.cancel(b);
  s.reserve(1h);
  BOOST_TEST(s.held->returned == 0);
  s.reserve(2h);
  BOOST_TEST(s.held->returned == 2);
}

// A waiter's reservation went back while a direct check was at the store. That one's reservation
// stood behind it, so the store took nothing back.
BOOST_AUTO_TEST_CASE(nothing_goes_back_before_the_direct_checks_are_answered) {
  stage s;
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  s.reserve(1h);
  s.cancel(a);
  BOOST_TEST(a.has(asio::error::operation_aborted));
  BOOST_TEST(s.held->returned == 0);
  s.cancel(b);
  s.reserve(2h);
  BOOST_TEST(s.held->returned == 2);
  BOOST_TEST(s.room().lines() == 0u);
}

BOOST_AUTO_TEST_CASE(a_closing_store_gives_nothing_back_before_the_direct_checks_are_answered) {
  stage s;
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  s.reserve(1h);
  s.room().close(nullptr);
  s.poll();
  BOOST_TEST(s.held->returned == 0);
  s.held->reserve(2h);
  test::run_until(s.io, [&] { return a.ended + b.ended == 2; });
  BOOST_TEST((a.has(error::store_closed) && b.has(error::store_closed)));
  BOOST_TEST(s.held->returned == 2);
}

BOOST_AUTO_TEST_CASE(a_direct_check_that_was_not_sent_leaves_nothing) {
  for (const auto how : {asio::cancellation_type::terminal, asio::cancellation_type::total}) {
    stage s;
    s.held->state = held_store::unsent;
    auto& a = s.acquire("a");
    s.cancel(a, how);
    BOOST_TEST(a.has(asio::error::operation_aborted));
    BOOST_TEST(s.held->held.empty());
    BOOST_TEST(s.room().lines() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(total_does_not_cancel_a_direct_check_that_was_sent) {
  stage s;
  auto& a = s.acquire("a");
  s.cancel(a, asio::cancellation_type::total);
  BOOST_TEST(a.ended == 0);
  s.reserve(0us);
  BOOST_TEST(a.may_go());
  // But it is not repeated.
  auto& b = s.acquire("a");
  s.cancel(b, asio::cancellation_type::total);
  s.held->fail(error::connection_refused);
  s.poll();
  BOOST_TEST(b.has(error::connection_refused));
}

// Its answer was on the way to it, so the store could not replace it.
BOOST_AUTO_TEST_CASE(a_direct_check_that_is_cancelled_too_late_does_not_begin_to_wait) {
  for (const auto delay : {0us, std::chrono::microseconds(1h)}) {
    stage s;
    s.held->state = held_store::answered;
    auto& a = s.acquire("a");
    s.cancel(a);
    BOOST_TEST(a.ended == 0);
    s.reserve(delay);
    BOOST_TEST(a.ended == 1);
    BOOST_TEST(a.may_go() == (delay == 0us));
    BOOST_TEST(s.held->returned == (delay == 0us ? 0 : 1));
    BOOST_TEST(s.room().lines() == 0u);
  }
  stage s;
  s.held->state = held_store::answered;
  auto& a = s.acquire("a");
  s.cancel(a);
  s.held->fail(error::connection_refused);
  s.poll();
  BOOST_TEST(a.has(asio::error::operation_aborted));
}

BOOST_AUTO_TEST_CASE(a_cool_down_that_begins_meanwhile_covers_a_direct_check) {
  stage s({.cool_downs = true});
  auto& a = s.acquire("a");
  auto& b = s.acquire("b");
  s.room().cool_down(s.core, "a", 1h);
  s.reserve(0us);
  BOOST_TEST(a.ended == 0);
  BOOST_TEST(s.held->returned == 1);  // and another reservation is made
  BOOST_TEST_REQUIRE(s.held->held.size() == 2u);
  s.reserve(0us);
  BOOST_TEST(b.may_go());
  s.cancel(a);
  s.held->reserve(1h);
}

BOOST_AUTO_TEST_CASE(a_failed_direct_check_is_repeated) {
  stage s;
  auto& a = s.acquire("a");
  s.held->fail(error::connection_refused);
  test::run_until(s.io, [&] { return !s.held->held.empty(); });
  s.reserve(0us);
  BOOST_TEST(a.may_go());
  auto& b = s.acquire("a");
  s.held->fail(error::wrong_type);  // a repetition would not help
  s.poll();
  BOOST_TEST(b.has(error::wrong_type));
}

BOOST_AUTO_TEST_CASE(a_closing_store_stays_until_its_direct_checks_are_answered) {
  stage s;
  auto& a = s.acquire("a");
  auto& b = s.acquire("a");
  std::shared_ptr<void> keep_alive = std::make_shared<int>();
  const std::weak_ptr<void> is_alive = keep_alive;
  s.room().close(std::move(keep_alive));
  s.reserve(0us);
  BOOST_TEST(a.may_go());
  BOOST_TEST(!is_alive.expired());
  s.reserve(1h);
  test::run_until(s.io, [&] { return b.ended == 1; });
  BOOST_TEST(b.has(error::store_closed));
  BOOST_TEST(s.held->returned == 1);
  BOOST_TEST(is_alive.expired());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace direct_checks_test

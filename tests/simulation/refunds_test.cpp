// What is given back is of use to others: callers take more than they settle for, or leave before
// their turns, and the policy still lets through what it says, on a clock of the test's own.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <cmath>
#include <queue>

#include "simulation/simulated_time.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace refunds_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t ahead = 1'790'000'000'123'456;  // the store's clock, of the simulated one
constexpr std::int64_t second = 1'000'000;
constexpr std::int64_t a_second = 10;  // units a second
constexpr std::int64_t settled_after = 5 * second;
// What a full bucket lets through at first does not count.
constexpr std::int64_t measured_from = 300 * second;
constexpr std::int64_t an_hour = measured_from + (test::is_sanitized ? 600 : 3'600) * second;
constexpr std::int64_t a_while = measured_from + (test::is_sanitized ? 300 : 1'200) * second;

/// What callers do.
struct habits {
  bool waits = false;    // acquire() instead of record()
  bool charges = false;  // one in ten turns out to cost more than it took
  bool leaves = false;   // every other waiter leaves before its turn, and what is taken is used
  std::int64_t until = a_while;
  std::int64_t most_taken = 4;
  std::int64_t least_taken = 4;
};

class fleet {
 public:
  fleet(const tiers& policies, const habits& how, const limiter_options& options = {})
      : how_(how), limiter_(memory_, "r", policies, options) {}

  /// Units that were really used from the beginning on.
  std::int64_t in_all() const noexcept { return in_all_; }

  /// Units that were really used in a second.
  double use() {
    const std::int64_t begin = simulation::now();
    const std::int64_t mean = (how_.most_taken + how_.least_taken) / 2;
    // A half more than may pass.
    const std::int64_t gap = how_.leaves ? second * mean / (3 * a_second)
                                         : second / (a_second * 3 / 2);
    std::int64_t next = begin;
    while (simulation::now() < begin + how_.until) {
      const std::int64_t due = events_.empty() ? never : events_.top().at;
      simulation::advance_to(std::min({next, due, simulation::next_timer()}));
      measuring_ = simulation::now() >= begin + measured_from;
      context_.poll();
      while (!events_.empty() && events_.top().at <= simulation::now()) {
        const event e = events_.top();
        events_.pop();
        e.happens();
        context_.poll();
      }
      if (next <= simulation::now()) {
        arrive();
        next += random_.between(gap / 2, gap * 3 / 2);
      }
    }
    return static_cast<double>(used_) * second / (how_.until - measured_from);
  }

 private:
  struct event {
    std::int64_t at;
    std::function<void()> happens;
    bool operator<(const event& other) const { return at > other.at; }
  };

  void arrive() {
    const std::int64_t cost = random_.between(how_.least_taken, how_.most_taken);
    const auto hear = [this, cost](error_code ec, const decision& d) {
      if (ec == asio::error::operation_aborted) return;
      if (ec) throw std::runtime_error(ec.message());
      if (d.allowed) use(cost, d);
    };
    if (!how_.waits) {
      limiter_.record("a", {.cost = cost}, hear);
      return;
    }
    const auto leave = std::make_shared<asio::cancellation_signal>();
    const auto patience = how_.leaves ? microseconds(1min) : microseconds(3s);
    limiter_.acquire("a", {.cost = cost, .max_wait = patience},
                     asio::bind_cancellation_slot(leave->slot(), hear));
    if (how_.leaves && random_.one_in(2)) {
      events_.push({simulation::now() + random_.between(0, 20 * second),
                    [leave] { leave->emit(asio::cancellation_type::terminal); }});
    } else {
      events_.push({simulation::now() + 61 * second, [leave] {}});
    }
  }

  void use(std::int64_t cost, const decision& d) {
    if (how_.leaves) {
      count(cost);
      return;
    }
    const std::int64_t actual = how_.charges && random_.one_in(10) ? cost + 2 : 1;
    events_.push({simulation::now() + settled_after, [this, d, actual] {
                    count(actual);
                    limiter_.settle("a", d, actual, [](error_code ec, const decision& done) {
                      if (ec || !done.allowed) throw std::runtime_error("not settled");
                    });
                  }});
  }

  void count(std::int64_t units) {
    in_all_ += units;
    if (measuring_) used_ += units;
  }

  const habits how_;
  test::random_source random_{test::run_seed(), 920};
  simulation::simulated_context context_;
  const store memory_ = make_memory_store(
      context_.io().get_executor(),
      {.clock = [] { return time_point(microseconds(ahead + simulation::now())); }});
  const limiter limiter_;
  std::priority_queue<event> events_;
  std::int64_t used_ = 0;    // while measuring
  std::int64_t in_all_ = 0;  // from the beginning on
  bool measuring_ = false;
};

constexpr token_bucket bucket{.capacity = 60 * a_second, .refill = per_minute(60 * a_second)};
constexpr gcra even{.rate = per_minute(60 * a_second), .burst = 60 * a_second};
constexpr token_bucket of_a_second{.capacity = 10 * a_second, .refill = per_second(10 * a_second)};
constexpr fixed_window window{.limit = 60 * a_second, .window = 1min};
constexpr sliding_log log_of_a_minute{.limit = 60 * a_second, .window = 1min};
constexpr sliding_window sliding{.limit = 60 * a_second, .window = 1min};

void expect(const char* name, double least, const tiers& policies, const habits& how,
            const limiter_options& options = {}) {
  BOOST_TEST_CONTEXT(name << ", WEIR_TEST_SEED=" << test::run_seed()) {
    fleet callers(policies, how, options);
    const double used = callers.use();
    BOOST_TEST_MESSAGE(name << ": " << used << " units a second of " << a_second);
    BOOST_TEST(used >= least);
    // A full bucket, or one more window, and then no more than the rate. Some requests may cost
    // more than they took.
    constexpr std::int64_t charged = 10;
    BOOST_TEST(callers.in_all() <= a_second * (how.until / second + 60) + charged);
  }
}

void expect_of_all(const habits& how) {
  expect("token_bucket", 0.97 * a_second, tiers(bucket), how);
  expect("gcra", 0.97 * a_second, tiers(even), how);
  expect("gcra in a group", 0.97 * a_second, tiers(even), how, {.group = "all"});
  // What is under way when the window ends is lost: of what is taken in five of its sixty seconds,
  // three quarters can be taken again in the next five. See docs/settling.md.
  const double most = a_second * (1 - std::pow(0.75, 12));
  expect("fixed_window", 0.97 * most, tiers(window), how);
  expect("tiers", 0.97 * a_second, tiers(of_a_second, bucket), how);
}

BOOST_AUTO_TEST_SUITE(refunds_suite)

BOOST_AUTO_TEST_CASE(what_is_settled_for_less_is_of_use_to_others) {
  expect_of_all({.until = an_hour});
}

BOOST_AUTO_TEST_CASE(so_it_is_with_charges_among_them) { expect_of_all({.charges = true}); }

BOOST_AUTO_TEST_CASE(so_it_is_of_waiters) { expect_of_all({.waits = true}); }

// A window that moves holds what is under way, too: for each unit that is used, three more for five
// of its seconds.
BOOST_AUTO_TEST_CASE(a_window_that_moves_gives_all_but_what_is_under_way) {
  const double most = a_second * 60.0 / (60 + 3 * 5);
  expect("sliding_log", 0.97 * most, tiers(log_of_a_minute), {});
  expect("sliding_window", 0.97 * most, tiers(sliding), {});
}

BOOST_AUTO_TEST_CASE(the_reservations_of_cancelled_waiters_are_of_use_to_others) {
  const habits one_cost{.waits = true, .leaves = true, .most_taken = 1, .least_taken = 1};
  expect("token_bucket", 0.97 * a_second, tiers(bucket), one_cost);
  expect("gcra in a group", 0.97 * a_second, tiers(even), one_cost, {.group = "all"});
  expect("tiers", 0.97 * a_second, tiers(of_a_second, bucket), one_cost);
  const habits many_costs{.waits = true, .leaves = true, .most_taken = 30, .least_taken = 1};
  expect("token_bucket, many costs", 0.9 * a_second, tiers(bucket), many_costs);
  expect("gcra, many costs", 0.9 * a_second, tiers(even), many_costs);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refunds_test

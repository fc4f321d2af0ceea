// Processes with local units at one store, in simulated time, among all that others may do with the
// subject: what passes in all, and what has come back when nobody checks any more.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include "simulation/simulated_time.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace local_units_test {

using namespace weir;
using namespace weir::test;

// How far the store's clock is ahead of the simulated one.
constexpr std::int64_t ahead = 1'790'000'000'123'456;
constexpr int fleets = test::is_sanitized ? 20 : 250;
constexpr int steps = 2'000;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

class fleet {
 public:
  /// `number`: every second fleet has a window, every fourth one that outlasts rest().
  fleet(test::random_source& random, int number)
      : random_(random), has_windows_(number % 2 == 0), has_long_window_(number % 4 == 0) {
    const weir::policy policy = draw_policy();
    for (std::int64_t i = 0; i < processes_; ++i) {
      limiters_.emplace_back(memory_, "r", policy,
                             limiter_options{.deny_cache_subjects = random_.one_in(2) ? 16u : 0u,
                                             .local_units = most_,
                                             .local_units_subjects = 1});
    }
    limiters_.emplace_back(memory_, "r", policy);
  }

  void run() {
    const std::int64_t gap = random_.magnitude(span_ / 20 + 10);
    for (int i = 0; i < steps; ++i) {
      step();
      context_.poll();
      if (random_.one_in(3)) advance(random_.between(0, gap));
      if (random_.one_in(200)) rest();
    }
    rest();
  }

  std::int64_t local() const noexcept { return local_; }
  std::int64_t compared() const noexcept { return compared_; }

 private:
  struct held {
    decision said;
    std::int64_t cost;
    const limiter* by;
  };

  weir::policy draw_policy() {
    limit_ = 1 + random_.magnitude(5'000);
    most_ = std::min(limit_, random_.magnitude(1'000));
    processes_ = random_.between(1, 4);
    const microseconds span(1'000 * random_.magnitude(5'000'000) +
                            (has_long_window_ ? 20'000'000 : 0));
    span_ = span.count();
    if (has_windows_) {
      return fixed_window{.limit = limit_,
                          .window = span,
                          .anchor = random_.one_in(2) ? anchor::epoch : anchor::first_request};
    }
    const rate r{random_.magnitude(limit_), span};
    units_per_us_ = static_cast<double>(r.count) / static_cast<double>(span_);
    if (random_.one_in(2)) return token_bucket{.capacity = limit_, .refill = r};
    return gcra{.rate = r, .burst = limit_};
  }

  auto hear(const limiter& l, std::int64_t cost) {
    return [this, &l, cost](error_code ec, const decision& d) {
      check(ec, d);
      if (d.source == source::local_units) ++local_;
      if (!d.allowed) return;
      passed(d, cost);
      if (random_.one_in(4)) taken_.push_back({d, cost, &l});
    };
  }

  void step() {
    const limiter& l = random_.pick(limiters_);
    const std::int64_t cost = random_.one_in(5) ? random_.magnitude(most_) : 1;
    const std::int64_t chance = random_.between(0, 99);
    if (chance < 80) {
      const std::int64_t times = random_.one_in(10) ? random_.magnitude(50) : 1;
      for (std::int64_t i = 0; i < times; ++i) l.record("a", {.cost = cost}, hear(l, cost));
    } else if (chance < 84) {
      l.fetch("a", {.cost = cost}, [this](error_code ec, const decision& d) { check(ec, d); });
    } else if (chance < 95) {
      if (!taken_.empty()) settle();
    } else {
      wait(l, cost);
    }
  }

  void wait(const limiter& l, std::int64_t cost) {
    const auto leave = std::make_shared<asio::cancellation_signal>();
    l.acquire("a", {.cost = cost, .max_wait = microseconds(random_.magnitude(3'000'000))},
              asio::bind_cancellation_slot(leave->slot(),
                                           [this, cost, leave](error_code ec, const decision& d) {
                                             if (ec == asio::error::operation_aborted) return;
                                             check(ec, d);
                                             if (d.allowed) passed(d, cost);
                                           }));
    if (!random_.one_in(2)) return;
    context_.poll();
    advance(random_.magnitude(200'000));
    leave->emit(asio::cancellation_type::terminal);
  }

  void settle() {
    const held h = taken_.front();
    taken_.pop_front();
    const std::int64_t actual = random_.between(0, h.cost);
    h.by->settle("a", h.said, actual, [this, h, actual](error_code ec, const decision& d) {
      require(!ec, "an error");
      require(h.said.receipt.id != 0 || !d.allowed, "local units were settled");
      if (!d.allowed) return;
      if (has_windows_) {
        in_window_[end_of_window(h.said)] -= h.cost - actual;
      } else {
        level_ = std::max(0.0, level_ - static_cast<double>(h.cost - actual));
      }
    });
  }

  void check(error_code ec, const decision& d) const {
    require(!ec, "an error");
    require(d.limit == limit_, "another limit");
    require(d.used >= 0 && d.remaining >= 0 && d.remaining <= limit_, "units out of range");
    require(d.reset_after.count() >= 0 && d.delay.count() >= 0, "times out of range");
    require(d.allowed == (d.retry_after.count() == 0), "retry_after does not fit");
  }

  static std::int64_t end_of_window(const decision& d) {
    return (d.decided_at + d.reset_after).time_since_epoch().count();
  }

  /// A window keeps its limit. A bucket passes burst + rate * t, and what its processes hold.
  void passed(const decision& d, std::int64_t cost) {
    if (has_windows_) {
      require((in_window_[end_of_window(d)] += cost) <= limit_, "too much in a window");
      return;
    }
    const std::int64_t turn = (d.decided_at + d.delay).time_since_epoch().count();
    if (turn > level_at_) {
      level_ = std::max(0.0, level_ - units_per_us_ * static_cast<double>(turn - level_at_));
      level_at_ = turn;
    }
    level_ += static_cast<double>(cost);
    require(level_ <= static_cast<double>(limit_ + processes_ * most_) + 1e-3, "too much");
  }

  void advance(std::int64_t by) {
    const std::int64_t end = simulation::now() + by;
    while (simulation::next_timer() <= end) {
      simulation::advance_to(simulation::next_timer());
      context_.poll();
    }
    simulation::advance_to(end);
    context_.poll();
  }

  /// After a while without checks, a window counts what has passed and nothing more.
  void rest() {
    advance(6'000'000);
    limiters_.back().fetch("a", [this](error_code ec, const decision& d) {
      check(ec, d);
      if (!has_windows_ || d.reset_after.count() == 0) return;
      ++compared_;
      require(d.used == in_window_[end_of_window(d)], "units did not come back");
    });
    context_.poll();
  }

  test::random_source& random_;
  const bool has_windows_, has_long_window_;
  simulation::simulated_context context_;
  const store memory_ = make_memory_store(
      context_.io().get_executor(),
      {.clock = [] { return time_point(microseconds(ahead + simulation::now())); }});
  std::int64_t limit_ = 0, most_ = 0, processes_ = 0, span_ = 0;
  double units_per_us_ = 0;
  std::deque<limiter> limiters_;  // the last one has no local units
  std::deque<held> taken_;
  std::map<std::int64_t, std::int64_t> in_window_;  // passed, by the window's end
  double level_ = 0;
  std::int64_t level_at_ = 0;
  std::int64_t local_ = 0, compared_ = 0;
};

BOOST_AUTO_TEST_SUITE(local_units_suite)

BOOST_AUTO_TEST_CASE(no_more_passes_and_what_is_unused_comes_back) {
  test::random_source random(test::run_seed(), 930);
  std::int64_t local = 0, compared = 0;
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << test::run_seed()) {
    for (int i = 0; i < fleets; ++i) {
      try {
        fleet one(random, i);
        one.run();
        local += one.local();
        compared += one.compared();
      } catch (const std::exception& e) {
        BOOST_ERROR("fleet " << i << ": " << e.what());
      }
    }
    BOOST_TEST_MESSAGE(local << " local answers, " << compared << " windows compared");
    BOOST_TEST(local > fleets * 50);
    BOOST_TEST(compared > fleets / 10);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace local_units_test

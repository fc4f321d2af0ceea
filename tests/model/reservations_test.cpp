// The kernels in C++ and the script in a real server make the same reservations: none is due too
// early or later than it must be, and none is overtaken. What is given back is never more than was
// taken.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "model/policy_shapes.hpp"
#include "model/record_scripts.hpp"
#include "model/reference.hpp"
#include "model/tier_script.hpp"
#include "model/trace_clock.hpp"
#include "redis/script/scripts.hpp"
#include "support/joint.hpp"
#include "support/redis_server.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"

namespace reservations_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;
using policies::any_replay;
using policies::any_state;
using policies::request_time;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t steps_wanted = test::is_sanitized ? 5'000 : 15'000;
constexpr std::int64_t steps_per_trace = 300;

struct fixture {
  test::redis_server server{{.unix_socket = true}};
  test::redis_client client{server};
  model::joint_scripts turns{client};
  model::record_scripts checks{client};
  test::script_harness returns{client, redis::scripts()[redis::settlement].text};
  test::random_source random{test::run_seed(), 900};
};

enum class clock_goes { forward, anyhow };
enum class turns_are { kept, sometimes_given_back };

/// One subject of some policies: asked plainly, and for reservations.
class turn_trace {
 public:
  turn_trace(fixture& f, int number, turns_are how) : f_(f), gives_back_(how != turns_are::kept) {
    std::int64_t span = 1;
    const std::int64_t count = f.random.one_in(2) ? 1 : f.random.between(2, 3);
    for (std::int64_t n = 0; n < count; ++n) {
      policy p = f.random.one_in(2) ? model::random_policy_that_combines(f.random)
                                    : policy(token_bucket{f.random.between(1, 20), every(7ms)});
      // A window that its first request opened goes on without it: the rest could not tell
      // where it began.
      if (auto* w = std::get_if<fixed_window>(&p); w != nullptr && gives_back_) {
        w->anchor = anchor::epoch;
        w->offset = 0us;
      }
      policies_.push_back(p);
      add(policies::compile(p));
      expected_.push_back(model::make_reference(p, model::most_of(p)));
      leaky_.push_back(std::holds_alternative<leaky_bucket>(p));
      text_ += test::text_of(p) + "; ";
      span = std::max(std::min<std::int64_t>(model::span_of(p), 100'000'000), span);
      const std::int64_t most = std::visit([](const auto& k) { return k.ceiling(); },
                                           asked_.kernels.back());
      asked_.costs.push_back(f.random.one_in(2) ? 1 : f.random.magnitude(most));
    }
    if (f.random.one_in(4)) {
      add(policies::cool_down());
      asked_.costs.push_back(1);
      text_ += "hold; ";
      has_hold_ = true;
    }
    for (std::size_t i = 0; i < asked_.kernels.size(); ++i) {
      asked_.keys.push_back("k" + std::to_string(number) + "." + std::to_string(i));
    }
    span_ = span;
    clock_.emplace(f.random, t0, span);
  }

  /// If the clock never steps back, what the references say is exact.
  void run(clock_goes how) {
    const bool forward = how == clock_goes::forward;
    for (step_ = 0; step_ < steps_per_trace; ++step_) {
      clock_->advance();
      now_ = forward ? std::max(now_, clock_->now()) : clock_->now();
      if (has_hold_ && f_.random.one_in(20)) cool_down();
      for (std::int64_t& cost : asked_.costs) {
        if (f_.random.one_in(10)) cost = 1;
      }
      // A request that a leaky bucket admits at once waits out its delay beside the reservations:
      // the callers decide in what order they go.
      const bool leaky = std::find(leaky_.begin(), leaky_.end(), true) != leaky_.end();
      if (f_.random.one_in(3) && !(forward && leaky)) {
        ask_plainly(forward);
      } else {
        ask_for_turns(forward);
      }
      if (gives_back_ && !taken_.empty() && f_.random.one_in(3)) give_back();
      if (f_.random.one_in(5)) model::require_ttls(f_.client, asked_, states_);
    }
    if (forward && gives_back_) nothing_was_gained();
    for (const std::string& key : asked_.keys) f_.client.must("DEL", key);
  }

  std::int64_t reserved = 0, at_once = 0, refused = 0;

 private:
  void add(const policies::kernel& k) {
    std::visit([&](const auto& one) { policies::state_for(one, states_.emplace_back()); }, k);
    asked_.kernels.push_back(k);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " " + text_ +
                             "step " + std::to_string(step_) + ": " + what);
  }

  void compare(const decision& here, const decision& there) const {
    if (here == there) return;
    fail("\n  C++: " + test::text_of(here) + "\n  Lua: " + test::text_of(there));
  }

  void cool_down() {
    const policies::cool_down asked(f_.random.magnitude(2 * span_));
    auto& state = std::get<policies::cool_down::state>(states_.back());
    asked.record(state, now_, 1);
    held_until_ = state.until;
    f_.turns.set_clock(now_);
    const std::string key[] = {asked_.keys.back()};
    const redis::call_tier tiers[] = {{asked, 1}};
    f_.turns.run(tiers, key, {}, false);
  }

  void ask_plainly(bool forward) {
    const auto numbers = f_.checks.run(asked_, now_, 1, f_.random);
    auto found = asked_.restore(std::span(numbers).subspan(1));
    const auto there = asked_.tiers(found);
    const auto here = asked_.tiers(states_);
    const joint_decision d = test::joint(
        [&](auto* further) { return policies::record_all<any_state>(here, now_, further); });
    compare(d, policies::record_all<any_replay>(there, now_));
    clock_->hear(d);
    if (d.allowed) taken_.push_back({now_, d, asked_.costs, {}});
    if (!forward || gives_back_) return;
    // No request overtakes a reservation.
    bool fits = now_ >= held_until_ && now_ >= last_turn_;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      fits = fits && expected_[i]->fetch(now_, asked_.costs[i]).allowed;
    }
    if (d.allowed != fits) fail(d.allowed ? "overtakes" : "is refused for nothing");
    if (d.allowed) count_at(now_);
  }

  void ask_for_turns(bool forward) {
    const std::int64_t checks = f_.random.one_in(3) ? f_.random.between(2, 6) : 1;
    const std::int64_t max_wait = f_.random.one_in(4) ? f_.random.between(0, 3)
                                                      : f_.random.magnitude(20 * span_);
    for (const auto& there :
         asked_.reserve(f_.turns, now_, checks, max_wait, f_.random.one_in(3))) {
      const auto here = asked_.tiers(states_);
      auto found_here = policies::found_in(here, now_);
      const joint_decision d = test::joint([&](auto* further) {
        return policies::reserve_all<any_state>(here, now_, max_wait, further);
      });
      compare(d, there.said);
      clock_->hear(d);
      (d.allowed ? d.delay.count() > 0 ? reserved : at_once : refused) += 1;
      if (d.delay.count() == 0) found_here.clear();
      if (d.allowed) {
        taken_.push_back({now_ + d.delay.count(), d, asked_.costs, std::move(found_here)});
      }
      if (forward && !gives_back_) check_turn(d, max_wait);
    }
  }

  /// Against the references, which know nothing of reservations: they are asked as if each request
  /// came at its time.
  void check_turn(const decision& d, std::int64_t max_wait) {
    const std::int64_t wait = d.allowed ? d.delay.count() : d.retry_after.count() + max_wait;
    const std::int64_t turn = now_ + wait;
    if (d.allowed && wait > max_wait) fail("has to wait longer than it would");
    if (!d.allowed && wait <= max_wait) fail("is turned away though its turn comes in time");
    if (turn < last_turn_) fail("overtakes");
    if (!may_go(turn)) fail("its turn comes too early: " + test::text_of(d));
    if (turn > std::max(now_, last_turn_) && may_go(turn - 1)) {
      fail("its turn could come earlier: " + test::text_of(d));
    }
    if (d.allowed) count_at(turn);
  }

  struct request {
    std::int64_t turn;
    joint_decision said;
    std::vector<std::int64_t> costs;
    std::vector<std::int64_t> found;  // by its reservation
  };

  /// One of the last, mostly: the others no longer matter.
  void give_back() {
    const std::int64_t last = static_cast<std::int64_t>(taken_.size()) - 1;
    const auto chosen = taken_.begin() + (last + 1 - f_.random.magnitude(last + 1));
    const request r = *chosen;
    taken_.erase(chosen);
    const policies::tickets known = policies::tickets_of(r.said, r.found);
    auto costs_now = std::exchange(asked_.costs, r.costs);
    const auto arguments = asked_.settlement(0, known);
    f_.returns.set_clock(now_);
    const auto numbers = asked_.run(f_.client, f_.returns, arguments, 1, 2 + asked_.width());
    auto found = asked_.restore(std::span(numbers).subspan(2));
    policies::settle_all(asked_.tiers(states_), now_, known);
    compare(policies::settled<any_state>(asked_.tiers(states_), now_, true),
            policies::settled<any_replay>(asked_.tiers(found), now_, true));
    asked_.costs = std::move(costs_now);
  }

  /// The waiters that kept their reservations could have had them if the others had never come.
  void nothing_was_gained() {
    std::stable_sort(taken_.begin(), taken_.end(),
                     [](const request& a, const request& b) { return a.turn < b.turn; });
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      const auto expected = model::make_reference(policies_[i], model::most_of(policies_[i]));
      for (const request& r : taken_) {
        const decision d = expected->fetch(r.turn, r.costs[i]);
        if (r.found.empty()) {
          expected->record(r.turn, r.costs[i]);
        } else {
          expected->reserve(r.turn, r.costs[i]);
        }
        if (!d.allowed || (leaky_[i] && d.delay.count() > 0)) {
          fail("more was given back than taken: " + test::text_of(d));
        }
      }
    }
  }

  bool may_go(std::int64_t time) const {
    if (time < held_until_) return false;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const decision d = expected_[i]->fetch(time, asked_.costs[i]);
      if (!d.allowed || (leaky_[i] && d.delay.count() > 0)) return false;
    }
    return true;
  }

  void count_at(std::int64_t time) {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (time > now_) {
        expected_[i]->reserve(time, asked_.costs[i]);
      } else {
        expected_[i]->record(time, asked_.costs[i]);
      }
    }
    last_turn_ = std::max(last_turn_, time);
  }

  fixture& f_;
  const bool gives_back_;
  std::vector<policy> policies_;
  std::vector<request> taken_;
  model::tier_script asked_;
  std::vector<any_state> states_;
  std::vector<std::unique_ptr<model::reference>> expected_;
  std::vector<bool> leaky_;
  bool has_hold_ = false;
  std::int64_t held_until_ = 0;
  std::int64_t last_turn_ = 0;
  std::int64_t span_ = 1;
  std::int64_t now_ = 0;
  std::int64_t step_ = 0;
  std::optional<model::trace_clock> clock_;
  std::string text_;
};

void compare_all(fixture& f, clock_goes clock, turns_are turns) {
  std::int64_t reserved = 0, at_once = 0, refused = 0;
  for (int n = 0; reserved + at_once + refused < steps_wanted; ++n) {
    turn_trace trace(f, n, turns);
    trace.run(clock);
    reserved += trace.reserved;
    at_once += trace.at_once;
    refused += trace.refused;
  }
  BOOST_TEST_MESSAGE(reserved << " reserved, " << at_once << " at once, " << refused << " refused");
  BOOST_TEST(reserved > steps_wanted / 20);
  BOOST_TEST(at_once > steps_wanted / 20);
  BOOST_TEST(refused > steps_wanted / 20);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(reservations_suite, fixture)

BOOST_AUTO_TEST_CASE(reservations_are_exact_and_in_order) {
  compare_all(*this, clock_goes::forward, turns_are::kept);
}

BOOST_AUTO_TEST_CASE(reservations_agree_when_the_clock_steps_back) {
  compare_all(*this, clock_goes::anyhow, turns_are::kept);
}

BOOST_AUTO_TEST_CASE(giving_back_never_mints_capacity) {
  compare_all(*this, clock_goes::forward, turns_are::sometimes_given_back);
}

BOOST_AUTO_TEST_CASE(giving_back_agrees_when_the_clock_steps_back) {
  compare_all(*this, clock_goes::anyhow, turns_are::sometimes_given_back);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reservations_test

// Several policies at once: the plainest way to do it, the kernels in C++ and the scripts for
// several tiers in a real server agree on every decision; and what one refuses, none counts.
#include "model/policy_shapes.hpp"
#include "model/record_scripts.hpp"
#include "model/reference.hpp"
#include "model/trace_clock.hpp"
#include "support/redis_server.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"

namespace joint_test {

using namespace weir;
using namespace weir::test;
using policies::any_replay;
using policies::any_state;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t steps_wanted = test::is_sanitized ? 25'000 : 100'000;
constexpr std::int64_t steps_per_trace = 500;

/// A cool-down, as plainly as it can be said.
class plain_hold final : public model::reference {
 public:
  void pause(std::int64_t now, std::int64_t length) {
    const std::int64_t begin = has_effect(now) ? std::max(now, until_ - length_) : now;
    if (has_effect(now) && until_ >= begin + length) return;
    until_ = begin + length;
    length_ = length;
    is_guess_ = false;
  }
  /// The vendor has refused and named no time; or, with zero, it has served a call.
  void guess(std::int64_t now, std::int64_t first, std::int64_t longest) {
    if (!has_effect(now)) forget();
    if (until_ > now) return;
    const bool still_refuses = is_guess_ && now - until_ <= length_;
    if (first == 0) return forget();
    length_ = std::min(longest, std::max(first, still_refuses ? 2 * length_ : 0));
    until_ = now + length_;
    is_guess_ = true;
  }
  decision record(std::int64_t now, std::int64_t cost) override {
    if (!has_effect(now)) forget();
    return fetch(now, cost);
  }
  decision fetch(std::int64_t now, std::int64_t) const override {
    decision d;
    d.limit = d.remaining = unlimited;
    d.decided_at = time_point(std::chrono::microseconds(now));
    d.allowed = now >= until_ || !has_effect(now);
    if (d.allowed) return d;
    d.cooling_down = true;
    d.remaining = 0;
    d.retry_after = std::chrono::microseconds(std::min(until_ - now, length_));
    d.reset_after = std::chrono::microseconds(until_ - now);
    return d;
  }

 private:
  void forget() {
    until_ = length_ = 0;
    is_guess_ = false;
  }
  /// A clock that is behind by the cool-down's length, and a minute, has forgotten it.
  bool has_effect(std::int64_t now) const { return until_ - length_ <= now + length_ + 60'000'000; }

  std::int64_t until_ = 0, length_ = 0;
  bool is_guess_ = false;
};

/// One subject of several policies, three times over. A hold may stand behind each.
class joint_trace {
 public:
  joint_trace(model::script_server& at, int number)
      : at_(at), random_(at.random), name_("k" + std::to_string(number) + ".") {}

  void add(const policy& p, std::int64_t cost) {
    add(policies::compile(p), model::make_reference(p, model::most_of(p)), cost);
    text_ += test::text_of(p) + "; ";
    span_ = std::max(std::min<std::int64_t>(model::span_of(p), 100'000'000), span_);
    clock_.emplace(random_, t0, span_);
  }

  void add_hold() {
    add(policies::cool_down(), std::make_unique<plain_hold>(), 1);
    text_ += "hold; ";
  }

  void add_some() {
    // Large limits hardly refuse; a few small ones make the tiers disagree.
    for (std::int64_t n = random_.between(1, 4); n > 0; --n) {
      const policy p = random_.one_in(2) ? model::random_policy_that_combines(random_)
                                         : policy(token_bucket{random_.between(1, 20), every(7ms)});
      const std::int64_t most = std::visit([](const auto& k) { return k.ceiling(); },
                                           policies::compile(p));
      add(p, random_.one_in(2) ? 1 : random_.magnitude(most));
      if (random_.one_in(4)) add_hold();
    }
  }

  void run() {
    for (int step = 0; step < steps_per_trace; ++step) {
      clock_->advance();
      if (random_.one_in(20)) cool_down();
      const std::int64_t checks = random_.one_in(5)   ? 0
                                  : random_.one_in(4) ? random_.between(2, 9)
                                                      : 1;
      compare(step, checks);
    }
    for (const std::string& key : asked_.keys) at_.client.must("DEL", key);
  }

  void compare(int step, std::int64_t checks) {
    std::vector<any_replay> found = at_.found_by(asked_, clock_->now(), checks);
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, checks); ++i) {
      const decision plain = plainly(checks > 0);
      const decision here = kernels(states_, checks > 0);
      const decision there = kernels(found, checks > 0);
      if (here != plain || there != plain) {
        throw std::runtime_error(
            "WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " " + text_ + "step " +
            std::to_string(step) + ", check " + std::to_string(i + 1) + " of " +
            std::to_string(checks) + "\n  plain: " + test::text_of(plain) +
            "\n  C++:   " + test::text_of(here) + "\n  Lua:   " + test::text_of(there));
      }
      if (random_.one_in(20)) model::require_ttls(at_.client, asked_, states_);
      clock_->hear(plain);
      (plain.allowed ? allowed : refused) += 1;
      if (plain.cooling_down) ++held;
    }
  }

  std::int64_t allowed = 0, refused = 0, held = 0;

 private:
  void add(policies::kernel k, std::unique_ptr<model::reference> expected, std::int64_t cost) {
    std::visit([&](const auto& one) { policies::state_for(one, states_.emplace_back()); }, k);
    asked_.kernels.push_back(std::move(k));
    expected_.push_back(std::move(expected));
    asked_.costs.push_back(cost);
    asked_.keys.push_back(name_ + std::to_string(asked_.keys.size()));
  }

  /// Starts cool-downs in the tiers that can have one, each by itself.
  void cool_down() {
    for (std::size_t i = 0; i < asked_.kernels.size(); ++i) {
      auto* plain = dynamic_cast<plain_hold*>(expected_[i].get());
      if (!plain || random_.one_in(2)) continue;
      const std::int64_t pause = random_.magnitude(2 * span_);
      const std::int64_t longest = random_.one_in(2) ? 0 : pause + random_.magnitude(4 * span_);
      // As after a call that the vendor has served.
      const std::int64_t length = longest > 0 && random_.one_in(6) ? 0 : pause;
      const policies::cool_down asked(length, longest);
      if (longest > 0) {
        plain->guess(clock_->now(), length, longest);
      } else {
        plain->pause(clock_->now(), length);
      }
      asked.record(std::get<policies::cool_down::state>(states_[i]), clock_->now(), 1);
      at_.scripts.set_clock(clock_->now());
      const std::string key[] = {asked_.keys[i]};
      const redis::call_tier tiers[] = {{asked, 1}};
      at_.scripts.run(tiers, key, {}, false);
    }
  }

  /// When a request leaves that stands in several queues; 0 if it stands in one at the most.
  std::int64_t start_of_queues(const std::vector<decision>& each) const {
    std::int64_t start = 0, queues = 0;
    for (std::size_t i = 0; i < each.size(); ++i) {
      const auto* m = std::get_if<policies::meter>(&asked_.kernels[i]);
      if (m == nullptr || !m->is_leaky()) continue;
      start = std::max(start, (each[i].decided_at + each[i].delay).time_since_epoch().count());
      ++queues;
    }
    return queues > 1 ? start : 0;
  }

  decision plainly(bool counts) {
    std::vector<decision> each;
    bool all = true;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      each.push_back(expected_[i]->fetch(clock_->now(), asked_.costs[i]));
      all = all && each.back().allowed;
    }
    const std::int64_t start = all ? start_of_queues(each) : 0;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      // Asking a limiter that refuses anyway counts nothing.
      if (counts && (all || !each[i].allowed))
        each[i] = expected_[i]->record(clock_->now(), asked_.costs[i]);
      if (counts && start > 0) expected_[i]->delay_until(start, asked_.costs[i], each[i]);
    }
    decision d = policies::combined(each);
    if (d.allowed || each.size() == 1) return d;
    // A hold takes no place, and speaks for the policy before it.
    auto by = static_cast<std::size_t>(d.tier);
    if (d.cooling_down) {
      --by;
      d.limit = each[by].limit;
      d.used = each[by].used;
    }
    std::int16_t place = -1, places = 0;
    for (std::size_t i = 0; i < each.size(); ++i) {
      if (dynamic_cast<plain_hold*>(expected_[i].get())) continue;
      if (i == by) place = places;
      ++places;
    }
    d.tier = places == 1 ? std::int16_t{-1} : place;
    return d;
  }

  template <class State>
  decision kernels(std::vector<State>& states, bool counts) {
    const auto tiers = asked_.tiers(states);
    const std::span<const policies::tier<State>> all(tiers);
    return counts ? policies::record_all(all, clock_->now())
                  : policies::fetch_all(all, clock_->now());
  }

  model::script_server& at_;
  test::random_source& random_;
  const std::string name_;
  std::int64_t span_ = 1;
  std::optional<model::trace_clock> clock_;
  model::tier_script asked_;
  std::vector<std::unique_ptr<model::reference>> expected_;
  std::vector<any_state> states_;
  std::string text_;
};

decision allowed_with(std::int64_t remaining, std::int64_t reset, std::int64_t delay = 0) {
  decision d;
  d.allowed = true;
  d.remaining = remaining;
  d.reset_after = std::chrono::microseconds(reset);
  d.delay = std::chrono::microseconds(delay);
  return d;
}

decision refused_for(std::int64_t retry) {
  decision d;
  d.retry_after = std::chrono::microseconds(retry);
  d.reset_after = d.retry_after;
  return d;
}

struct fixture : model::script_server {
  fixture() : script_server(700) {}
};

BOOST_AUTO_TEST_SUITE(joint_suite)

BOOST_FIXTURE_TEST_CASE(model_kernels_and_script_agree, fixture) {
  std::int64_t allowed = 0, refused = 0, held = 0;
  for (int n = 0; allowed + refused < steps_wanted; ++n) {
    joint_trace trace(*this, n);
    trace.add_some();
    trace.run();
    allowed += trace.allowed;
    refused += trace.refused;
    held += trace.held;
  }
  BOOST_TEST(allowed > steps_wanted / 10);
  BOOST_TEST(refused > steps_wanted / 10);
  BOOST_TEST(held > steps_wanted / 100);
}

// A request that one of two queues delayed was counted by the other as if it went out at once: what
// came behind it there went out together with it.
BOOST_AUTO_TEST_CASE(no_queue_lets_two_out_in_one_slot) {
  test::random_source random(test::run_seed(), 701);
  std::int64_t delayed = 0;
  for (int n = 0; n < 300; ++n) {
    struct queue {
      policies::kernel kernel;
      std::int64_t count, period;
      any_state state = policies::meter::state{};
      std::vector<std::pair<std::int64_t, std::int64_t>> out = {};  // when, and the cost
    };
    std::vector<queue> queues;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t count = random.one_in(2) ? 1 : random.between(2, 9);
      const std::int64_t period = random.magnitude(5'000), capacity = random.between(1, 20);
      queues.push_back({policies::meter(count, period, capacity, true), count, period});
    }
    std::int64_t now = t0;
    for (int step = 0; step < 100; ++step) {
      now += random.one_in(3) ? 0 : random.between(0, 2'000);
      const std::int64_t asked = random.between(1, 3);  // the first, the second, both
      std::vector<policies::tier<any_state>> tiers;
      std::vector<queue*> among;
      for (int i = 0; i < 2; ++i) {
        if ((asked >> i & 1) == 0) continue;
        queue& q = queues[static_cast<std::size_t>(i)];
        const std::int64_t most = std::get<policies::meter>(q.kernel).limit();
        tiers.push_back({&q.kernel, &q.state, random.between(1, std::min<std::int64_t>(3, most))});
        among.push_back(&q);
      }
      const std::span<const policies::tier<any_state>> all(tiers);
      const decision looked = policies::fetch_all(all, now);
      const decision d = policies::record_all(all, now);
      BOOST_TEST(looked.delay.count() == d.delay.count());
      if (!d.allowed) continue;
      if (asked == 3 && d.delay.count() > 0) ++delayed;
      for (std::size_t i = 0; i < tiers.size(); ++i) {
        among[i]->out.emplace_back(now + d.delay.count(), tiers[i].cost);
      }
    }
    for (queue& q : queues) {
      std::sort(q.out.begin(), q.out.end());
      for (std::size_t i = 1; i < q.out.size(); ++i) {
        const auto [before, cost] = q.out[i - 1];
        BOOST_TEST_REQUIRE(q.out[i].first >= before + cost * q.period / q.count,
                           "WEIR_TEST_SEED=" << test::run_seed() << ": two in one slot");
      }
    }
  }
  BOOST_TEST(delayed > 1'000);
}

// A limit of 2^53 - 1 is no limit: of three checks that cost half of it each, a script let two
// pass.
BOOST_FIXTURE_TEST_CASE(without_a_limit_the_largest_costs_pass_together, fixture) {
  int n = 0;
  for (const policy& p :
       {policy(fixed_window{.limit = unlimited, .window = 1s}),
        policy(sliding_window{.limit = unlimited, .window = 1s}),
        policy(sliding_log{.limit = unlimited, .window = 1s, .resolution = 1ms})}) {
    joint_trace trace(*this, n++);
    trace.add(p, std::visit([](const auto& k) { return k.ceiling(); }, policies::compile(p)));
    trace.add(token_bucket{10, every(7ms)}, 1);
    for (int step = 0; step < 3; ++step) trace.compare(step, 3);
    BOOST_TEST(trace.allowed == 9);
  }
}

// A clock that had been an hour ahead: an enter with limiters was told to come back in an hour, or
// that the leases end then. Its own script call had shortened them.
BOOST_FIXTURE_TEST_CASE(an_enter_with_others_knows_how_long_leases_last_at_most, fixture) {
  constexpr std::int64_t length = 10'000'000;
  int n = 0;
  // The gate refuses; the other tier does; both let it in.
  for (const auto& [gate, limit] : {std::pair{1, 9}, std::pair{9, 1}, std::pair{9, 9}}) {
    model::tier_script asked;
    asked.kernels = {policies::lease_set(gate, length, 11),
                     policies::compile(fixed_window{.limit = limit, .window = 1s})};
    asked.keys = {"gate" + std::to_string(++n), "window" + std::to_string(n)};
    std::vector<any_state> states(2);
    for (std::size_t i = 0; i < 2; ++i) {
      std::visit([&](const auto& k) { policies::state_for(k, states[i]); }, asked.kernels[i]);
    }
    const auto decisions = [&](std::int64_t now, std::int64_t number) {
      asked.costs = {number, 1};
      auto found = found_by(asked, now);
      return std::pair{policies::record_all<any_state>(asked.tiers(states), now),
                       policies::record_all<any_replay>(asked.tiers(found), now)};
    };
    BOOST_TEST(decisions(t0, 2).first.allowed);
    const auto [here, there] = decisions(t0 - 3'600'000'000, 3);
    BOOST_TEST((here == there), test::text_of(here) << ", Lua: " << test::text_of(there));
    for (const decision& d : {here, there}) {
      BOOST_TEST(d.allowed == (gate > 1 && limit > 1));
      if (gate == 1) BOOST_TEST(d.retry_after.count() == length);
      BOOST_TEST(d.reset_after.count() == length);
    }
  }
}

BOOST_AUTO_TEST_CASE(of_several_refusals_the_longest_counts_and_is_named) {
  const decision each[] = {allowed_with(0, 900), refused_for(20), refused_for(70), refused_for(60)};
  const decision d = policies::combined(each);
  BOOST_TEST(!d.allowed);
  BOOST_TEST(d.tier == 2);
  BOOST_TEST(d.retry_after.count() == 70);
  BOOST_TEST(d.reset_after.count() == 900);
}

// A cool-down that lasts for 90, and tells 10 because the clock is behind its beginning.
BOOST_AUTO_TEST_CASE(a_cool_down_is_named_that_tells_less_than_another_refusal) {
  decision pause = refused_for(10);
  pause.cooling_down = true;
  pause.reset_after = std::chrono::microseconds(90);
  const decision each[] = {refused_for(70), pause, refused_for(60)};
  const decision d = policies::combined(each);
  BOOST_TEST(d.cooling_down);
  BOOST_TEST(d.tier == 1);
  BOOST_TEST(d.retry_after.count() == 70);
  BOOST_TEST(d.reset_after.count() == 90);
}

BOOST_AUTO_TEST_CASE(of_several_that_allow_the_one_with_the_least_left_speaks) {
  const decision each[] = {allowed_with(7, 10, 5), allowed_with(3, 40),
                           allowed_with(unlimited, 20)};
  const decision d = policies::combined(each);
  BOOST_TEST(d.allowed);
  BOOST_TEST(d.tier == -1);
  BOOST_TEST(d.remaining == 3);
  BOOST_TEST(d.reset_after.count() == 40);
  BOOST_TEST(d.delay.count() == 5);
}

// A clock a little behind one tier's state made the others' delay and reset_after out of nothing.
BOOST_AUTO_TEST_CASE(a_tier_whose_time_is_ahead_delays_nobody) {
  decision ahead = allowed_with(9, 0);
  ahead.decided_at += std::chrono::microseconds(300);
  const decision each[] = {ahead, allowed_with(3, 40)};
  const decision d = policies::combined(each);
  BOOST_TEST(d.remaining == 3);
  BOOST_TEST(d.delay.count() == 0);
  BOOST_TEST(d.reset_after.count() == 40);
  decision used_ahead = allowed_with(1, 50);
  used_ahead.decided_at += std::chrono::microseconds(300);
  const decision other[] = {allowed_with(3, 40, 20), used_ahead};
  const decision e = policies::combined(other);
  BOOST_TEST(e.remaining == 1);
  BOOST_TEST(e.delay.count() == 0);  // that turn is past by then
  BOOST_TEST(e.reset_after.count() == 50);
}

// The tier with the least left counted it hours ahead, as the clock had stepped back: that was said
// to be the time of the reservation.
BOOST_AUTO_TEST_CASE(a_reservation_beside_a_tier_whose_time_is_ahead_says_its_own_turn) {
  const policies::kernel kernels[] = {policies::compile(sliding_log{10, std::chrono::hours(24)}),
                                      policies::compile(leaky_bucket{100, per_second(10)})};
  std::vector<any_state> states(2);
  std::vector<policies::tier<any_state>> both;
  for (std::size_t i = 0; i < 2; ++i) {
    std::visit([&](const auto& k) { policies::state_for(k, states[i]); }, kernels[i]);
    both.push_back({&kernels[i], &states[i], 1});
  }
  const std::int64_t ahead = 1'790'000'000'123'456, now = ahead - 3'600'000'000;
  BOOST_TEST(policies::record_all<any_state>({both.data(), 1}, ahead).allowed);
  BOOST_TEST(policies::reserve_all<any_state>(both, now, 0).allowed);
  const decision d = policies::reserve_all<any_state>(both, now, 1'000'000);
  BOOST_TEST(d.allowed);
  BOOST_TEST(d.remaining == 7);  // in the log
  BOOST_TEST(d.delay.count() == 100'000);
  BOOST_TEST(d.decided_at.time_since_epoch().count() == now);
  BOOST_TEST((d.decided_at + d.reset_after).time_since_epoch().count() == ahead + 86'400'000'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace joint_test

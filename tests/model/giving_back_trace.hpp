#pragma once

// Random requests, reservations, refunds and charges on a few buckets, and their replay without
// what was given back.

#include "policy/tier_set.hpp"
#include "support/joint.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace weir::test::giving_back {

using policies::any_state;
using policies::instant;

constexpr instant t0 = 1'790'000'000'123'456;
constexpr int steps_wanted = test::is_sanitized ? 100'000 : 1'000'000;
constexpr int steps_per_trace = 250;

/// The tiers of a limiter, and the states that they use.
struct asker {
  std::vector<policies::kernel> kernels;
  std::vector<std::size_t> states;

  template <class States>
  std::vector<policies::tier<any_state>> tiers(States& of,
                                               const std::vector<std::int64_t>& costs) const {
    std::vector<policies::tier<any_state>> all;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      all.push_back({&kernels[i], &of[states[i]], costs[i]});
    }
    return all;
  }
};

struct request {
  std::size_t by;
  instant clock, turn;
  std::vector<std::int64_t> costs;  // what is left of them
  joint_decision said;
  std::vector<std::int64_t> found;
  bool charged = false, is_settled = false;
};

enum class limiters { one, of_equal_rates, of_any_rates };

class trace {
 public:
  trace(test::random_source& random, limiters which, bool leaky, bool steps_back)
      : random_(random), steps_back_(steps_back) {
    const std::size_t count = random.one_in(2) ? 1 : static_cast<std::size_t>(random.between(2, 3));
    for (std::size_t i = 0; i < count; ++i) {
      shape& s = bases_.emplace_back(random_meter(leaky && random.one_in(3)));
      // A part of a microsecond is of one rate only.
      if (which == limiters::of_any_rates) s.count = 1;
      states_.emplace_back(policies::meter::state{});
    }
    const std::int64_t askers = which == limiters::one ? 1 : random.between(2, 3);
    for (std::int64_t a = 0; a < askers; ++a) {
      asker& one = askers_.emplace_back();
      for (std::size_t i = 0; i < count; ++i) {
        if (a > 0 && count > 1 && random.one_in(3))
          continue;  // a group: one asks less than the other
        shape s = bases_[i];
        if (a > 0 && which == limiters::of_any_rates) s = of_another_rate(bases_[i]);
        one.kernels.emplace_back(policies::meter(s.count, s.period, s.burst, s.leaky));
        one.states.push_back(i);
        text_ += s.text() + (a > 0 ? "' " : " ");
      }
      if (one.kernels.empty()) askers_.pop_back();
    }
    step_size_ = std::max<std::int64_t>(1, bases_[0].period / bases_[0].count);
  }

  void run() {
    for (step_ = 0; step_ < steps_per_trace; ++step_) {
      move_clock();
      const std::int64_t what = random_.between(1, 20);
      if (what <= 9) {
        record();
      } else if (what <= 12) {
        acquire();
      } else if (what <= 13) {
        charge();
      } else {
        give_back();
      }
    }
    replay();
  }

  std::int64_t taken = 0, reserved = 0, returned = 0, came_back = 0, mixed = 0;

 private:
  struct shape {
    std::int64_t count, period, burst;
    bool leaky;
    std::string text() const {
      return std::to_string(burst) + " at " + std::to_string(count) + " per " +
             std::to_string(period) + (leaky ? "us leaky" : "us");
    }
  };

  shape random_meter(bool leaky) {
    const std::int64_t count = random_.one_in(2) ? 1 : random_.between(1, 150);
    return {count, random_.one_in(2) ? random_.between(1, 200) : random_.magnitude(1'000'000),
            random_.one_in(2) ? random_.between(1, 12) : random_.magnitude(300), leaky};
  }

  /// No bucket is so small that it cuts what another took down to its own size.
  shape of_another_rate(const shape& s) {
    const std::int64_t whole = s.burst * s.period;
    const std::int64_t period = random_.between(1, std::min(3 * s.period, whole / 5 * 4 + 1));
    const std::int64_t least = (whole + period - 1) / period;
    const std::int64_t most = std::max(least, whole / 5 * 9 / period);
    return {1, period, random_.between(least, random_.one_in(2) ? least : most), false};
  }

  void move_clock() {
    if (random_.one_in(3)) return;
    if (steps_back_ && random_.one_in(30)) {
      const instant back = random_.between(1, 5 * step_size_);
      now_ -= back;
      behind_ += back;
      return;
    }
    now_ += random_.one_in(40) ? random_.magnitude(step_size_ * 400)
                               : random_.between(0, 2 * step_size_);
  }

  const asker& some_asker(std::size_t& number) {
    number = static_cast<std::size_t>(
        random_.between(0, static_cast<std::int64_t>(askers_.size()) - 1));
    return askers_[number];
  }

  std::vector<std::int64_t> some_costs(const asker& a) {
    std::vector<std::int64_t> costs;
    const std::int64_t one = random_.one_in(2) ? 1 : random_.between(1, 6);
    for (const policies::kernel& k : a.kernels) {
      const std::int64_t most = std::get<policies::meter>(k).ceiling();
      costs.push_back(std::min(most, random_.one_in(4) ? random_.magnitude(most) : one));
    }
    return costs;
  }

  void record() {
    request r{};
    const asker& a = some_asker(r.by);
    r.costs = some_costs(a);
    r.said = test::joint([&](auto* further) {
      return policies::record_all<any_state>(a.tiers(states_, r.costs), now_, further);
    });
    r.clock = r.turn = now_;
    if (!r.said.allowed) return;
    all_.push_back(std::move(r));
    ++taken;
  }

  void acquire() {
    request r{};
    const asker& a = some_asker(r.by);
    r.costs = some_costs(a);
    const auto asked = a.tiers(states_, r.costs);
    r.found = policies::found_in(asked, now_);
    const auto max_wait = random_.magnitude(50 * step_size_);
    r.said = test::joint([&](auto* further) {
      return policies::reserve_all<any_state>(asked, now_, max_wait, further);
    });
    r.clock = now_;
    r.turn = now_ + r.said.delay.count();
    if (r.said.delay.count() == 0 || random_.one_in(5)) r.found.clear();
    if (!r.said.allowed) return;
    reserved += r.turn > r.clock;
    all_.push_back(std::move(r));
  }

  void charge() {
    request r{};
    const asker& a = some_asker(r.by);
    r.costs = some_costs(a);
    policies::settle_all(a.tiers(states_, negated(r.costs)), now_, {});
    r.clock = r.turn = now_;
    r.charged = r.is_settled = true;
    all_.push_back(std::move(r));
  }

  void give_back() {
    if (all_.empty()) return;
    const auto last = static_cast<std::int64_t>(all_.size()) - 1;
    request& r = all_[static_cast<std::size_t>(
        random_.one_in(2) ? last - random_.magnitude(last + 1) + 1
                          : last - random_.between(0, std::min<std::int64_t>(last, 15)))];
    if (r.is_settled) return;
    r.is_settled = true;
    std::vector<std::int64_t> costs = r.costs;
    if (random_.one_in(3) && r.turn == r.clock) {
      for (std::int64_t& cost : costs) cost = random_.between(1, cost);
    }
    request charged{};
    const bool mixes = r.turn == r.clock && random_.one_in(3);
    if (mixes) charged = charge_some(r, costs);
    const auto tiers = askers_[r.by].tiers(states_, costs);
    const auto before = sums();
    policies::settle_all(tiers, now_, policies::tickets_of(r.said, std::move(r.found)));
    const auto after = sums();
    ++returned;
    came_back += before != after;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::size_t state = askers_[r.by].states[i];
      if (costs[i] >= 0 && after[state] > before[state]) fail("a refund takes more");
      r.costs[i] -= std::max<std::int64_t>(0, costs[i]);
    }
    if (!charged.costs.empty()) all_.push_back(std::move(charged));
  }

  /// At some of the tiers the call cost what it took, or more; that is said as another request.
  request charge_some(const request& r, std::vector<std::int64_t>& costs) {
    request more{r.by, now_, now_, {}, {}, {}, true, true};
    for (std::int64_t& cost : costs) {
      if (random_.one_in(2)) cost = random_.one_in(2) ? 0 : -random_.between(1, 6);
      more.costs.push_back(std::max<std::int64_t>(0, -cost));
      mixed += cost < 0;
    }
    return more;
  }

  static std::vector<std::int64_t> negated(std::vector<std::int64_t> costs) {
    for (std::int64_t& cost : costs) cost = -cost;
    return costs;
  }

  std::vector<instant> sums() const {
    std::vector<instant> all;
    for (const any_state& s : states_) all.push_back(std::get<policies::meter::state>(s).whole);
    return all;
  }

  /// In the order in which they were counted; and with one bucket for all, in the order of their
  /// turns, too.
  void replay() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      any_state s = policies::meter::state{};
      for (const request& r : all_) {
        const asker& a = askers_[r.by];
        for (std::size_t k = 0; k < a.kernels.size(); ++k) {
          if (a.states[k] != i || r.costs[k] == 0) continue;
          const policies::kernel lax = with_slack(a.kernels[k]);
          const policies::tier<any_state> one[] = {
              {&lax, &s, r.charged ? -r.costs[k] : r.costs[k]}};
          if (r.charged) {
            policies::settle_all(one, r.clock, {});
            continue;
          }
          const decision d = policies::record_all<any_state>(one, {r.clock, r.turn});
          if (!d.allowed) fail("more was given back than taken: " + test::text_of(r.said));
          // A queue may let it go by then; tiers are counted without the delays of others.
          const auto& m = std::get<policies::meter>(lax);
          const bool is_alone = a.kernels.size() == 1 || r.turn > r.clock;
          const auto most = r.turn > r.clock ? r.turn - d.decided_at.time_since_epoch().count()
                                             : r.said.delay.count();
          if (m.is_leaky() && is_alone && d.delay.count() > most) {
            fail("goes too early: " + test::text_of(r.said));
          }
        }
      }
    }
  }

  /// A bucket whose clock has stepped back by `d` may go on as it was, `d` earlier. If a request
  /// that had drained by then is refunded, it gives back what drains in `d` once more
  /// (docs/settling.md, exceptions).
  policies::kernel with_slack(const policies::kernel& k) const {
    if (behind_ == 0) return k;
    const auto& m = std::get<policies::meter>(k);
    const auto unit = m.arguments(1);
    const std::int64_t parts = unit[2], interval = unit[3] * parts + unit[4];
    return policies::meter(parts, interval, m.limit() + 2 * behind_ * parts / interval + 1, false);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " " + text_ +
                             "step " + std::to_string(step_) + ": " + what);
  }

  test::random_source& random_;
  const bool steps_back_;
  std::vector<shape> bases_;
  std::vector<asker> askers_;
  std::vector<any_state> states_;
  std::vector<request> all_;
  std::int64_t step_size_ = 1;
  instant now_ = t0;
  instant behind_ = 0;
  int step_ = 0;
  std::string text_;
};

}  // namespace weir::test::giving_back

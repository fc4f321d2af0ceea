// Plans with other numbers share a key: whatever one has written, the others read it alike in C++
// and in a real server's scripts, and write alike.
#include <type_traits>

#include "model/policy_shapes.hpp"
#include "model/tier_script.hpp"
#include "model/trace_clock.hpp"
#include "support/redis_server.hpp"
#include "support/text.hpp"

namespace changing_plans_test {

using namespace weir;
using policies::any_replay;
using policies::any_state;
using policies::request_time;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr int traces = 60;
constexpr int steps_per_trace = 150;
constexpr std::int64_t longest_wait = 2'678'400'000'000;  // 31 days

struct tally {
  int allowed = 0, refused = 0, reserved = 0, given_back = 0, charged = 0, lowered = 0;
};

struct fixture : model::script_server {
  fixture() : script_server(1300) {}
};

/// One key of some plans.
class trace {
 public:
  trace(fixture& f, std::vector<policy> plans, tally& total)
      : f_(f), plans_(std::move(plans)), total_(total), states_(1) {
    const policies::kernel first = policies::compile(plans_[0]);
    std::visit([&](const auto& k) { policies::state_for(k, states_[0]); }, first);
    clock_.emplace(f.random, t0,
                   std::min<std::int64_t>(model::span_of(f.random.pick(plans_)), 1'000'000'000));
    f.client.must("DEL", "k");
  }

  void run() {
    for (step_ = 0; step_ < steps_per_trace; ++step_) {
      clock_->advance();
      ask_by(f_.random.pick(plans_));
      // A policy that counts refused requests takes no reservations, and gives nothing back.
      const bool can_reserve = !std::visit([](const auto& k) { return k.counts_refused(); },
                                           asked_.kernels[0]);
      switch (f_.random.between(0, 7)) {
        case 0:
          fetch();
          break;
        case 1:
        case 2:
          can_reserve ? reserve() : record();
          break;
        case 3:
          can_reserve && !taken_.empty() ? give_back() : record();
          break;
        case 4:
          if (can_reserve && f_.random.one_in(4)) {
            f_.random.one_in(2) ? charge() : lower();
            break;
          }
          [[fallthrough]];
        default:
          record();
      }
    }
  }

 private:
  struct request {
    policy plan;
    decision said;
    std::int64_t cost;
    std::vector<std::int64_t> found;  // by its reservation
  };

  void ask_by(const policy& plan) {
    plan_ = plan;
    const policies::kernel k = policies::compile(plan_);
    const std::int64_t most = std::visit([](const auto& one) { return one.ceiling(); }, k);
    asked_ = {{k}, {f_.random.one_in(2) ? 1 : f_.random.magnitude(most)}, {"k"}};
  }

  void compare(const char* what, const decision& here, const decision& there) {
    const auto same = [](const receipt::bucket& a, const receipt::bucket& b) {
      return a.whole == b.whole && a.part == b.part && a.returned == b.returned;
    };
    clock_->hear(here);
    if (here == there && std::ranges::equal(here.receipt.buckets, there.receipt.buckets, same)) {
      return;
    }
    std::string text = "WEIR_TEST_SEED=" + std::to_string(test::run_seed());
    for (const policy& p : plans_) text += "\n  " + test::text_of(p);
    throw std::runtime_error(
        text + "\nstep " + std::to_string(step_) + ", " + what + " of " + test::text_of(plan_) +
        ", cost " + std::to_string(asked_.costs[0]) + ", now=" + std::to_string(clock_->now()) +
        "\n  C++: " + test::text_of(here) + "\n  Lua: " + test::text_of(there));
  }

  void fetch() {
    auto found = f_.found_by(asked_, clock_->now(), 0);
    compare("a fetch", policies::fetch_all<any_state>(asked_.tiers(states_), clock_->now()),
            policies::fetch_all<any_replay>(asked_.tiers(found), clock_->now()));
  }

  void record() {
    // Not by record_all(), which counts nothing that is refused.
    const auto of = [&]<class State>(State& s) {
      return std::visit(
          [&]<class K>(const K& k) {
            using own = std::conditional_t<std::is_same_v<State, any_state>, typename K::state,
                                           typename K::replay>;
            return k.record(std::get<own>(s), clock_->now(), asked_.costs[0]);
          },
          asked_.kernels[0]);
    };
    const decision d = of(states_[0]);
    auto found = f_.found_by(asked_, clock_->now());
    compare("a record", d, of(found[0]));
    (d.allowed ? total_.allowed : total_.refused) += 1;
    if (d.allowed) taken_.push_back({plan_, d, asked_.costs[0], {}});
  }

  void reserve() {
    const std::int64_t max_wait = f_.random.magnitude(longest_wait);
    const auto there = f_.reserve(asked_, clock_->now(), 1, max_wait);
    auto found_here = policies::found_in(asked_.tiers(states_), clock_->now());
    const decision d = policies::reserve_all<any_state>(asked_.tiers(states_), clock_->now(),
                                                        max_wait);
    compare("a reservation", d, there[0].said);
    if (!d.allowed) return;
    if (d.delay.count() == 0) found_here.clear();
    total_.reserved += d.delay.count() > 0;
    taken_.push_back({plan_, d, asked_.costs[0], std::move(found_here)});
  }

  /// One of the last, mostly. A limiter settles no decision of other numbers than its own.
  void give_back() {
    const auto last = static_cast<std::int64_t>(taken_.size());
    const auto chosen = taken_.begin() + (last - f_.random.magnitude(last));
    const request r = std::move(*chosen);
    taken_.erase(chosen);
    ask_by(r.plan);
    asked_.costs[0] = r.cost;
    settle("what was given back", policies::tickets_of(r.said, r.found));
    ++total_.given_back;
  }

  void charge() {
    asked_.costs[0] = -f_.random.magnitude(max_units);
    settle("a charge", policies::tickets_of(decision{}));
    ++total_.charged;
  }

  void settle(const char* what, const policies::tickets& known) {
    const auto arguments = asked_.settlement(0, known);
    policies::settle_all(asked_.tiers(states_), clock_->now(), known);
    compare_settled(what, arguments);
  }

  void lower() {
    const auto arguments = asked_.lowering();
    policies::lower_all(asked_.tiers(states_), clock_->now());
    compare_settled("a lowering", arguments);
    ++total_.lowered;
  }

  void compare_settled(const char* what, const std::vector<std::int64_t>& arguments) {
    auto found = f_.settle(asked_, clock_->now(), arguments).left;
    compare(what, policies::settled<any_state>(asked_.tiers(states_), clock_->now(), true),
            policies::settled<any_replay>(asked_.tiers(found), clock_->now(), true));
  }

  fixture& f_;
  const std::vector<policy> plans_;
  tally& total_;
  std::vector<any_state> states_;
  std::optional<model::trace_clock> clock_;
  policy plan_;
  model::tier_script asked_;
  std::vector<request> taken_;
  int step_ = 0;
};

template <class... Kinds>
void compare_all(fixture& f) {
  tally total;
  for (int n = 0; n < traces; ++n) {
    std::vector<policy> plans;
    for (std::int64_t i = f.random.between(2, 4); i > 0; --i) {
      const policy of_each[] = {model::random_policy<Kinds>(f.random)...};
      plans.push_back(f.random.pick(of_each));
      // Counters of windows of one length say nothing about another (docs/policies.md).
      if (auto* const w = std::get_if<sliding_window>(&plans.back())) {
        w->window = std::get<sliding_window>(plans.front()).window;
        if (w->limit != unlimited) w->limit = std::min(w->limit, model::most_of(*w));
      }
    }
    trace(f, std::move(plans), total).run();
  }
  BOOST_TEST_MESSAGE(total.allowed << " allowed, " << total.refused << " refused, "
                                   << total.reserved << " reserved, " << total.given_back
                                   << " given back, " << total.charged << " charged, "
                                   << total.lowered << " lowered");
  for (const int count : {total.allowed, total.refused, total.reserved, total.given_back}) {
    BOOST_TEST(count > traces);
  }
  BOOST_TEST(total.charged > 0);
  BOOST_TEST(total.lowered > 0);
}

BOOST_FIXTURE_TEST_SUITE(changing_plans_suite, fixture)

BOOST_AUTO_TEST_CASE(buckets) { compare_all<token_bucket, gcra, leaky_bucket>(*this); }
BOOST_AUTO_TEST_CASE(fixed_windows) { compare_all<fixed_window>(*this); }
BOOST_AUTO_TEST_CASE(sliding_windows) { compare_all<sliding_window>(*this); }
BOOST_AUTO_TEST_CASE(sliding_logs) { compare_all<sliding_log>(*this); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace changing_plans_test

// What is counted and then settled, each tier with a cost of its own: the kernels in C++ and the
// script in a real server do the same; what is given back is never more than was taken, what is
// charged is counted, and what a vendor says is left lowers what is left here.
#include "model/policy_shapes.hpp"
#include "model/record_scripts.hpp"
#include "model/reference.hpp"
#include "model/trace_clock.hpp"
#include "support/joint.hpp"
#include "support/redis_server.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"

namespace settle_test {

using namespace weir;
using namespace weir::test;
using policies::any_replay;
using policies::any_state;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t steps_wanted = test::is_sanitized ? 8'000 : 30'000;
constexpr std::int64_t steps_per_trace = 300;

/// Windows are aligned to the epoch here. A window that its first request opened outlasts that
/// request's refund, and the requests that are left do not tell where it began.
policy random_policy(test::random_source& random) {
  policy p = model::random_policy_that_combines(random);
  if (auto* w = std::get_if<fixed_window>(&p)) {
    w->anchor = anchor::epoch;
    w->offset = 0us;
  }
  return p;
}

struct fixture : model::script_server {
  fixture() : script_server(901) {}
};

enum class clock_goes { forward, anyhow };

/// One subject of some policies, whose requests are settled now and then.
class settled_trace {
 public:
  settled_trace(fixture& f, int number) : f_(f), number_(number) {
    const std::int64_t count = f.random.one_in(2) ? 1 : f.random.between(2, 3);
    for (std::int64_t n = 0; n < count; ++n) {
      const policy p = random_policy(f.random);
      policies_.push_back(p);
      const policies::kernel k = policies::compile(p);
      std::visit([&](const auto& one) { policies::state_for(one, states_.emplace_back()); }, k);
      asked_.kernels.push_back(k);
      asked_.keys.push_back("k" + std::to_string(number) + "." + std::to_string(n));
      text_ += test::text_of(p) + "; ";
      span_ = std::max(std::min<std::int64_t>(model::span_of(p), 100'000'000), span_);
      ceilings_.push_back(std::visit([](const auto& one) { return one.ceiling(); }, k));
    }
    clock_.emplace(f.random, t0, span_);
  }

  void run(clock_goes how) {
    const bool forward = how == clock_goes::forward;
    for (step_ = 0; step_ < steps_per_trace; ++step_) {
      clock_->advance();
      now_ = forward ? std::max(now_, clock_->now()) : clock_->now();
      record();
      if (!taken_.empty() && f_.random.one_in(3)) settle();
      if (f_.random.one_in(20)) lower();
      if (f_.random.one_in(5)) model::require_ttls(f_.client, asked_, states_);
    }
    if (forward) nothing_was_gained();
    for (const std::string& key : asked_.keys) f_.client.must("DEL", key);
  }

  std::int64_t allowed = 0, refused = 0, refunds = 0, charges = 0, mixed = 0, repeats = 0,
               lowered = 0;

 private:
  struct request {
    joint_decision said;
    std::vector<std::int64_t> costs;
    std::string marker = {};  // once it is settled
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + " " + text_ +
                             "step " + std::to_string(step_) + ": " + what);
  }

  void compare(const joint_decision& here, const joint_decision& there) const {
    const auto same = [](const receipt::bucket& a, const receipt::bucket& b) {
      return a.whole == b.whole && a.part == b.part && a.returned == b.returned;
    };
    if (here == there &&
        std::ranges::equal(policies::tickets_of(here).buckets, policies::tickets_of(there).buckets,
                           same) &&
        here.receipt.counted_at == there.receipt.counted_at) {
      return;
    }
    const auto known = [](const joint_decision& d) {
      std::string text = test::text_of(d) + " counted=" + std::to_string(d.receipt.counted_at);
      for (const receipt::bucket& b : policies::tickets_of(d).buckets) {
        text += " " + std::to_string(b.whole) + "/" + std::to_string(b.part) + "-" +
                std::to_string(b.returned);
      }
      return text;
    };
    fail("\n  C++: " + known(here) + "\n  Lua: " + known(there));
  }

  void record() {
    asked_.costs.clear();
    for (const std::int64_t most : ceilings_) {
      asked_.costs.push_back(f_.random.one_in(2) ? 1 : f_.random.magnitude(most));
    }
    auto found = f_.found_by(asked_, now_);
    const joint_decision d = test::joint([&](auto* further) {
      return policies::record_all<any_state>(asked_.tiers(states_), now_, further);
    });
    compare(d, test::joint([&](auto* further) {
              return policies::record_all<any_replay>(asked_.tiers(found), now_, further);
            }));
    clock_->hear(d);
    (d.allowed ? allowed : refused) += 1;
    if (d.allowed) taken_.push_back({d, asked_.costs});
  }

  /// One of the last, mostly: the others no longer matter.
  void settle() {
    const auto last = static_cast<std::int64_t>(taken_.size()) - 1;
    request& r = taken_[static_cast<std::size_t>(last - f_.random.magnitude(last + 1) + 1)];
    const bool again = !r.marker.empty();
    if (!again) r.marker = "k" + std::to_string(number_) + ":s" + std::to_string(step_);

    model::tier_script settling = asked_;
    settling.costs = amounts(r.costs);
    const policies::tickets known = policies::tickets_of(r.said);
    auto [is_done, found] = f_.settle(settling, now_, settling.settlement(now_ + span_, known),
                                      r.marker);

    const auto here = settling.tiers(states_);
    if (!again) policies::settle_all(here, now_, known);
    const decision d = policies::settled<any_state>(here, now_, !again);
    compare(d, policies::settled<any_replay>(settling.tiers(found), now_, is_done));
    clock_->hear(d);

    const auto [least, most] = std::ranges::minmax(settling.costs);
    repeats += again;
    refunds += !again && least > 0;
    charges += !again && most < 0;
    mixed += !again && least < 0 && most > 0;
    if (again) return;
    for (std::size_t i = 0; i < r.costs.size(); ++i) {
      r.costs[i] -= std::max<std::int64_t>(0, settling.costs[i]);
    }
  }

  /// What each tier gives back, or is charged: all, none or some of them.
  std::vector<std::int64_t> amounts(const std::vector<std::int64_t>& taken) {
    std::vector<std::int64_t> all;
    const bool mixes = f_.random.one_in(2), charges_all = f_.random.one_in(4);
    for (const std::int64_t cost : taken) {
      if (mixes && f_.random.one_in(4)) {
        all.push_back(0);
      } else if (mixes ? f_.random.one_in(2) : charges_all) {
        all.push_back(-f_.random.magnitude(max_units));
      } else {
        const std::int64_t most = std::max<std::int64_t>(1, cost);
        all.push_back(f_.random.one_in(2) ? most : f_.random.magnitude(most));
      }
    }
    return all;
  }

  /// To what a vendor says is left.
  void lower() {
    model::tier_script left = asked_;
    std::vector<std::int64_t> before;
    for (std::size_t i = 0; i < ceilings_.size(); ++i) {
      left.costs[i] = f_.random.one_in(4) ? 0 : f_.random.magnitude(ceilings_[i]);
      before.push_back(remaining(i));
    }
    auto found = f_.settle(left, now_, left.lowering()).left;
    policies::lower_all(left.tiers(states_), now_);
    const decision d = policies::settled<any_state>(left.tiers(states_), now_, true);
    compare(d, policies::settled<any_replay>(left.tiers(found), now_, true));
    clock_->hear(d);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool counts_only = before[i] == unlimited;
      if (remaining(i) != (counts_only ? unlimited : std::min(before[i], left.costs[i]))) {
        fail("of " + std::to_string(before[i]) + " there should be " +
             std::to_string(left.costs[i]) + " left, not " + std::to_string(remaining(i)));
      }
    }
    ++lowered;
  }

  std::int64_t remaining(std::size_t tier) {
    const auto all = asked_.tiers(states_);
    return policies::settled<any_state>(std::span(all).subspan(tier, 1), now_, true).remaining;
  }

  /// What was kept could all have passed if the rest had never been asked for.
  void nothing_was_gained() {
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      const auto expected = model::make_reference(policies_[i], model::most_of(policies_[i]));
      for (const request& r : taken_) {
        const std::int64_t at = r.said.decided_at.time_since_epoch().count();
        if (r.costs[i] > 0 && !expected->record(at, r.costs[i]).allowed) {
          fail("more was given back than taken: " + test::text_of(r.said));
        }
      }
    }
  }

  fixture& f_;
  const int number_;
  std::vector<policy> policies_;
  std::vector<std::int64_t> ceilings_;
  std::vector<request> taken_;
  model::tier_script asked_;
  std::vector<any_state> states_;
  std::int64_t span_ = 1;
  std::int64_t now_ = 0;
  std::int64_t step_ = 0;
  std::optional<model::trace_clock> clock_;
  std::string text_;
};

void compare_all(fixture& f, clock_goes how) {
  std::int64_t steps = 0, allowed = 0, refused = 0, refunds = 0, charges = 0, mixed = 0,
               repeats = 0, lowered = 0;
  for (int n = 0; steps < steps_wanted; ++n) {
    settled_trace trace(f, n);
    trace.run(how);
    steps += steps_per_trace;
    allowed += trace.allowed;
    refused += trace.refused;
    refunds += trace.refunds;
    charges += trace.charges;
    mixed += trace.mixed;
    repeats += trace.repeats;
    lowered += trace.lowered;
  }
  BOOST_TEST_MESSAGE(allowed << " allowed, " << refused << " refused, " << refunds << " refunds, "
                             << charges << " charges, " << mixed << " of both, " << repeats
                             << " repeated, " << lowered << " lowered");
  for (const std::int64_t count : {allowed, refused}) BOOST_TEST(count > steps_wanted / 20);
  for (const std::int64_t count : {refunds, charges, repeats, lowered}) {
    BOOST_TEST(count > steps_wanted / 200);
  }
  BOOST_TEST(mixed > steps_wanted / 1000);  // as many as the policies have several tiers
}

BOOST_FIXTURE_TEST_SUITE(settle_suite, fixture)

BOOST_AUTO_TEST_CASE(settling_never_mints_capacity) { compare_all(*this, clock_goes::forward); }

BOOST_AUTO_TEST_CASE(settling_agrees_when_the_clock_steps_back) {
  compare_all(*this, clock_goes::anyhow);
}

// The log entered the request at the end of the coarse step, and the receipt had that time for the
// bucket, too: a refund gave back what had drained already.
BOOST_AUTO_TEST_CASE(a_log_whose_resolution_became_finer_does_not_date_the_requests_of_a_bucket) {
  const token_bucket bucket{.capacity = 10, .refill = per_second(1)};
  sliding_log log{.limit = 10, .window = 1min, .resolution = 1min};
  model::tier_script both;
  std::vector<any_state> states(2);
  both.kernels = {policies::compile(bucket), policies::compile(log)};
  both.keys = {"k0", "k1"};
  both.costs = {1, 1};
  states[0].emplace<policies::meter::state>();
  states[1].emplace<policies::sliding_log::state>();

  const std::int64_t begin = t0 - t0 % 60'000'000;
  const auto record = [&](std::int64_t now) {
    auto found = found_by(both, now);
    const decision d = policies::record_all<any_state>(both.tiers(states), now);
    const decision there = policies::record_all<any_replay>(both.tiers(found), now);
    BOOST_TEST((d.allowed && d == there), test::text_of(there));
    BOOST_TEST(d.receipt.counted_at == now);
    BOOST_TEST(there.receipt.counted_at == now);
    return there;
  };
  record(begin);
  log.resolution = 1s;
  both.kernels[1] = policies::compile(log);
  const decision refunded = record(begin + 20'000'000);
  record(begin + 20'900'000);

  const std::int64_t now = begin + 21'500'000;  // what the refunded one took has drained
  const policies::tickets known = policies::tickets_of(refunded);
  auto found = give_back(both, now, known).left;
  policies::settle_all(both.tiers(states), now, known);
  for (std::size_t tier = 0; tier < 2; ++tier) {
    const auto here = both.tiers(states);
    const auto at_server = both.tiers(found);
    const auto one = std::span(here).subspan(tier, 1);
    const decision d = policies::settled<any_state>(one, now, true);
    const decision there = policies::settled<any_replay>(std::span(at_server).subspan(tier, 1), now,
                                                         true);
    BOOST_TEST((d == there), test::text_of(there));
    // The bucket holds a part of the last request; the log gives back only what stands in a step
    // of its own.
    BOOST_TEST(d.used == (tier == 0 ? 1 : 3), test::text_of(d));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settle_test

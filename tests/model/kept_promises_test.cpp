// Policies change while their keys are in use. Whoever is refused and waits `retry_after` passes
// then, if no other comes: in C++ and in a real server's scripts. The clock does not step back.
#include <boost/system/system_error.hpp>

#include "model/policy_shapes.hpp"
#include "model/tier_script.hpp"
#include "model/trace_clock.hpp"
#include "support/redis_server.hpp"
#include "support/sanitized.hpp"
#include "support/text.hpp"

namespace kept_promises_test {

using namespace weir;
using namespace weir::test;
using policies::any_replay;
using policies::any_state;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr int traces = test::is_sanitized ? 40 : 150;
constexpr int steps_per_trace = 120;
constexpr std::int64_t longest_wait = 2'678'400'000'000;  // 31 days

struct fixture : model::script_server {
  fixture() : script_server(4906) {}
};

bool is_valid(const policy& p) {
  try {
    policies::compile(p);
    return true;
  } catch (const boost::system::system_error&) {
    return false;
  }
}

template <class Field>
void maybe(test::random_source& random, Field& to, const Field& from) {
  if (random.one_in(2)) to = from;
}

/// Takes some fields of another policy of its kind.
void change(test::random_source& random, fixed_window& p, const fixed_window& to) {
  maybe(random, p.limit, to.limit);
  maybe(random, p.window, to.window);
  maybe(random, p.anchor, to.anchor);
  maybe(random, p.offset, to.offset);
  maybe(random, p.count_refused, to.count_refused);
}
void change(test::random_source& random, sliding_window& p, const sliding_window& to) {
  maybe(random, p.limit, to.limit);
  maybe(random, p.window, to.window);
  maybe(random, p.count_refused, to.count_refused);
}
void change(test::random_source& random, sliding_log& p, const sliding_log& to) {
  maybe(random, p.limit, to.limit);
  maybe(random, p.window, to.window);
  maybe(random, p.resolution, to.resolution);
  maybe(random, p.count_refused, to.count_refused);
}
void change(test::random_source& random, token_bucket& p, const token_bucket& to) {
  maybe(random, p.capacity, to.capacity);
  maybe(random, p.refill, to.refill);
}
void change(test::random_source& random, gcra& p, const gcra& to) {
  maybe(random, p.burst, to.burst);
  maybe(random, p.rate, to.rate);
}
void change(test::random_source& random, leaky_bucket& p, const leaky_bucket& to) {
  maybe(random, p.capacity, to.capacity);
  maybe(random, p.leak, to.leak);
}

struct bucket {
  std::int64_t size = 0;  // 0: it is none
  rate r{};
};
bucket bucket_of(const policy& p) {
  if (const auto* b = std::get_if<token_bucket>(&p)) return {b->capacity, b->refill};
  if (const auto* b = std::get_if<gcra>(&p)) return {b->burst, b->rate};
  if (const auto* b = std::get_if<leaky_bucket>(&p)) return {b->capacity, b->leak};
  return {};
}

/// The exception of docs/policies.md: after a change of tiers, a rate above one unit per
/// microsecond may promise 1 us too little.
bool is_too_fast_for_tiers(const policy& p) {
  const bucket b = bucket_of(p);
  return b.size > 0 && b.r.count > std::chrono::microseconds(b.r.period).count();
}

/// A bucket of another name, of the same numbers.
policy renamed(test::random_source& random, const policy& p) {
  const auto [size, r] = bucket_of(p);
  if (size == 0) return p;
  const policy all[] = {token_bucket{size, r}, gcra{r, size}, leaky_bucket{size, r}};
  return random.pick(all);
}

/// The same kind of policy with some other numbers, in either direction, mostly not far away.
policy changed(test::random_source& random, const policy& from) {
  for (;;) {
    policy p = from;
    std::visit(
        [&]<class Policy>(Policy& one) {
          Policy to = model::random_policy<Policy>(random);
          const auto near = [&]<class Number>(Number& number, Number value) {
            const std::int64_t by = random.between(1, 9), of = random.between(1, 9);
            if (!random.one_in(3)) number = std::max(Number{1}, value / of * by);
          };
          if constexpr (requires { to.limit; }) near(to.limit, std::min(one.limit, max_units));
          if constexpr (requires { to.capacity; }) near(to.capacity, one.capacity);
          if constexpr (requires { to.burst; }) near(to.burst, one.burst);
          if constexpr (requires { to.window; }) {
            std::chrono::microseconds window = to.window;
            near(window, std::chrono::microseconds(one.window));
            to.window = window;
          }
          if constexpr (requires { to.refill; }) near(to.refill.count, one.refill.count);
          if constexpr (requires { to.rate; }) near(to.rate.count, one.rate.count);
          if constexpr (requires { to.leak; }) near(to.leak.count, one.leak.count);
          change(random, one, to);
        },
        p);
    p = renamed(random, p);
    if (is_valid(p)) return p;
  }
}

struct tally {
  int allowed = 0, refused = 0, reserved = 0, beyond_max_wait = 0, changes = 0;
};

class trace {
 public:
  trace(fixture& f, std::vector<policy> tiers, tally& total)
      : f_(f), tiers_(std::move(tiers)), total_(total) {
    std::int64_t span = 1;
    for (const policy& p : tiers_) {
      span = std::max(span, std::min<std::int64_t>(model::span_of(p), 1'000'000'000));
      keys_.push_back("k" + std::to_string(keys_.size()));
      copies_.push_back("c" + std::to_string(copies_.size()));
      std::visit([&](const auto& k) { policies::state_for(k, states_.emplace_back()); },
                 policies::compile(p));
      f_.client.must("DEL", keys_.back());
    }
    clock_.emplace(f.random, t0, span);
    ask_by_tiers();
  }

  void run() {
    for (step_ = 0; step_ < steps_per_trace; ++step_) {
      clock_->advance();
      now_ = std::max(now_, clock_->now());
      if (f_.random.one_in(6)) change_one();
      choose_cost();
      const bool can_reserve = std::ranges::none_of(asked_.kernels, policies::counts_refused);
      const std::int64_t chance = f_.random.between(0, 9);
      if (can_reserve && chance < 3) {
        reserve();
      } else if (can_reserve && chance == 3) {
        charge();
      } else {
        record();
      }
    }
  }

 private:
  void ask_by_tiers() {
    asked_.kernels.clear();
    for (const policy& p : tiers_) asked_.kernels.push_back(policies::compile(p));
    asked_.keys = keys_;
  }

  void change_one() {
    policy& p = tiers_[static_cast<std::size_t>(
        f_.random.between(0, static_cast<std::int64_t>(tiers_.size()) - 1))];
    // Several tiers never count what they refuse.
    do {
      p = changed(f_.random, p);
    } while (tiers_.size() > 1 &&
             (is_too_fast_for_tiers(p) || policies::counts_refused(policies::compile(p))));
    text_ += "\n  step " + std::to_string(step_) + ": " + test::text_of(p);
    ask_by_tiers();
    ++total_.changes;
  }

  void choose_cost() {
    const std::int64_t most = policies::ceiling_of(asked_.kernels);
    const std::int64_t cost = f_.random.one_in(3)   ? 1
                              : f_.random.one_in(2) ? f_.random.magnitude(most)
                                                    : std::max<std::int64_t>(1, most / 3);
    asked_.costs.assign(tiers_.size(), cost);
  }

  [[noreturn]] void fail(const std::string& what) const {
    std::string text = "WEIR_TEST_SEED=" + std::to_string(test::run_seed()) + text_ + "\n  now: ";
    for (const policy& p : tiers_) text += test::text_of(p) + "; ";
    throw std::runtime_error(text + "\nstep " + std::to_string(step_) + ", cost " +
                             std::to_string(asked_.costs[0]) + ", " + std::to_string(now_) + ": " +
                             what);
  }

  void compare(const decision& here, const decision& there) {
    clock_->hear(here);
    if (!(here == there)) {
      fail("\n  C++: " + test::text_of(here) + "\n  Lua: " + test::text_of(there));
    }
  }

  /// A single tier may count what it refuses; several never do.
  template <class State>
  decision record_in(std::vector<State>& states, std::int64_t now) const {
    return policies::record_all<State>(asked_.tiers(states), now);
  }
  decision record_there(std::int64_t now) {
    auto found = f_.found_by(asked_, now);
    return record_in(found, now);
  }

  void record() {
    const decision looked = policies::fetch_all<any_state>(asked_.tiers(states_), now_);
    const decision d = record_in(states_, now_);
    compare(d, record_there(now_));
    (d.allowed ? total_.allowed : total_.refused) += 1;
    if (looked.allowed != d.allowed) fail("fetch says another thing");
    if (d.allowed) return;
    const auto retry = d.retry_after.count();
    if (retry <= 0) fail("nothing to wait for: " + test::text_of(d));
    if ((d.decided_at + d.retry_after).time_since_epoch().count() != now_ + retry) {
      fail("retry_after counts from another time than now: " + test::text_of(d));
    }
    std::vector<any_state> early = states_, later = states_;
    if (record_in(early, now_ + retry - 1).allowed) fail("passes earlier: " + test::text_of(d));
    const decision again = record_in(later, now_ + retry);
    if (!again.allowed) {
      fail("refused again: " + test::text_of(d) + "\n  then: " + test::text_of(again));
    }
    if (!f_.random.one_in(3)) return;
    on_copies([&] {
      if (!(record_there(now_ + retry) == again)) fail("the scripts refuse again");
    });
  }

  decision reserve_there(std::int64_t now, std::int64_t max_wait) {
    return f_.reserve(asked_, now, 1, max_wait)[0].said;
  }

  void reserve() {
    const std::int64_t max_wait = f_.random.one_in(3) ? 0 : f_.random.magnitude(longest_wait);
    const auto reserve_in = [&](std::vector<any_state>& states, std::int64_t now) {
      return policies::reserve_all<any_state>(asked_.tiers(states), now, max_wait);
    };
    const decision d = reserve_in(states_, now_);
    compare(d, reserve_there(now_, max_wait));
    (d.allowed ? total_.reserved : total_.beyond_max_wait) += 1;
    if (d.allowed) return;
    const auto retry = d.retry_after.count();
    std::vector<any_state> early = states_, later = states_;
    if (retry <= 0) fail("nothing to wait for: " + test::text_of(d));
    if (reserve_in(early, now_ + retry - 1).allowed) fail("is reserved earlier");
    const decision again = reserve_in(later, now_ + retry);
    if (!again.allowed) {
      fail("not reserved: " + test::text_of(d) + "\n  then: " + test::text_of(again));
    }
    if (!f_.random.one_in(3)) return;
    on_copies([&] {
      if (!(reserve_there(now_ + retry, max_wait) == again)) fail("the scripts refuse again");
    });
  }

  void charge() {
    for (std::int64_t& cost : asked_.costs) cost = -cost;
    const policies::tickets known = policies::tickets_of(decision{});
    f_.give_back(asked_, now_, known);
    policies::settle_all(asked_.tiers(states_), now_, known);
  }

  template <class F>
  void on_copies(F&& f) {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      f_.client.must("DEL", copies_[i]);
      f_.client.must("COPY", keys_[i], copies_[i]);
    }
    asked_.keys = copies_;
    f();
    asked_.keys = keys_;
  }

  fixture& f_;
  std::vector<policy> tiers_;
  tally& total_;
  std::vector<any_state> states_;
  std::vector<std::string> keys_, copies_;
  std::optional<model::trace_clock> clock_;
  model::tier_script asked_;
  std::int64_t now_ = t0;
  int step_ = 0;
  std::string text_;
};

template <class MakeTiers>
void keep_promises(fixture& f, MakeTiers make) {
  tally total;
  for (int n = 0; n < traces; ++n) trace(f, make(), total).run();
  BOOST_TEST_MESSAGE(total.allowed << " allowed, " << total.refused << " refused, "
                                   << total.reserved << " reserved, " << total.beyond_max_wait
                                   << " beyond max_wait, " << total.changes << " changes");
  for (const int count : {total.allowed, total.refused, total.reserved, total.changes}) {
    BOOST_TEST(count > traces);
  }
}

template <class... Kinds>
void keep_promises_of(fixture& f) {
  keep_promises(f, [&] {
    const policy of_each[] = {model::random_policy<Kinds>(f.random)...};
    return std::vector<policy>{f.random.pick(of_each)};
  });
}

BOOST_FIXTURE_TEST_SUITE(kept_promises_suite, fixture)

BOOST_AUTO_TEST_CASE(buckets) { keep_promises_of<token_bucket, gcra, leaky_bucket>(*this); }
BOOST_AUTO_TEST_CASE(fixed_windows) { keep_promises_of<fixed_window>(*this); }
BOOST_AUTO_TEST_CASE(sliding_windows) { keep_promises_of<sliding_window>(*this); }
BOOST_AUTO_TEST_CASE(sliding_logs) { keep_promises_of<sliding_log>(*this); }
BOOST_AUTO_TEST_CASE(several_tiers) {
  keep_promises(*this, [this] {
    std::vector<policy> tiers;
    policy one;
    for (std::int64_t i = random.between(2, 3); i > 0; --i) {
      do {
        one = model::random_policy_that_combines(random);
      } while (is_too_fast_for_tiers(one));
      tiers.push_back(one);
    }
    return tiers;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace kept_promises_test

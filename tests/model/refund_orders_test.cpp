// Refunds in every order: of some requests at a bucket, each order gives everything back, and no
// more passes meanwhile than if the refunded requests had never come.
#include <numeric>

#include "policy/tier_set.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace refund_orders_test {

using namespace weir;
using namespace weir::test;
using policies::any_state;
using policies::instant;

constexpr instant t0 = 1'790'000'000'123'456;

/// One bucket. `steps_on` is what the clock goes on before each call.
class bucket {
 public:
  bucket(const policies::kernel& k, std::int64_t steps_on) : kernel_(k), steps_on_(steps_on) {}

  void record(std::int64_t cost) {
    now_ += steps_on_;
    const decision said = counted(state_, now_, cost);
    BOOST_REQUIRE(said.allowed);
    requests_.push_back({now_, cost, said});
  }
  void give_back(std::size_t which, std::int64_t amount) {
    now_ += steps_on_;
    request& r = requests_[which];
    r.cost -= amount;
    held_ += now_ - r.counted;
    policies::settle_all(only(state_, amount), now_, policies::tickets_of(r.said));
  }
  std::size_t size() const { return requests_.size(); }
  std::int64_t used() { return left(state_).used; }
  bool has_whole_units() const { return std::get<policies::meter>(kernel_).has_whole_units(); }
  /// What the refunds took: each one's time since its request.
  std::int64_t held() const { return held_; }
  std::int64_t reset_after() { return left(state_).reset_after.count(); }

  /// How much less passes than if the refunded requests had never come; below zero, if more does.
  std::int64_t lost() {
    any_state without = policies::meter::state{};
    for (const request& r : requests_) {
      if (r.cost > 0) BOOST_REQUIRE(counted(without, r.counted, r.cost).allowed);
    }
    const decision here = left(state_), there = left(without);
    if (here.reset_after < there.reset_after) return -1;
    return there.remaining - here.remaining;
  }

 private:
  struct request {
    instant counted;
    std::int64_t cost;
    decision said;
  };

  std::span<const policies::tier<any_state>> only(any_state& s, std::int64_t cost) {
    one_[0] = {&kernel_, &s, cost};
    return one_;
  }
  decision counted(any_state& s, instant at, std::int64_t cost) {
    return policies::record_all<any_state>(only(s, cost), at);
  }
  decision left(any_state& s) { return policies::fetch_all<any_state>(only(s, 1), now_); }

  policies::kernel kernel_;
  std::int64_t steps_on_;
  any_state state_ = policies::meter::state{};
  policies::tier<any_state> one_[1] = {};
  std::vector<request> requests_;
  instant now_ = t0;
  std::int64_t held_ = 0;
};

const policy buckets[] = {token_bucket{10, per_hour(1)},     token_bucket{12, per_second(3)},
                          token_bucket{40, {3, 7us}},        token_bucket{40, {7, 3us}},
                          gcra{per_second(1'000'000), 4000}, gcra{{7, 200us}, 900},
                          token_bucket{11, {3, 10ms}}};

/// Calls f(kernel, steps on, costs, order) for each bucket, step of the clock, costs and order.
template <class F>
void for_all(std::size_t requests, F f) {
  const std::int64_t all_costs[][4] = {{1, 1, 1, 1}, {1, 2, 3, 4}, {4, 1, 2, 1},
                                       {1, 4, 1, 3}, {3, 1, 1, 2}, {2, 3, 1, 1}};
  for (const policy& p : buckets) {
    for (const std::int64_t steps_on : {0, 1, 2, 5, 17}) {
      for (const auto& costs : all_costs) {
        std::vector<std::size_t> order(requests);
        std::iota(order.begin(), order.end(), std::size_t{0});
        do {
          std::string text = test::text_of(p) + ", the clock goes on by " +
                             std::to_string(steps_on) + " us, costs and order:";
          for (std::size_t i = 0; i < requests; ++i) text += " " + std::to_string(costs[i]);
          for (const std::size_t which : order) text += " " + std::to_string(which);
          BOOST_TEST_CONTEXT(text) { f(policies::compile(p), steps_on, costs, order); }
        } while (std::next_permutation(order.begin(), order.end()));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE(refund_orders_suite)

BOOST_AUTO_TEST_CASE(a_refund_behind_another_ones_gives_all_back_with_a_clock_that_stands) {
  bucket b(policies::compile(token_bucket{10, per_hour(1)}), 0);
  for (int i = 0; i < 3; ++i) b.record(1);
  for (const std::size_t which : {1, 2, 0}) b.give_back(which, 1);
  BOOST_TEST(b.used() == 0);
}

BOOST_AUTO_TEST_CASE(each_order_of_refunds_gives_all_back) {
  for (const std::size_t requests : {std::size_t{3}, std::size_t{4}}) {
    for_all(requests, [&](const auto& kernel, auto steps_on, const auto& costs, const auto& order) {
      bucket b(kernel, steps_on);
      for (std::size_t i = 0; i < requests; ++i) b.record(costs[i]);
      for (const std::size_t which : order) {
        b.give_back(which, costs[which]);
        BOOST_TEST(b.lost() >= 0);
        if (steps_on == 0) BOOST_TEST(b.lost() == 0);
      }
      BOOST_TEST(b.reset_after() <= b.held());
      if (steps_on == 0) BOOST_TEST(b.used() == 0);
      if (requests == 3 && b.has_whole_units()) BOOST_TEST(b.used() == 0);
    });
  }
}

BOOST_AUTO_TEST_CASE(each_order_gives_all_back_with_more_requests_in_between) {
  for_all(3, [](const auto& kernel, auto steps_on, const auto& costs, const auto& order) {
    bucket b(kernel, steps_on);
    for (std::size_t i = 0; i < 3; ++i) b.record(costs[i]);
    for (const std::size_t which : order) {
      b.give_back(which, costs[which]);
      b.record(1);
      BOOST_TEST(b.lost() >= 0);
      if (steps_on == 0) BOOST_TEST(b.lost() == 0);
    }
    for (std::size_t which = 3; which < b.size(); ++which) b.give_back(which, 1);
    BOOST_TEST(b.reset_after() <= b.held());
    if (steps_on == 0) BOOST_TEST(b.used() == 0);
  });
}

BOOST_AUTO_TEST_CASE(each_order_of_settlements_to_a_lower_cost_leaves_what_was_settled_for) {
  for_all(4, [](const auto& kernel, auto steps_on, const auto& costs, const auto& order) {
    bucket b(kernel, steps_on);
    for (std::size_t i = 0; i < 4; ++i) b.record(costs[i]);
    for (const std::size_t which : order) {
      if (costs[which] > 1) b.give_back(which, costs[which] - 1);
      BOOST_TEST(b.lost() >= 0);
      if (steps_on == 0) BOOST_TEST(b.lost() == 0);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace refund_orders_test

#pragma once

// Decisions of two limiters of one group, and what settles them.

#include "support/limiter_fixture.hpp"
#include "support/test.hpp"

namespace weir::test {

inline const limiter_options together{.group = "model"};

/// None of them lets anything through again within a test.
inline std::vector<policy> a_day(std::int64_t limit) {
  return {
      fixed_window{.limit = limit, .window = std::chrono::hours(24)},
      sliding_window{.limit = limit, .window = std::chrono::hours(24)},
      sliding_log{.limit = limit, .window = std::chrono::hours(24)},
      token_bucket{.capacity = limit, .refill = per_day(1)},
      gcra{.rate = per_day(1), .burst = limit},
  };
}

struct settle_all_fixture : server_fixture {
  /// Each policy beside each: 10 requests, and 1,000 tokens.
  template <class F>
  void with_each(F&& f) {
    on_both([&](const store& store) { with_each_in(store, f); });
  }
  template <class F>
  void with_each_in(const store& store, F&& f) {
    int n = 0;
    for (const policy& p : a_day(10)) {
      for (const policy& q : a_day(1000)) {
        BOOST_TEST_CONTEXT("policies " << p.index() << " and " << q.index()) {
          const std::string number = std::to_string(n++);
          f(limiter(store, "requests" + number, p, together),
            limiter(store, "tokens" + number, q, together));
        }
      }
    }
  }
  joint_decision record(const claim& a, const claim& b) {
    return answer([&](auto caller) { weir::record_all(a, b, caller); });
  }
  outcome ask_to_settle(const joint_decision& d, const claim& a, const claim& b) {
    return outcome_of([&](auto caller) { weir::settle_all(d, a, b, caller); });
  }
  decision settle(const joint_decision& d, const claim& a, const claim& b) {
    return answer([&](auto caller) { weir::settle_all(d, a, b, caller); });
  }
  decision refund(const joint_decision& d, const claim& a, const claim& b) {
    return answer([&](auto caller) { weir::refund_all(d, a, b, caller); });
  }
  std::int64_t used(const limiter& l, std::string_view subject = "a") {
    return answer([&](auto caller) { l.fetch(subject, caller); }).used;
  }
  std::vector<std::string> markers() {
    std::vector<std::string> all;
    for (auto& key : client.must("KEYS", "weir:*:s????????????????").children) {
      all.push_back(key.text);
    }
    return all;
  }
};

}  // namespace weir::test

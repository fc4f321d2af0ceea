#pragma once

// A store in memory whose clock is the test's.

#include "support/limiter_fixture.hpp"

namespace weir::test {

using namespace std::chrono_literals;

struct memory_store_fixture : limiter_fixture {
  std::chrono::microseconds now = 1'000'000s;

  weir::store store(std::size_t max_subjects = 1'000'000, std::size_t shards = 16) {
    return make_memory_store(io.get_executor(), {.max_subjects = max_subjects,
                                                 .shards = shards,
                                                 .clock = [this] { return time_point(now); }});
  }

  outcome record(const limiter& l, std::string_view subject, std::int64_t cost = 1) {
    return outcome_of([&](auto handler) { l.record(subject, {.cost = cost}, handler); });
  }
  outcome fetch(const limiter& l, std::string_view subject) {
    return outcome_of([&](auto handler) { l.fetch(subject, handler); });
  }
  outcome refund(const limiter& l, std::string_view subject, const decision& d) {
    return charge(l, subject, d, 0);
  }
  outcome charge(const limiter& l, std::string_view subject, const decision& d,
                 std::int64_t actual) {
    return outcome_of([&](auto handler) { l.settle(subject, d, actual, handler); });
  }
  error_code reset(const limiter& l, std::string_view subject) {
    return outcome_of([&](auto handler) { l.reset(subject, handler); }).ec;
  }
};

}  // namespace weir::test

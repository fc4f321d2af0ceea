#pragma once

// A gate on a store in memory whose clock is the test's.

#include "support/leases.hpp"

namespace weir::test {

using namespace std::chrono_literals;

struct memory_gate {
  asio::io_context io;
  std::chrono::microseconds now = 1'000'000s;  // the store's; the renewals go by the real clock
  weir::store store = make_memory_store(
      io.get_executor(), {.max_subjects = 2, .clock = [this] { return time_point(now); }});

  concurrency_limiter gate(std::int64_t limit, std::chrono::microseconds length = 1h) {
    return {store, "gate", {.limit = limit, .lease_duration = length, .group = "g"}};
  }
  lease enter(const concurrency_limiter& g, std::string_view subject = "a") {
    return test::enter(io, g, subject);
  }
  std::int64_t inside(const concurrency_limiter& g, std::string_view subject = "a") {
    return test::fetch(io, g, subject).used;
  }
};

}  // namespace weir::test

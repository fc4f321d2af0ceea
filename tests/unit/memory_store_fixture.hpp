#pragma once

// A store in memory whose clock is the test's.
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string_view>

#include "support/run.hpp"
#include "weir/limiter.hpp"
#include "weir/memory_store.hpp"

namespace weir::test {

using namespace std::chrono_literals;

struct memory_store_fixture {
  asio::io_context io;
  std::chrono::microseconds now = 1'000'000s;

  weir::store store(std::size_t max_subjects = 1'000'000, std::size_t shards = 16) {
    return make_memory_store(io.get_executor(), {.max_subjects = max_subjects,
                                                 .shards = shards,
                                                 .clock = [this] { return time_point(now); }});
  }

  outcome record(const limiter& l, std::string_view subject, std::int64_t cost = 1) {
    crowd c;
    l.record(subject, {.cost = cost}, c.caller());
    run_until_complete(io, c);
    return c[0];
  }
  outcome fetch(const limiter& l, std::string_view subject) {
    crowd c;
    l.fetch(subject, c.caller());
    run_until_complete(io, c);
    return c[0];
  }
  outcome refund(const limiter& l, std::string_view subject, const decision& d) {
    return charge(l, subject, d, 0);
  }
  outcome charge(const limiter& l, std::string_view subject, const decision& d,
                 std::int64_t actual) {
    crowd c;
    l.settle(subject, d, actual, c.caller());
    run_until_complete(io, c);
    return c[0];
  }
  error_code reset(const limiter& l, std::string_view subject) {
    crowd c;
    l.reset(subject, c.caller());
    run_until_complete(io, c);
    return c[0].ec;
  }
};

}  // namespace weir::test

#pragma once

#include "memcached/check_batch.hpp"
#include "support/fake_check.hpp"
#include "support/run.hpp"
#include "support/test.hpp"

namespace weir::test {

/// A server's item, and a batch that runs checks on it one at a time.
struct memcached_item {
  using verdict = memcached::check_batch::verdict;
  static constexpr std::int64_t now = 1'790'000'000'000'000;
  static constexpr std::size_t roomy = 1'000'000;

  std::string bytes;
  verdict last{};
  std::int64_t ends = 0;
  std::size_t covered = 0;
  std::int64_t clocks_differ = 0;

  /// Runs checks together.
  void run(std::vector<fake_check*> checks, std::int64_t at = now, std::size_t most = roomy) {
    detail::check_list list;
    for (fake_check* c : checks) list.push_back(c->check());
    std::string out;
    memcached::check_batch batch(clocks_differ);
    const auto r = batch.run(list, bytes, false, at, most, out);
    last = r.what;
    ends = r.ends;
    if (r.what == verdict::store) bytes = out;
    if (r.what == verdict::erase) bytes.clear();
    covered = r.checks;
    list.clear();
  }
  decision record(const core_ptr& core, std::int64_t at = now, std::int64_t cost = 1) {
    fake_check c(core, "a", cost);
    run({&c}, at);
    BOOST_TEST_REQUIRE(!c.ec.failed(), c.ec.message());
    return c.answer;
  }
};

/// A gate for two leases of ten seconds.
inline core_ptr make_gate() {
  return std::make_shared<detail::limiter_spec>(
      std::make_shared<null_store>(), "g",
      std::vector<policies::kernel>{policies::lease_set(2, 10'000'000, 1 << 20)},
      limiter_options{});
}

/// A limit of three with every kind of policy.
inline const policy limits_of_three[] = {
    fixed_window{.limit = 3, .window = std::chrono::seconds{10}},
    fixed_window{.limit = 3, .window = std::chrono::seconds{10}, .count_refused = true},
    sliding_log{.limit = 3, .window = std::chrono::seconds{10}},
    sliding_log{
        .limit = 3, .window = std::chrono::seconds{10}, .resolution = std::chrono::seconds{1}},
    sliding_window{.limit = 3, .window = std::chrono::seconds{10}},
    token_bucket{.capacity = 3, .refill = {3, std::chrono::seconds{10}}},
    gcra{.rate = {3, std::chrono::seconds{10}}, .burst = 3},
    leaky_bucket{.capacity = 3, .leak = {3, std::chrono::seconds{10}}},
};

}  // namespace weir::test

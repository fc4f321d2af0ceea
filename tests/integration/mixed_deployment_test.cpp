// A limit is raised or lowered while its keys live, and for a time old and new processes run side by side.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using weir::decision;
using weir::limiter;
using weir::test::crowd;

/// One of each kind with that limit; nothing comes back within a test.
std::vector<weir::policy> with_limit(std::int64_t limit) {
  return {weir::fixed_window{.limit = limit, .window = 24000h},
          weir::sliding_window{.limit = limit, .window = 24000h},
          weir::sliding_log{.limit = limit, .window = 24000h},
          weir::token_bucket{.capacity = limit, .refill = {1, 24000h}},
          weir::leaky_bucket{.capacity = limit, .leak = {1, 24000h}}};
}

struct fixture {
  weir::test::redis_server server;
  weir::test::redis_client client{server};
  asio::io_context io;

  /// Calls f(before, after) for each kind of policy in each store: two processes' limiters on the same counts.
  template <class F>
  void change(std::int64_t from, std::int64_t to, F&& f) {
    for (const bool in_memory : {true, false}) {
      client.must("FLUSHALL");
      const weir::store store = in_memory
                                    ? weir::make_memory_store(io.get_executor())
                                    : weir::make_redis_store(io.get_executor(),
                                                             weir::test::patient_options(server));
      const auto before = with_limit(from), after = with_limit(to);
      for (std::size_t i = 0; i < before.size(); ++i) {
        BOOST_TEST_CONTEXT((in_memory ? "memory" : "redis") << ", policy " << before[i].index()) {
          const std::string name = "r" + std::to_string(before[i].index());
          f(limiter(store, name, before[i]), limiter(store, name, after[i]));
        }
      }
    }
  }
  decision record(const limiter& l, std::int64_t cost = 1) {
    crowd c;
    l.record("a", {.cost = cost}, c.caller());
    weir::test::run_until_complete(io, c);
    BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
    return c[0].d;
  }
  /// How many pass, asked in turn through both.
  std::int64_t alternate(const limiter& a, const limiter& b, int times) {
    std::int64_t passed = 0;
    for (int i = 0; i < times; ++i) passed += record(i % 2 == 0 ? a : b).allowed ? 1 : 0;
    return passed;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mixed_deployment, fixture)

BOOST_AUTO_TEST_CASE(a_raised_limit_holds_at_once_and_what_was_used_stays_used) {
  change(10, 15, [&](const limiter& before, const limiter& after) {
    BOOST_TEST(record(before, 10).remaining == 0);
    BOOST_TEST(record(after).remaining == 4);
    BOOST_TEST(!record(before).allowed);
    BOOST_TEST(record(after, 4).remaining == 0);
    BOOST_TEST(!record(after).allowed);
  });
}

// Kept in proportion, 8 of 10 would be 4 of 5, and one more would pass: the ninth, where 5 are allowed.
BOOST_AUTO_TEST_CASE(a_lowered_limit_lets_nobody_in_until_enough_has_left) {
  change(10, 5, [&](const limiter& before, const limiter& after) {
    BOOST_TEST(record(before, 8).remaining == 2);
    const decision d = record(after);
    BOOST_TEST(!d.allowed);
    BOOST_TEST(d.remaining == 0);
    BOOST_TEST(record(before, 2).remaining == 0);
  });
}

BOOST_AUTO_TEST_CASE(old_and_new_together_never_let_more_pass_than_the_larger_limit) {
  for (const auto& [from, to] : {std::pair<int, int>{10, 15}, {15, 10}, {10, 10}}) {
    change(from, to, [&, most = std::max(from, to)](const limiter& before, const limiter& after) {
      BOOST_TEST(alternate(before, after, 60) == most);
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()

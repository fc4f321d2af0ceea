// Local units of a limiter on a memory store: whom they serve, and when they go back.
#include "limiter/local_units.hpp"

#include <future>
#include <thread>

#include "limiter/limiter_impl.hpp"
#include "memory_store_fixture.hpp"
#include "support/watched_store.hpp"

namespace local_units_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check;
using weir::detail::check_kind;

const fixed_window daily{.limit = 1000, .window = 24h};
const limiter_options with_units{.local_units = 100};

struct fixture : memory_store_fixture {
  std::int64_t records = 0, given_back = 0;
  std::weak_ptr<const weir::detail::limiter_spec> last_limiter = {};
  std::shared_ptr<watched_store> watched = std::make_shared<watched_store>(
      store(), [this](const check& c) {
        last_limiter = c.limiter;
        if (c.kind == check_kind::record) ++records;
        if (c.traits.gives_back) given_back += c.units;
      });
  weir::store handle{watched};

  limiter open(const limiter_options& options = with_units, const weir::policy& policy = daily) {
    return limiter(handle, "r", policy, options);
  }
  decision ask(const limiter& l, std::int64_t cost = 1, std::string_view subject = "a") {
    return answer([&](auto caller) { l.record(subject, {.cost = cost}, caller); });
  }
  /// The subjects that the last limiter knows.
  std::size_t subjects() { return weir::detail::impl_of(*last_limiter.lock()).local->subjects(); }
  /// What the store has counted.
  std::int64_t counted(const limiter& l) {
    return answer([&](auto caller) { l.fetch("a", caller); }).used;
  }
  /// Checks until the process holds units; returns the checks that the limiter allowed.
  std::int64_t warm_up(const limiter& l, int checks = 50) {
    std::int64_t allowed = 0;
    for (int i = 0; i < checks; ++i) allowed += ask(l).allowed ? 1 : 0;
    return allowed;
  }
};

BOOST_FIXTURE_TEST_SUITE(local_units_suite, fixture)

BOOST_AUTO_TEST_CASE(most_checks_are_answered_without_the_store) {
  const limiter l = open();
  BOOST_TEST((ask(l).source == source::store));
  int local = 0;
  for (int i = 1; i < 500; ++i) {
    const decision d = ask(l);
    BOOST_TEST_REQUIRE(d.allowed);
    BOOST_TEST(d.used == i + 1);
    BOOST_TEST(d.remaining == 1000 - d.used);
    local += d.source == source::local_units ? 1 : 0;
  }
  BOOST_TEST(local > 480);
  BOOST_TEST(records < 30);
  BOOST_TEST(counted(l) >= 500);
  BOOST_TEST(counted(l) <= 600);
}

BOOST_AUTO_TEST_CASE(exactly_the_limit_passes) {
  const limiter one = open(), other = open();
  std::int64_t allowed = 0;
  for (int i = 0; i < 1500; ++i) {
    allowed += ask(one).allowed ? 1 : 0;
    allowed += ask(other).allowed ? 1 : 0;
  }
  BOOST_TEST(allowed == 1000);
  BOOST_TEST(counted(one) == 1000);
}

BOOST_AUTO_TEST_CASE(a_cost_that_the_units_do_not_cover_goes_to_the_store) {
  const limiter l = open();
  warm_up(l);
  const decision d = ask(l, 500);
  BOOST_TEST(d.allowed);
  BOOST_TEST((d.source == source::store));
  BOOST_TEST(d.receipt.id != 0u);
  BOOST_TEST((ask(l).source == source::local_units));
}

BOOST_AUTO_TEST_CASE(other_calls_go_to_the_store) {
  const limiter l = open({.group = "g", .local_units = 100});
  const limiter plain = limiter(handle, "other", daily, {.group = "g"});
  warm_up(l);
  BOOST_TEST((answer([&](auto caller) { l.fetch("a", caller); }).source == source::store));
  BOOST_TEST((answer([&](auto caller) { l.acquire("a", caller); }).source == source::store));
  const claim own = l.on("a"), others = plain.on("a");
  BOOST_TEST(
      (answer([&](auto caller) { record_all(own, others, caller); }).source == source::store));
}

BOOST_AUTO_TEST_CASE(a_decision_from_local_units_gives_nothing_back) {
  const limiter l = open();
  warm_up(l);
  const decision d = ask(l);
  BOOST_TEST_REQUIRE((d.source == source::local_units));
  const auto before = counted(l);
  BOOST_TEST(!answer([&](auto caller) { l.refund("a", d, caller); }).allowed);
  BOOST_TEST(counted(l) == before);
}

BOOST_AUTO_TEST_CASE(unused_units_go_back_and_the_subject_is_forgotten) {
  const limiter l = open();
  const std::int64_t allowed = warm_up(l);
  BOOST_TEST(counted(l) > allowed);
  BOOST_TEST(subjects() == 1u);
  run_out(io);
  BOOST_TEST(subjects() == 0u);
  BOOST_TEST(given_back > 0);
  BOOST_TEST(counted(l) == allowed);
}

BOOST_AUTO_TEST_CASE(a_closing_store_gets_the_units_back) {
  const limiter l = open();
  const std::int64_t allowed = warm_up(l);
  const auto before = counted(l);
  BOOST_TEST(before > allowed);
  handle.close();
  BOOST_TEST(given_back > 0);
  BOOST_TEST(given_back <= before - allowed);
  const auto o = outcome_of([&](auto caller) { l.record("a", caller); });
  WEIR_TEST_ERROR(o.ec, error::store_closed);
  run_out(io);
}

BOOST_AUTO_TEST_CASE(a_reset_forgets_the_units) {
  const limiter l = open();
  warm_up(l);
  reset(l, "a");
  const decision d = ask(l);
  BOOST_TEST((d.source == source::store));
  BOOST_TEST(d.used == 1);
  BOOST_TEST(given_back == 0);
}

BOOST_AUTO_TEST_CASE(a_table_of_subjects_is_bounded) {
  const limiter l = open({.local_units = 100, .local_units_subjects = 3});
  for (int round = 0; round < 20; ++round) {
    for (const std::string_view s : {"a", "b", "c", "d", "e"}) {
      const decision d = ask(l, 1, s);
      BOOST_TEST(d.allowed);
      if (s > "c") BOOST_TEST((d.source == source::store));
    }
  }
  BOOST_TEST(subjects() == 3u);
  BOOST_TEST((ask(l, 1, "c").source == source::local_units));
  const std::string longest(weir::detail::local_units::longest_subject, 's');
  const limiter other = open();
  ask(other, 1, longest);
  BOOST_TEST(subjects() == 1u);
  ask(other, 1, longest + 's');
  BOOST_TEST(subjects() == 1u);
}

BOOST_AUTO_TEST_CASE(refusals_are_remembered_beside_local_units) {
  const limiter l = open({.deny_cache_subjects = 16, .local_units = 100});
  std::int64_t allowed = 0;
  for (int i = 0; i < 1010; ++i) allowed += ask(l).allowed ? 1 : 0;
  BOOST_TEST(allowed == 1000);
  const auto before = records;
  const decision d = ask(l);
  BOOST_TEST(!d.allowed);
  BOOST_TEST((d.source == source::deny_cache));
  BOOST_TEST(records == before);
}

// The units of a limiter whose last handle is gone still go back.
BOOST_AUTO_TEST_CASE(units_outlive_the_handle_of_the_limiter) {
  std::int64_t allowed = 0;
  {
    const limiter l = open();
    allowed = warm_up(l);
  }
  run_out(io);
  BOOST_TEST(given_back > 0);
  BOOST_TEST(counted(open({})) == allowed);
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_refused) {
  const auto refused = [&](const limiter_options& o) {
    return error_of([&] { open(o); }) == error::invalid_policy;
  };
  BOOST_TEST(refused({.local_units = 1001}));
  BOOST_TEST(refused({.local_units = -1}));
  BOOST_TEST(refused({.cool_downs = true, .local_units = 1}));
  BOOST_TEST(refused({.local_units = 1, .local_units_subjects = 0}));
  BOOST_TEST(refused({.local_units = 1, .local_units_subjects = 2'000'000}));
  BOOST_TEST(!refused({.local_units = 1000}));
}

BOOST_AUTO_TEST_CASE(threads_share_the_units_of_a_limiter) {
  asio::thread_pool pool(4);
  weir::store own = make_memory_store(pool.get_executor());
  const limiter l(own, "r", daily, with_units);
  std::atomic<int> allowed{0}, local{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 400; ++i) {
        const decision d = l.record("a", asio::use_future).get();
        if (d.allowed) ++allowed;
        if (d.source == source::local_units) ++local;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  own.close();
  pool.join();
  BOOST_TEST(allowed <= 1000);
  BOOST_TEST(allowed >= 900);  // up to local_units may be left
  BOOST_TEST(local > 500);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace local_units_test

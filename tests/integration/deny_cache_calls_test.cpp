// A limiter with a deny cache, on a real server that counts its script calls.
#include "support/limiter_fixture.hpp"

namespace deny_cache_calls_test {

using namespace weir;
using namespace weir::test;

const limiter_options with_cache{.deny_cache_subjects = 16, .deny_cache_duration = 1h};

struct fixture : server_fixture {
  limiter open_limiter(const limiter_options& options = with_cache) {
    return limiter(open(), "r", fixed_window{.limit = 2, .window = 24h}, options);
  }
  decision record(const limiter& l, std::int64_t cost = 1) {
    return answer([&](auto caller) { l.record("a", {.cost = cost}, caller); });
  }
  std::int64_t calls() { return script_calls(); }
};

BOOST_FIXTURE_TEST_SUITE(deny_cache_calls_suite, fixture)

BOOST_AUTO_TEST_CASE(a_refusal_is_repeated_without_the_server) {
  const limiter l = open_limiter();
  record(l, 2);
  const decision first = record(l);
  BOOST_TEST(!first.allowed);
  BOOST_TEST((first.source == source::store));
  const auto before = calls();
  for (int i = 0; i < 10; ++i) {
    const decision d = record(l);
    BOOST_TEST(!d.allowed);
    BOOST_TEST((d.source == source::deny_cache));
    BOOST_TEST((d.retry_after <= first.retry_after));
    BOOST_TEST((d.retry_after > first.retry_after - 1min));
  }
  BOOST_TEST(calls() == before);
  // fetch() describes the subject, so it asks.
  BOOST_TEST((answer([&](auto caller) { l.fetch("a", caller); }).source == source::store));
  BOOST_TEST(calls() == before + 1);
}

BOOST_AUTO_TEST_CASE(what_this_process_gives_back_can_pass_at_once) {
  const limiter l = open_limiter();
  const decision two = record(l, 2);
  record(l);
  answer([&](auto caller) { l.settle("a", two, 1, caller); });
  BOOST_TEST(record(l).allowed);
  BOOST_TEST(!record(l).allowed);
  BOOST_TEST((record(l).source == source::deny_cache));
  outcome_of(
      [&](auto caller) { l.reset("a", [caller](error_code ec) mutable { caller(ec, {}); }); });
  BOOST_TEST(record(l).allowed);
}

BOOST_AUTO_TEST_CASE(a_cool_down_is_repeated_with_jitter) {
  limiter_options options = with_cache;
  options.cool_downs = true;
  const limiter l = open_limiter(options);
  answer([&](auto caller) { l.cool_down("a", 30min, caller); });
  record(l);
  const auto before = calls();
  std::chrono::microseconds least = 24h, most{0};
  for (int i = 0; i < 20; ++i) {
    const decision d = record(l);
    BOOST_TEST((d.source == source::deny_cache));
    BOOST_TEST(d.cooling_down);
    least = std::min(least, d.retry_after);
    most = std::max(most, d.retry_after);
  }
  BOOST_TEST(calls() == before);
  BOOST_TEST((most <= 30min + 1s));
  BOOST_TEST((most > least));
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_refused) {
  const auto refused = [&](limiter_options o, bool counts = false) {
    try {
      limiter(open(), "r", fixed_window{.limit = 1, .window = 1h, .count_refused = counts}, o);
    } catch (const boost::system::system_error& e) {
      return e.code() == error::invalid_policy;
    }
    return false;
  };
  BOOST_TEST(refused({.deny_cache_subjects = 20'000'000}));
  BOOST_TEST(refused({.deny_cache_subjects = 1, .deny_cache_duration = 10us}));
  BOOST_TEST(refused({.deny_cache_subjects = 1, .deny_cache_duration = 2h}));
  BOOST_TEST(refused({.deny_cache_subjects = 1}, true));
  BOOST_TEST(!refused({.deny_cache_subjects = 1}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace deny_cache_calls_test

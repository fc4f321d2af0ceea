// Which policies are refused when they are compiled, with the bound in the message; and that the
// largest ones work.
#include <boost/system/system_error.hpp>

#include "model/kernel_subject.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace policy_validation_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t t0 = 1'790'000'000'123'456;
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
constexpr microseconds longest{std::int64_t{1} << 50};

/// Every one of `parts` has to be in the message.
void refused(const policy& p, std::initializer_list<std::string_view> parts) {
  BOOST_TEST_CONTEXT(test::text_of(p)) {
    try {
      policies::compile(p);
      BOOST_ERROR("was accepted");
    } catch (const boost::system::system_error& e) {
      BOOST_TEST((e.code() == error::invalid_policy));
      BOOST_TEST((e.code() == condition::invalid_input));
      const std::string_view what = e.what();
      for (const std::string_view part : parts) {
        BOOST_TEST((what.find(part) != what.npos), what << " does not say " << part);
      }
    }
  }
}

void accepted(const policy& p) {
  BOOST_TEST_CONTEXT(test::text_of(p)) { BOOST_CHECK_NO_THROW(policies::compile(p)); }
}

constexpr std::string_view units_bound = "between 1 and 4503599627370495";
constexpr std::string_view window_bound = "between 1 and 1125899906842624";

BOOST_AUTO_TEST_SUITE(policy_validation_suite)

BOOST_AUTO_TEST_CASE(a_policy_left_empty_is_refused) {
  refused(fixed_window{}, {"fixed_window", "limit", units_bound, "got 0"});
  refused(sliding_log{}, {"sliding_log"});
  refused(sliding_window{}, {"sliding_window"});
  refused(token_bucket{}, {"token_bucket"});
  refused(gcra{}, {"gcra", "rate"});
  refused(leaky_bucket{}, {"leaky_bucket"});
}

BOOST_AUTO_TEST_CASE(limits_out_of_range_are_refused_with_their_bound) {
  for (const std::int64_t limit :
       {std::int64_t{0}, std::int64_t{-1}, lowest, max_units + 1, highest - 1}) {
    const std::string got = "got " + std::to_string(limit);
    refused(fixed_window{limit, 1s},
            {"fixed_window", "limit", units_bound, "weir::unlimited", got});
    refused(sliding_log{limit, 1s}, {"sliding_log", "limit", units_bound, "weir::unlimited", got});
    refused(sliding_window{limit, 1s}, {"sliding_window", "limit", "weir::unlimited", got});
    refused(token_bucket{limit, per_second(1)}, {"token_bucket", "capacity", units_bound, got});
    refused(gcra{per_second(1), limit}, {"gcra", "burst", units_bound, got});
    refused(leaky_bucket{limit, per_second(1)}, {"leaky_bucket", "capacity", units_bound, got});
  }
  constexpr std::int64_t most_refused = std::int64_t{1} << 50;
  refused(sliding_log{most_refused + 1, 1s, 0us, true},
          {"sliding_log", "limit", "between 1 and 1125899906842624"});
  accepted(sliding_log{most_refused, 1s, 0us, true});
  accepted(sliding_log{unlimited, 1s, 0us, true});
  // A bucket has a size: it cannot be unlimited.
  refused(token_bucket{unlimited, per_second(1)}, {units_bound});
  refused(gcra{per_second(1), unlimited}, {units_bound});
  refused(leaky_bucket{unlimited, per_second(1)}, {units_bound});
}

BOOST_AUTO_TEST_CASE(windows_out_of_range_are_refused_with_their_bound) {
  for (const microseconds window :
       {0us, -1us, microseconds::min(), longest + 1us, microseconds::max()}) {
    refused(fixed_window{1, window}, {"fixed_window", "window", window_bound});
    refused(sliding_log{1, window}, {"sliding_log", "window", window_bound});
    refused(sliding_window{1, window},
            {"sliding_window", "window", "between 1 and 281474976710656"});
  }
  refused(sliding_window{1, longest / 4 + 1us}, {"window"});
  accepted(fixed_window{max_units, longest});
  accepted(sliding_log{max_units, longest});
  accepted(sliding_window{1, longest / 4});
}

BOOST_AUTO_TEST_CASE(offsets_and_resolutions_stay_within_the_window) {
  refused(fixed_window{1, 1s, anchor::epoch, 1s}, {"offset", "between 0 and 999999"});
  refused(fixed_window{1, 1s, anchor::epoch, -1us}, {"offset", "got -1"});
  refused(fixed_window{1, 1s, anchor::first_request, 1us}, {"offset needs anchor::epoch"});
  accepted(fixed_window{1, 1s, anchor::epoch, 999'999us});
  refused(fixed_window{1, 1s, static_cast<anchor>(2)}, {"anchor must be between 0 and 1, got 2"});
  refused(sliding_log{1, 1s, 1s + 1us}, {"resolution", "between 0 and 1000000"});
  refused(sliding_log{1, 1s, -1us}, {"resolution", "got -1"});
  accepted(sliding_log{1, 1s, 1s});
}

BOOST_AUTO_TEST_CASE(rates_out_of_range_are_refused_with_their_bound) {
  const rate bad_counts[] = {{0, 1s}, {-1, 1s}, {lowest, 1s}, {max_units + 1, 1s}, {highest, 1s}};
  const rate bad_periods[] = {
      {1, 0us}, {1, -1us}, {1, microseconds::min()}, {1, longest + 1us}, {1, microseconds::max()}};
  for (const rate& r : bad_counts) {
    refused(token_bucket{1, r}, {"token_bucket: refill.count", units_bound});
    refused(gcra{r, 1}, {"gcra: rate.count", units_bound});
    refused(leaky_bucket{1, r}, {"leaky_bucket: leak.count", units_bound});
  }
  for (const rate& r : bad_periods) {
    refused(token_bucket{1, r}, {"token_bucket: refill.period", window_bound});
    refused(gcra{r, 1}, {"gcra: rate.period", window_bound});
    refused(leaky_bucket{1, r}, {"leaky_bucket: leak.period", window_bound});
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_tier_is_named) {
  try {
    policies::compile(tiers{fixed_window{1, 1s}, fixed_window{0, 1s}});
    BOOST_ERROR("was accepted");
  } catch (const boost::system::system_error& e) {
    const std::string_view what = e.what();
    BOOST_TEST((what.find("tier 1: fixed_window: limit") != what.npos), what);
  }
}

BOOST_AUTO_TEST_CASE(
    a_bucket_that_takes_too_long_to_fill_is_refused_and_the_largest_it_names_is_accepted) {
  const rate rates[] = {per_day(1),   {1, 1us},       {3, 7us},    {7, 3s},
                        {1, longest}, {999'983, 24h}, {2, longest}};
  for (const rate& r : rates) {
    const auto most = static_cast<std::int64_t>(((policies::wide{1} << 51) * r.count - 1) /
                                                r.period.count());
    if (most >= max_units) continue;
    const std::string bound = "must not exceed " + std::to_string(most);
    accepted(token_bucket{most, r});
    accepted(gcra{r, most});
    accepted(leaky_bucket{most, r});
    refused(token_bucket{most + 1, r}, {"token_bucket", "capacity", bound});
    refused(gcra{r, most + 1}, {"gcra", "burst", bound});
    refused(leaky_bucket{max_units, r}, {"leaky_bucket", "capacity", bound});
  }
}

BOOST_AUTO_TEST_CASE(a_sliding_window_names_the_limit_it_can_compute_exactly) {
  for (const microseconds window :
       {microseconds(1us), microseconds(1s), microseconds(24h), microseconds(960h), longest / 4}) {
    const std::int64_t most = policies::sliding_window::most(window.count());
    accepted(sliding_window{most, window});
    if (most < max_units) {
      refused(sliding_window{most + 1, window}, {"limit", "between 1 and " + std::to_string(most)});
    }
  }
  // What its documentation promises.
  accepted(sliding_window{std::int64_t{1} << 31, 24h});
  accepted(sliding_window{std::int64_t{1} << 21, 960h});
}

BOOST_AUTO_TEST_CASE(a_million_per_second_and_per_day_works_in_every_policy) {
  constexpr std::int64_t million = 1'000'000;
  for (const microseconds window : {microseconds(1s), microseconds(24h)}) {
    const policy all[] = {
        fixed_window{million, window},    fixed_window{million, window, anchor::epoch},
        sliding_log{million, window},     sliding_log{million, window, window / 100},
        sliding_window{million, window},  token_bucket{million, {million, window}},
        gcra{{million, window}, million}, leaky_bucket{million, {million, window}}};
    for (const policy& p : all) {
      BOOST_TEST_CONTEXT(test::text_of(p)) {
        model::kernel_subject subject(p);
        BOOST_TEST(subject.ceiling() == million);
        for (int i = 0; i < 10; ++i) BOOST_TEST(subject.record(t0, million / 10).allowed);
        const decision d = subject.record(t0);
        BOOST_TEST(!d.allowed);
        BOOST_TEST(d.used == million);
        BOOST_TEST(d.remaining == 0);
        BOOST_TEST(d.retry_after.count() > 0);
        BOOST_TEST(subject.record(t0 + d.retry_after.count()).allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(unlimited_counts_never_refuses_and_saturates) {
  const policy all[] = {fixed_window{unlimited, 1s},
                        fixed_window{unlimited, 1s, anchor::epoch},
                        sliding_log{unlimited, 1s},
                        sliding_log{unlimited, 1s, 10ms},
                        sliding_window{unlimited, 1s},
                        sliding_window{unlimited, 960h},
                        fixed_window{.limit = unlimited, .window = 1s, .count_refused = true},
                        sliding_log{.limit = unlimited, .window = 1s, .count_refused = true}};
  for (const policy& p : all) {
    BOOST_TEST_CONTEXT(test::text_of(p)) {
      model::kernel_subject subject(p);
      for (int i = 1; i <= 1000; ++i) {
        const decision d = subject.record(t0);
        BOOST_TEST(d.allowed);
        BOOST_TEST(d.limit == unlimited);
        BOOST_TEST(d.used == i);
        BOOST_TEST(d.remaining == unlimited);
        BOOST_TEST(d.retry_after.count() == 0);
      }
      const std::int64_t most = subject.ceiling();
      for (int i = 0; i < 5; ++i) {
        const decision d = subject.record(t0, most);
        BOOST_TEST(d.allowed);
        BOOST_TEST(d.used == most);
      }
      // In the next window too, where a sliding window adds two full counters up.
      for (int i = 0; i < 5; ++i) BOOST_TEST(subject.record(t0 + 1'000'000, most).allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(policies_are_equal_if_their_numbers_are) {
  const policy one = gcra{.rate = per_second(1), .burst = 2};
  BOOST_TEST((one == policy(gcra{.rate = per_second(1), .burst = 2})));
  BOOST_TEST((one != policy(gcra{.rate = per_second(1), .burst = 3})));
  BOOST_TEST((one != policy(token_bucket{.capacity = 2, .refill = per_second(1)})));
  BOOST_TEST((tiers{one, one} == tiers{one, one}));
  BOOST_TEST((tiers{one, one} != tiers{one}));
}

BOOST_AUTO_TEST_CASE(a_list_of_tiers_has_one_to_eight) {
  const std::vector<policy> nine(9, policy(gcra{.rate = per_second(1)}));
  const auto is_refused = [](const boost::system::system_error& e) {
    return e.code() == error::invalid_policy;
  };
  BOOST_CHECK_EXCEPTION(tiers{nine}, boost::system::system_error, is_refused);
  BOOST_CHECK_EXCEPTION(tiers{std::span<const policy>{}}, boost::system::system_error, is_refused);
  const tiers two{std::span(nine).first(2)};
  BOOST_TEST(two.size() == 2u);
  BOOST_TEST(two[1].index() == nine[1].index());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace policy_validation_test

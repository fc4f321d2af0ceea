// What tests draw their cases from.
#include "support/random_source.hpp"

#include "support/test.hpp"

namespace random_source_test {

using weir::test::random_source;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

// An overflow would not compile here.
static_assert(weir::test::end_of_magnitude(0) == 1);
static_assert(weir::test::end_of_magnitude(9) == 1023);
static_assert(weir::test::end_of_magnitude(62) == largest);

int digits_of(std::int64_t n) {
  int digits = -1;
  for (; n != 0; n /= 2) ++digits;
  return digits;
}

BOOST_AUTO_TEST_SUITE(random_source_suite)

BOOST_AUTO_TEST_CASE(magnitudes_up_to_the_largest_number_all_occur) {
  random_source random(weir::test::run_seed());
  std::set<int> seen;
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t n = random.magnitude(largest);
    BOOST_TEST_REQUIRE(n >= 1);
    seen.insert(digits_of(n));
  }
  BOOST_TEST(seen.size() == 63u);
}

BOOST_AUTO_TEST_CASE(a_magnitude_stays_within_its_bound) {
  random_source random(weir::test::run_seed());
  for (const std::int64_t high : {std::int64_t{1}, std::int64_t{2}, std::int64_t{1000},
                                  (std::int64_t{1} << 62) - 1, std::int64_t{1} << 62, largest}) {
    for (int i = 0; i < 1000; ++i) {
      const std::int64_t n = random.magnitude(high);
      BOOST_TEST_REQUIRE((n >= 1 && n <= high));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace random_source_test

// What the requests come down to at the kernels, and that none has room for another's fields.
#include "support/fake_check.hpp"
#include "support/test.hpp"

namespace request_test {

using namespace weir;
using namespace weir::test;
using namespace weir::detail;

using numbers = std::vector<std::int64_t>;

/// The number that each tier's kernel gets, in order.
numbers numbers_of(const check& c) {
  numbers out;
  for_each_tier(c, [&](const limiter_spec&, std::string_view, std::int64_t number, std::size_t) {
    out.push_back(number);
  });
  return out;
}

const policy ten = fixed_window{.limit = 10, .window = 1s};
const policy hundred = fixed_window{.limit = 100, .window = 60s};

std::vector<term> further(const core_ptr& limiter, std::int64_t cost) {
  std::vector<term> terms;
  terms.push_back({limiter, short_text("b"), cost});
  return terms;
}

BOOST_AUTO_TEST_SUITE(request_suite)

BOOST_AUTO_TEST_CASE(each_kind_has_its_own_number) {
  using enum check_kind;
  const core_ptr core = make_core("r", ten);
  for (const fake_request kind : std::vector<fake_request>{
           record, fetch, acquire, settle, settle_cause::give_back, settle_cause::vendor, cool_down,
           lease_act::enter, lease_act::renew, lease_act::leave}) {
    BOOST_TEST_CONTEXT("kind " << static_cast<int>(kind.kind)) {
      BOOST_TEST(numbers_of(fake_check(core, "a", 7, kind)) == numbers{7},
                 boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_joint_check_has_a_number_for_each_limiter) {
  const core_ptr two = make_core("two", tiers(ten, hundred)), one = make_core("one", ten);
  const fake_check joint(two, "a", 3, check_kind::acquire, 0us, further(one, 4));
  BOOST_TEST(numbers_of(joint) == (numbers{3, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(fake_check(one, "a").check().further().empty());
}

BOOST_AUTO_TEST_CASE(a_vendors_remainder_concerns_the_tiers_with_its_limit) {
  const core_ptr core = make_core("r", tiers(ten, hundred));
  fake_check c(core, "a", 3, settle_cause::vendor);
  BOOST_TEST(numbers_of(c) == (numbers{3, 3}), boost::test_tools::per_element());
  as<settle_request>(c).vendor_limit = 100;
  BOOST_TEST(numbers_of(c) == (numbers{max_units, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_cool_down_touches_its_own_tier_only) {
  const core_ptr core = make_core("r", tiers(ten, hundred), {.cool_downs = true});
  BOOST_TEST(numbers_of(fake_check(core, "a", 7, check_kind::cool_down)) == numbers{7},
             boost::test_tools::per_element());
  BOOST_TEST(numbers_of(fake_check(core, "a")).size() == 3u);
}

// It had room for the fields of all kinds: 616 bytes with a small handler.
BOOST_AUTO_TEST_CASE(a_record_has_no_room_for_what_only_other_kinds_need) {
  BOOST_TEST(sizeof(check_of<record_request>) == sizeof(check));
  BOOST_TEST(sizeof(check_of<reset_request>) <= sizeof(check_of<record_request>));
  BOOST_TEST(sizeof(check_of<record_request>) < sizeof(check_of<acquire_request>));
  BOOST_TEST(sizeof(check_of<record_request>) < sizeof(joint_check_of<record_request>));
}

BOOST_AUTO_TEST_CASE(a_check_that_ends_leaves_its_list) {
  const core_ptr core = make_core("r", ten);
  fake_check first(core, "a"), last(core, "c");
  check_list line;
  line.push_back(first);
  {
    fake_check middle(core, "b");
    line.push_back(middle);
    BOOST_TEST(&line.back() == &middle.check());
  }
  line.push_back(last);
  BOOST_TEST(line.size() == 2u);
  BOOST_TEST((&line.front() == &first.check() && &line.back() == &last.check()));
  first.check().line.unlink();
  BOOST_TEST((line.size() == 1u && &line.front() == &last.check()));
  line.clear();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace request_test

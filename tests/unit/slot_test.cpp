// The slots of a Redis Cluster, and which node has them.
#include "redis/slot.hpp"

#include "support/fake_check.hpp"
#include "support/test.hpp"

namespace slot_test {

using namespace weir;
using namespace weir::test;
using weir::redis::slot_of;
using weir::redis::slot_of_tag;

BOOST_AUTO_TEST_SUITE(slot_suite)

// The first is in the specification of Redis Cluster; the others are what CLUSTER KEYSLOT of
// Redis 7.0 answered.
BOOST_AUTO_TEST_CASE(known_slots) {
  BOOST_TEST(slot_of_tag("") == 0);
  BOOST_TEST(slot_of_tag("123456789") == 12739);
  BOOST_TEST(slot_of_tag("foo") == 12182);
  BOOST_TEST(slot_of_tag("user1000") == 3443);
}

BOOST_AUTO_TEST_CASE(all_keys_of_a_check_have_the_slot_of_its_hash_tag) {
  std::string scratch;
  const fixed_window three{.limit = 3, .window = 10s};
  const auto single = make_core("r", three);
  BOOST_TEST(slot_of(fake_check(single, "a"), scratch) == slot_of_tag("r:a"));
  BOOST_TEST(slot_of(fake_check(single, "{b}"), scratch) == slot_of_tag("r:%7Bb%7D"));
  const auto grouped = make_core("r", three, {.group = "g"});
  BOOST_TEST(slot_of(fake_check(grouped, "a"), scratch) == slot_of_tag("g"));
  BOOST_TEST(slot_of(fake_check(grouped, "b"), scratch) == slot_of_tag("g"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace slot_test

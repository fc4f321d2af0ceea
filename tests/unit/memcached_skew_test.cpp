// What checks of processes make of a memcached value if their clocks differ.
#include "memcached_item.hpp"

namespace memcached_skew_test {

using namespace weir;
using namespace weir::test;
using weir::detail::check_kind;
using item = memcached_item;

constexpr std::int64_t now = item::now, second = 1'000'000;

BOOST_AUTO_TEST_SUITE(memcached_skew_suite)

// The process ahead forgot the settlement when its own clock said that nothing could be given back.
BOOST_AUTO_TEST_CASE(a_decision_is_settled_once) {
  const core_ptr core = make_core("r", token_bucket{.capacity = 200, .refill = per_second(1)});
  item stored;
  stored.clocks_differ = 4 * second;
  const decision d = stored.record(core, now, 200);
  const auto refund_at = [&](std::int64_t at) {
    fake_check refund(core, "a", 200, check_kind::settle);
    auto& asked = weir::detail::as<weir::detail::settle_request>(refund.check());
    asked.about = d;
    asked.id = 77;
    stored.run({&refund}, at);
    return refund.answer.allowed;
  };
  BOOST_TEST(refund_at(now));
  const std::int64_t later = now + 202 * second + 1;
  stored.record(core, later);  // drops what is over for the process ahead
  BOOST_TEST(!refund_at(later - 3 * second));
}

// The process that is behind judged its own cool-down by the time of the other one's window.
BOOST_AUTO_TEST_CASE(a_cool_down_goes_by_the_clock_of_its_caller) {
  const core_ptr core = make_core("r", fixed_window{.limit = 5, .window = 1s},
                                  {.cool_downs = true});
  item stored;
  stored.clocks_differ = 12 * second;
  fake_check pause(core, "a", 3 * second, check_kind::cool_down);
  stored.run({&pause});
  stored.record(core, now + 4 * second);  // over for the process ahead, which opens a window
  const decision refused = stored.record(core, now + 1 * second);
  BOOST_TEST(!refused.allowed);
  BOOST_TEST(refused.cooling_down);
  BOOST_TEST(refused.retry_after.count() == 2 * second);
  const decision last = stored.record(core, now + 3 * second - 1);
  BOOST_TEST(last.retry_after.count() == 1);
  BOOST_TEST(stored.record(core, now + 3 * second).allowed);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_skew_test

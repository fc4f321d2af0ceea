// The decision with which a check begins is made member by member, for speed.
#include <cstddef>
#include <new>

#include "limiter/limiter_impl.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"

namespace empty_decision_test {

using namespace weir;

class bare_check final : public detail::check_of<detail::record_request> {
 public:
  explicit bare_check(std::shared_ptr<const detail::limiter_spec> limiter)
      : check_of(std::move(limiter), {}) {}
  void finish(detail::delivery) override {}
};

BOOST_AUTO_TEST_SUITE(empty_decision_suite)

// A member that was added to decision, in its padding, had no value.
BOOST_AUTO_TEST_CASE(a_check_begins_with_the_decision_of_its_own_initialisers) {
  const auto limiter = std::make_shared<detail::limiter_impl>(
      std::make_shared<test::null_store>(), "r",
      tiers(fixed_window{.limit = 1, .window = std::chrono::hours{1}}));
  alignas(bare_check) std::array<std::byte, sizeof(bare_check)> room;
  room.fill(std::byte{0xff});
  asm volatile("" : : "r"(room.data()) : "memory");  // else the compiler leaves the bytes out
  bare_check& c = *::new (room.data()) bare_check(limiter);
  BOOST_TEST((c.answer == decision{}));
  const receipt r = c.answer.receipt;  // all receipts are equal
  BOOST_TEST((r.id == 0 && r.origin == 0 && r.cost == 0 && r.counted_at == 0));
  for (const receipt::bucket& b : r.buckets) {
    BOOST_TEST((b.whole == 0 && b.part == 0 && b.returned == 0));
  }
  c.~bare_check();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace empty_decision_test

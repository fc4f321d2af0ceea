// What a process remembers of the decisions that it settled.
#include "limiter/settled_ids.hpp"

#include "support/test.hpp"

namespace settled_ids_test {

using weir::detail::settled_ids;

BOOST_AUTO_TEST_SUITE(settled_ids_suite)

BOOST_AUTO_TEST_CASE(an_id_is_remembered_for_a_minute) {
  settled_ids ids;
  BOOST_TEST(!ids.contains(7, 100));
  ids.add(7, 100);
  BOOST_TEST(ids.contains(7, 100));
  BOOST_TEST(!ids.contains(8, 100));
  BOOST_TEST(ids.contains(7, 100 + weir::policies::shortest_marker_life - 1));
  BOOST_TEST(!ids.contains(7, 100 + weir::policies::shortest_marker_life));
  ids.add(7, 200);
  BOOST_TEST(ids.contains(7, 199 + weir::policies::shortest_marker_life));
}

BOOST_AUTO_TEST_CASE(a_full_memory_takes_no_more_until_a_minute_is_over) {
  settled_ids ids;
  const auto id = [](std::size_t i) { return 0x9e3779b97f4a7c15u * (i + 1); };
  for (std::size_t i = 0; i < settled_ids::most; ++i) ids.add(id(i), 1);
  ids.add(id(settled_ids::most), 2);
  BOOST_TEST(ids.contains(id(0), 2));
  BOOST_TEST(ids.contains(id(settled_ids::most - 1), 2));
  BOOST_TEST(!ids.contains(id(settled_ids::most), 2));
  ids.add(id(settled_ids::most), 1 + weir::policies::shortest_marker_life);
  BOOST_TEST(ids.contains(id(settled_ids::most), 1 + weir::policies::shortest_marker_life));
}

// Ids that were over stayed so long that 3,500 settlements a second filled the memory.
BOOST_AUTO_TEST_CASE(at_the_rate_that_the_documents_name_every_id_is_remembered) {
  constexpr std::int64_t rate = 3800, seconds = 200;
  settled_ids ids;
  std::int64_t forgotten = 0;
  for (std::int64_t i = 0; i < rate * seconds; ++i) {
    const auto id = 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(i + 1);
    const std::int64_t now = 1 + i * 1'000'000 / rate;
    ids.add(id, now);
    if (!ids.contains(id, now)) ++forgotten;
  }
  BOOST_TEST(forgotten == 0);
}

BOOST_AUTO_TEST_CASE(there_is_one_for_the_process) {
  settled_ids::of_process().add(42);
  BOOST_TEST(settled_ids::of_process().contains(42));
  BOOST_TEST(!settled_ids::of_process().contains(43));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace settled_ids_test

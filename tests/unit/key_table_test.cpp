// The table of one write's keys against a std::map, over random writes.
#include "redis/script/key_table.hpp"

#include "redis/script/script_call.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace key_table_test {

using weir::redis::key_table;
using weir::redis::script_call;

/// A subject whose hash half of the others share.
key_table::id id_of(std::uint64_t resource, const std::string& subject, bool collides) {
  return {resource, subject, collides ? 7 : weir::detail::subject_hash(subject)};
}

BOOST_AUTO_TEST_SUITE(key_table_suite)

// The numbers of the writes come around on the way, and the table grows in some writes.
BOOST_AUTO_TEST_CASE(holds_what_a_map_holds_and_forgets_each_write) {
  BOOST_TEST_MESSAGE("seed " << weir::test::run_seed());
  weir::test::random_source random(weir::test::run_seed());
  for (const bool collides : {false, true}) {
    key_table table(std::numeric_limits<std::uint32_t>::max() - 20);
    std::vector<script_call> calls(4);
    std::vector<std::string> subjects(400);
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      subjects[i] = std::string(i % 40, 'x') + std::to_string(i);
    }
    for (int write = 0; write < 40; ++write) {
      table.clear();
      std::map<std::pair<std::uint64_t, std::string>, key_table::call_slot> known;
      const std::int64_t steps = write == 0 ? 5 : random.between(1, write < 20 ? 100 : 1500);
      for (std::int64_t step = 0; step < steps; ++step) {
        const auto resource = static_cast<std::uint64_t>(random.between(0, 2));
        const std::string& subject = subjects[static_cast<std::size_t>(random.between(0, 399))];
        const key_table::id id = id_of(resource, subject, collides);
        const auto found = known.find({resource, subject});
        const key_table::call_slot* const seen = table.find(id);
        BOOST_REQUIRE((seen != nullptr) == (found != known.end()));
        if (seen != nullptr) BOOST_REQUIRE((*seen == found->second));
        key_table::call_slot& here = table.at(id);
        BOOST_REQUIRE((here.call == nullptr) == (found == known.end()));
        here = {&calls[static_cast<std::size_t>(random.between(0, 3))],
                static_cast<std::size_t>(step)};
        known[{resource, subject}] = here;
      }
      for (const auto& [key, place] : known) {
        const key_table::call_slot* const seen = table.find(id_of(key.first, key.second, collides));
        BOOST_REQUIRE(seen != nullptr);
        BOOST_REQUIRE((*seen == place));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace key_table_test

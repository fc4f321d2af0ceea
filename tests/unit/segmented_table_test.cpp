// The table of the memory store against a std::map, over random traces.
#include "memory/segmented_table.hpp"

#include "memory/subject.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"

namespace segmented_table_test {

namespace memory = weir::memory;

/// A bad hash: many keys share one, and some wrap round at the end of a segment.
struct entry {
  std::uint64_t key = 0;
  std::int64_t until = 0;

  static std::uint32_t hash_of(std::uint64_t key) {
    return static_cast<std::uint32_t>((key % 16 << 28) | (0xfff0 + key % 23));
  }
  std::uint32_t hash() const { return hash_of(key); }
  bool is_free() const { return key == 0; }
  bool is_over(std::int64_t now) const { return until <= now; }
};

BOOST_AUTO_TEST_SUITE(segmented_table_suite)

BOOST_AUTO_TEST_CASE(holds_what_a_map_holds_and_drops_nothing_that_is_alive) {
  BOOST_TEST_MESSAGE("seed " << weir::test::run_seed());
  weir::test::random_source random(weir::test::run_seed());
  for (const std::size_t most : {std::size_t{10}, std::size_t{1'000'000}}) {
    memory::segmented_table<entry> table(most);
    std::map<std::uint64_t, std::int64_t> alive;
    std::int64_t now = 0;
    std::size_t largest = 0;
    constexpr int steps = weir::test::is_sanitized ? 40'000 : 100'000;
    for (int step = 0; step < steps; ++step) {
      now += random.between(0, 2);
      // Up and down: the table grows, shrinks and is nearly empty by turns.
      const std::int64_t keys = step / 10'000 % 2 == 0 ? 1000 : 20;
      const auto key = static_cast<std::uint64_t>(random.between(1, keys));
      const auto is_it = [&](const entry& e) { return e.key == key; };
      std::erase_if(alive, [&](const auto& e) { return e.second <= now; });
      entry* found = table.find(entry::hash_of(key), is_it);
      const auto known = alive.find(key);
      if (known != alive.end()) {
        BOOST_REQUIRE(found != nullptr);
        BOOST_REQUIRE(found->until == known->second);
      } else if (found != nullptr) {
        BOOST_REQUIRE(found->is_over(now));
      }
      if (random.one_in(8)) {
        if (found != nullptr) table.erase(*found);
        alive.erase(key);
        BOOST_REQUIRE(table.find(entry::hash_of(key), is_it) == nullptr);
      } else {
        const std::int64_t until = now + random.between(1, 4000);
        if (found == nullptr) found = &table.add({key, until});
        found->until = alive[key] = until;
      }
      table.tidy(now, 8);
      largest = std::max(largest, table.size());
      BOOST_REQUIRE(table.size() >= alive.size());
    }
    BOOST_TEST(largest > 500u);
    // Nothing more comes: the dead go, the living stay.
    std::erase_if(alive, [&](const auto& e) { return e.second <= now; });
    for (std::size_t i = 0; i < 8 * largest; ++i) table.tidy(now, 8);
    BOOST_TEST(table.size() == alive.size());
    for (const auto& [key, until] : alive) {
      const entry* found = table.find(entry::hash_of(key),
                                      [&](const entry& e) { return e.key == key; });
      BOOST_REQUIRE(found != nullptr);
      BOOST_TEST(found->until == until);
    }
  }
}

BOOST_AUTO_TEST_CASE(tidy_sees_a_bounded_number_of_slots_and_says_if_most_was_over) {
  memory::segmented_table<entry> table(1'000'000);
  for (std::uint64_t key = 1; key <= 2000; ++key) table.add({key, 10});
  std::size_t before = table.size();
  int looks = 0;
  BOOST_TEST(table.tidy(10, 100, [&](const entry&) { ++looks; }));
  BOOST_TEST(looks <= 100);
  BOOST_TEST(before - table.size() == static_cast<std::size_t>(looks));
  // Nothing is over.
  for (int i = 0; i < 100; ++i) BOOST_TEST(!table.tidy(9, 100));
  for (int i = 0; i < 100'000 && table.size() > 0; ++i) table.tidy(10, 2);
  BOOST_TEST(table.size() == 0u);
  // With nothing to see, it goes round once at the most.
  BOOST_TEST(!table.tidy(10, 1'000'000'000));
  // The answer of is_over() is that after look().
  table.add({1, 10});
  BOOST_TEST(table.tidy(5, 1'000'000, [](entry& e) { e.until = 5; }));
  BOOST_TEST(table.size() == 0u);
}

BOOST_AUTO_TEST_CASE(keys_of_every_length_are_kept) {
  for (std::size_t size = 0; size < 100; ++size) {
    const std::string text(size, 'x');
    memory::short_key<40> key(text, 7);
    BOOST_TEST(key.view() == text);
    memory::short_key<40> other("something of its own that is longer than fits inside", 8);
    other = std::move(key);
    BOOST_TEST(other.view() == text);
    BOOST_TEST(other.hash() == 7u);
    const memory::short_key<40> third(std::move(other));
    BOOST_TEST(third.view() == text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace segmented_table_test

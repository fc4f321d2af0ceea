// The table of local_keyed_limiter: one shard against a std::map, and how much one call may do.
#include "local/keyed_table.hpp"

#include "support/random_source.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"

namespace keyed_table_test {

namespace memory = weir::memory;
using weir::detail::keyed_table;
using weir::policies::instant;

/// A bad hash: many keys share one, and some wrap round at the end of the slots.
std::uint32_t bad_hash(const std::string& key) {
  std::uint32_t sum = 0;
  for (const char c : key) sum += static_cast<unsigned char>(c);
  return 0xffff'fff0 + sum % 23;
}

/// A state that is over at `until`, and counts what is done with states.
struct counted {
  static inline std::int64_t looks = 0, moves = 0;
  instant until = 0;

  counted() = default;
  counted(counted&& other) noexcept : until(other.until) { ++moves; }
  counted& operator=(counted&& other) noexcept {
    until = other.until;
    ++moves;
    return *this;
  }
};

struct counting_rules {
  using state_type = counted;
  instant matters_until(const counted& s) const noexcept {
    ++counted::looks;
    return s.until;
  }
  bool is_far_ahead(const counted&, instant) const noexcept { return false; }
  weir::policies::units in_use(const counted&, instant) const noexcept { return 1; }
};

BOOST_AUTO_TEST_SUITE(keyed_table_suite)

BOOST_AUTO_TEST_CASE(a_shard_holds_what_a_map_holds_and_drops_nothing_that_is_alive) {
  const std::uint64_t seed = weir::test::run_seed();
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed) {
    weir::test::random_source random(seed);
    using entry = memory::keyed_entry<std::int64_t>;
    memory::slot_table<entry> shard;
    const auto find = [&](const std::string& key) {
      return shard.find(bad_hash(key), [&](const entry& e) { return e.key.view() == key; });
    };
    std::map<std::string, std::int64_t> alive;
    std::int64_t now = 0;
    std::size_t largest = 0, smallest_later = 1'000'000;
    constexpr int steps = weir::test::is_sanitized ? 40'000 : 100'000;
    const auto sweep = [&](std::size_t looks) {
      return shard.sweep(looks, [&](const auto& e) { return e.state <= now; });
    };
    for (int step = 0; step < steps; ++step) {
      now += random.between(0, 2);
      // Up and down: the shard grows, shrinks and is nearly empty by turns.
      const std::int64_t keys = step / 10'000 % 2 == 0 ? 400 : 10;
      const std::string key(static_cast<std::size_t>(random.between(1, keys)), 'k');
      std::erase_if(alive, [&](const auto& e) { return e.second <= now; });
      auto* found = find(key);
      if (const auto known = alive.find(key); known != alive.end()) {
        BOOST_TEST_REQUIRE(found != nullptr);
        BOOST_TEST_REQUIRE(found->state == known->second);
      } else if (found != nullptr) {
        BOOST_TEST_REQUIRE(found->state <= now);
      }
      if (random.one_in(8)) {
        if (found != nullptr) shard.erase(*found);
        alive.erase(key);
        BOOST_TEST_REQUIRE(find(key) == nullptr);
      } else {
        if (found == nullptr) {
          entry fresh;
          fresh.key = entry::key_type(key, bad_hash(key));
          found = &shard.add(std::move(fresh));
          BOOST_TEST_REQUIRE(found->state == 0);
        }
        found->state = alive[key] = now + random.between(1, 4000);
      }
      sweep(8);
      largest = std::max(largest, shard.size());
      if (step > 10'000) smallest_later = std::min(smallest_later, shard.size());
      BOOST_TEST_REQUIRE(shard.size() >= alive.size());
    }
    BOOST_TEST(largest > 200u);
    BOOST_TEST(smallest_later < 50u);
    // Nothing more comes: what is over goes, the rest stays.
    std::erase_if(alive, [&](const auto& e) { return e.second <= now; });
    for (int rounds = 0; rounds < 3; ++rounds) {
      while (!sweep(8)) continue;
    }
    BOOST_TEST(shard.size() == alive.size());
    for (const auto& [key, until] : alive) {
      const auto* found = find(key);
      BOOST_TEST_REQUIRE(found != nullptr);
      BOOST_TEST(found->state == until);
    }
    now += 5000;
    for (int rounds = 0; rounds < 3; ++rounds) {
      while (!sweep(8)) continue;
    }
    BOOST_TEST(shard.size() == 0u);
  }
}

// A whole table of keys that are over does not stop the call that finds them: each call looks at a
// few slots, and moves the entries of one shard at most.
BOOST_AUTO_TEST_CASE(the_work_of_each_call_is_bounded) {
  constexpr int keys = 200'000;
  keyed_table<counting_rules> table({}, keys);
  std::int64_t most_looks = 0, most_moves = 0;
  std::size_t most_dropped = 0;
  const auto ask = [&](const std::string& key, instant now) {
    counted::looks = counted::moves = 0;
    const std::size_t before = table.size();
    table.change(
        key, [&] { return now; },
        [&](counted& s, instant t) {
          s.until = t + 1000;
          return true;
        });
    most_looks = std::max(most_looks, counted::looks);
    most_moves = std::max(most_moves, counted::moves);
    if (table.size() < before) most_dropped = std::max(most_dropped, before - table.size());
  };
  for (int i = 0; i < keys + 10'000; ++i) ask("key " + std::to_string(i), 1);
  BOOST_TEST(table.size() == static_cast<std::size_t>(keys));
  BOOST_TEST(table.evicted() == 10'000u);
  const instant later = 1'000'000'000;
  int calls = 0;
  for (; table.size() > 1; ++calls) {
    ask("the one", later);
    BOOST_TEST_REQUIRE(calls < 10 * keys);
  }
  BOOST_TEST_MESSAGE("at the most " << most_looks << " looks, " << most_moves << " moves and "
                                    << most_dropped << " dropped keys in one call, in " << calls
                                    << " calls");
  BOOST_TEST(most_looks <= 48);  // 32 of a sweep, and 16 of a full table
  BOOST_TEST(most_dropped <= 32u);
  BOOST_TEST(most_dropped > 10u);
  BOOST_TEST(most_moves < 1000);  // a shard that grows has 384 entries
  BOOST_TEST(table.evicted() == 10'000u);
}

// A call that left its lock to make room in another shard went on with the time from before: by
// then, another thread may have counted its key at a later time.
BOOST_AUTO_TEST_CASE(a_call_that_left_its_lock_reads_the_clock_again) {
  constexpr std::size_t most = 32;  // in two shards
  keyed_table<counting_rules> table({}, most);
  instant last = 0;  // that the clock has said
  const auto add = [&](const std::string& key, instant until) {
    return table.change(
        key, [&] { return ++last; },
        [&](counted& s, instant now) {
          s.until = until;
          return now;
        });
  };
  const auto is_there = [&](const std::string& key) {
    return table.look(
        key, [&] { return last; }, [](const counted* s, instant) { return s; });
  };
  // A full table looks at 16 keys of the new one's shard, and displaces that which is over last. So
  // a key is in the shard of "first" if it displaces that; else it is probably elsewhere.
  constexpr instant soon = 1'000'000, late = 2'000'000;
  std::vector<std::string> beside, elsewhere;
  for (int i = 0; beside.size() < most || elsewhere.size() < 100; ++i) {
    add("first", late);
    for (std::size_t n = 1; n < most; ++n) add(std::to_string(n), soon);
    const std::string key = "key " + std::to_string(i);
    add(key, soon);
    (is_there("first") ? elsewhere : beside).push_back(key);
    table.erase(key);
  }
  for (std::size_t n = 1; n < most; ++n) table.erase(std::to_string(n));
  table.erase("first");
  BOOST_TEST_REQUIRE(table.size() == 0u);

  beside.resize(most);
  for (const std::string& key : beside) add(key, late);
  BOOST_TEST_REQUIRE(table.size() == most);
  bool was_read_again = false;
  for (std::size_t i = 0; i < elsewhere.size() && !was_read_again; ++i) {
    const instant before = last;
    BOOST_TEST(add(elsewhere[i], late) == last);
    was_read_again = last > before + 1;
  }
  BOOST_TEST(was_read_again);
}

// Every byte counts, whatever the length.
BOOST_AUTO_TEST_CASE(keys_that_differ_in_one_byte_have_different_hashes) {
  const weir::detail::key_hash hash;
  std::set<std::uint64_t> seen;
  std::size_t texts = 0;
  for (std::size_t size = 1; size <= 70; ++size) {
    std::string text(size, 'a');
    for (std::size_t at = 0; at < size; ++at) {
      for (const char c : {'b', 'c', '\0', '\xff'}) {
        text[at] = c;
        seen.insert(hash(text));
        BOOST_TEST_REQUIRE(hash(std::string(text)) == hash(text));
        ++texts;
      }
      text[at] = 'a';
    }
  }
  BOOST_TEST(seen.size() == texts);
  const weir::detail::key_hash other;
  BOOST_TEST(hash("a") != other("a"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace keyed_table_test

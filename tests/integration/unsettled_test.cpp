// Calls of settle_all() and refund_all() that settle nothing, and leave all keys as they were.
#include "settle_all_fixture.hpp"

namespace unsettled_test {

using namespace weir;
using namespace weir::test;

BOOST_FIXTURE_TEST_SUITE(unsettled_suite, settle_all_fixture)

BOOST_AUTO_TEST_CASE(it_is_settled_with_the_claims_that_were_asked) {
  on_both([&](const weir::store& store) {
    const policy p = fixed_window{.limit = 10, .window = 24h};
    const limiter one(store, "one", p, together), two(store, "two", p, together);
    const limiter three(store, "three", p, together),
        elsewhere(store, "two", p, {.group = "other"});
    const limiter of_another_policy(store, "two", fixed_window{.limit = 11, .window = 24h},
                                    together);
    const limiter counts_all(
        store, "four", fixed_window{.limit = 10, .window = 24h, .count_refused = true}, together);
    const joint_decision d = record(one.on("a", 2), two.on("b", 3));
    const auto error_of = [&](const claim& a, const claim& b) { return ask_to_settle(d, a, b).ec; };
    WEIR_TEST_ERROR(error_of(two.on("b"), one.on("a")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("b"), two.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), two.on("a")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), three.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), elsewhere.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), of_another_policy.on("b")), error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a"), counts_all.on("b")), error::cannot_settle);
    const auto of_some = [&](std::span<const claim> claims) {
      return outcome_of([&](auto caller) { refund_all(d, claims, {}, caller); }).ec;
    };
    WEIR_TEST_ERROR(of_some(std::array{one.on("a")}), error::cannot_settle);
    WEIR_TEST_ERROR(of_some(std::array{one.on("a"), two.on("b"), three.on("b")}),
                    error::cannot_settle);
    const decision of_the_first_limiter = d;
    WEIR_TEST_ERROR(ask_to_settle(of_the_first_limiter, one.on("a"), two.on("b")).ec,
                    error::cannot_settle);
    WEIR_TEST_ERROR(error_of(one.on("a", -1), two.on("b")), error::invalid_cost);
    WEIR_TEST_ERROR(error_of(one.on("a"), two.on("b", max_units + 1)), error::invalid_cost);
    WEIR_TEST_ERROR(error_of(one.on("a"), two.on("")), error::invalid_subject);
    BOOST_TEST(used(one) == 2);
    BOOST_TEST(used(two, "b") == 3);
    const decision of_one = answer([&](auto caller) { one.record("a", caller); });
    WEIR_TEST_ERROR(ask_to_settle(of_one, one.on("a"), two.on("b")).ec, error::cannot_settle);
    const limiter like_one(store, "one", p, together);
    BOOST_TEST(refund(d, like_one.on("a"), two.on("b")).allowed);
    BOOST_TEST_CHECK(used(one) == 1);
  });
}

BOOST_AUTO_TEST_CASE(what_took_nothing_tells_how_things_stand) {
  on_both([&](const weir::store& store) {
    const policy p = sliding_log{.limit = 10, .window = 24h};
    const limiter one(store, "one", p, together), two(store, "two", p, together);
    const limiter elsewhere(store, "two", p, {.group = "other"});
    record(one.on("a", 2), two.on("a", 7));
    const joint_decision refused = record(one.on("a", 1), two.on("a", 4));
    BOOST_TEST(!refused.allowed);
    for (const joint_decision& d : {refused, joint_decision{}}) {
      const decision now = settle(d, one.on("a", 0), two.on("a", 9));
      BOOST_TEST(!now.allowed);
      BOOST_TEST(now.limit == 10);
      BOOST_TEST(now.used == 7);
      BOOST_TEST(now.remaining == 3);
      BOOST_TEST((now.reset_after > 0us));
      BOOST_TEST(now.receipt.id == 0u);
    }
    BOOST_TEST(used(two) == 7);
    WEIR_TEST_ERROR(ask_to_settle(refused, one.on("a"), elsewhere.on("a")).ec,
                    error::cannot_combine);
    WEIR_TEST_ERROR(ask_to_settle(refused, one.on("a"), one.on("a")).ec, error::cannot_combine);
  });
}

BOOST_AUTO_TEST_CASE(four_limiters_can_be_settled_and_five_cannot) {
  on_both([&](const weir::store& store) {
    std::vector<limiter> all;
    for (int i = 0; i < 5; ++i) {
      all.emplace_back(store, "r" + std::to_string(i), a_day(100)[static_cast<std::size_t>(i)],
                       together);
    }
    const auto on = [&](std::size_t count, std::int64_t cost) {
      std::vector<claim> claims;
      for (std::size_t i = 0; i < count; ++i) {
        claims.push_back(all[i].on("a", cost * static_cast<std::int64_t>(i + 1)));
      }
      return claims;
    };
    joint_decision d = answer([&](auto h) { record_all(on(4, 10), {}, h); });
    BOOST_TEST(answer([&](auto h) { settle_all(d, on(4, 3), {}, h); }).allowed);
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(used(all[i]) == 3 * static_cast<int>(i + 1));
    d = answer([&](auto h) { record_all(on(5, 10), {}, h); });
    BOOST_TEST(d.allowed);
    BOOST_TEST(d.receipt.id == 0u);
    WEIR_TEST_ERROR(outcome_of([&](auto h) { refund_all(d, on(5, 1), {}, h); }).ec,
                    error::cannot_settle);
    BOOST_TEST(used(all[4]) == 50);
  });
}

// One key holds a foreign value: the script changes no other key, and writes no marker.
BOOST_AUTO_TEST_CASE(a_foreign_entry_in_one_key_leaves_all_as_they_were) {
  const weir::store store = open(false);
  int n = 0;
  for (const bool first : {false, true}) {
    for (const policy& p : a_day(10)) {
      for (const char* command : {"SET", "RPUSH"}) {
        BOOST_TEST_CONTEXT("policy " << p.index() << ", the first: " << first << ", " << command) {
          const std::string number = std::to_string(n++);
          const limiter ours(store, "ours" + number, p, together);
          const limiter theirs(store, "theirs" + number, p, together);
          const auto claims = [&](std::int64_t a, std::int64_t b) {
            return first ? std::array{theirs.on("a", b), ours.on("a", a)}
                         : std::array{ours.on("a", a), theirs.on("a", b)};
          };
          const joint_decision d = answer([&](auto h) { record_all(claims(6, 4), {}, h); });
          const auto key_of = [&](const char* resource) {
            const std::string pattern = "weir:{model}:" + (resource + number) + ":a:*";
            const auto keys = client.must("KEYS", pattern).children;
            BOOST_TEST_REQUIRE(keys.size() == 1u);
            return keys[0].text;
          };
          const std::string key = key_of("theirs"), untouched = key_of("ours");
          const std::string before = client.must("DUMP", untouched).text;
          client.must("RENAME", key, "aside");
          client.must(command, key, "something else");
          for (const auto& actual : {claims(2, 1), claims(9, 9), claims(2, 9), claims(6, 0)}) {
            WEIR_TEST_ERROR(outcome_of([&](auto h) { settle_all(d, actual, {}, h); }).ec,
                            error::wrong_type);
          }
          BOOST_TEST((client.must("DUMP", untouched).text == before));
          BOOST_TEST(markers().empty());
          // So it can be tried again.
          client.must("RENAME", "aside", key);
          BOOST_TEST(answer([&](auto h) { settle_all(d, claims(2, 9), {}, h); }).allowed);
          BOOST_TEST(used(ours) == 2);
          BOOST_TEST(used(theirs) == 9);
          for (const std::string& marker : markers()) client.must("DEL", marker);
        }
      }
    }
  }
}

// It was remembered as done, and what was given back to the first tier was not tried again.
BOOST_AUTO_TEST_CASE(a_foreign_entry_in_one_tier_leaves_the_others_as_they_were) {
  const limiter l(open(false), "r",
                  tiers(fixed_window{.limit = 10, .window = 24h}, token_bucket{20, per_day(1)}));
  const decision d = answer([&](auto h) { l.record("a", {.cost = 6}, h); });
  client.must("RENAME", "weir:{r:a}:m1", "aside");
  client.must("SET", "weir:{r:a}:m1", "something else");
  WEIR_TEST_ERROR(outcome_of([&](auto h) { l.refund("a", d, h); }).ec, error::wrong_type);
  client.must("RENAME", "aside", "weir:{r:a}:m1");
  BOOST_TEST(used(l) == 6);
  BOOST_TEST(answer([&](auto h) { l.refund("a", d, h); }).allowed);
  BOOST_TEST(used(l) == 0);
}

BOOST_AUTO_TEST_CASE(where_nothing_more_can_be_remembered_nothing_is_settled) {
  const weir::store store = make_memory_store(io.get_executor(), {.max_settled = 1});
  const limiter one(store, "one", token_bucket{10, per_day(1)}, together);
  const limiter two(store, "two", sliding_log{10, 24h}, together);
  const joint_decision d = record(one.on("a", 2), two.on("a", 2));
  const joint_decision e = record(one.on("a", 3), two.on("a", 3));
  BOOST_TEST(refund(d, one.on("a"), two.on("a")).allowed);
  WEIR_TEST_ERROR(ask_to_settle(e, one.on("a", 1), two.on("a", 5)).ec, error::settlements_full);
  BOOST_TEST(used(one) == 3);
  BOOST_TEST(used(two) == 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace unsettled_test

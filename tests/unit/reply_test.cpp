// What a script for checks replies, in each of its two forms, and replies that are none.
#include <cmath>

#include "policy/kernel.hpp"
#include "redis/script/reply.hpp"
#include "support/doubles.hpp"
#include "support/test.hpp"

namespace reply_test {

using namespace weir;
using numbers = std::vector<std::int64_t>;

const policies::meter bucket(1, 1000, 10, false);

/// The numbers for that many checks; empty if the text is refused.
numbers found_by(const std::vector<redis::call_tier>& tiers, const std::string& text,
                 std::size_t checks) {
  std::vector<redis::call_key> keys(checks);
  numbers all;
  if (!redis::read_found(tiers, keys, false, text, all)) all.clear();
  return all;
}
numbers found_by(const policies::kernel& kernel, const std::string& text, std::size_t keys) {
  return found_by(std::vector<redis::call_tier>{{kernel, 1}}, text, keys);
}
numbers found(const std::string& text, std::size_t keys) { return found_by(bucket, text, keys); }

BOOST_AUTO_TEST_SUITE(reply_suite)

BOOST_AUTO_TEST_CASE(both_forms_say_the_same) {
  const numbers one{1'790'000'000'000'005, 1'790'000'000'123'456, 0, 0, 0, 0};
  const std::string full = test::doubles({1'790'000'000'123'456.0, 0, 0, 0, 0});
  BOOST_TEST(found("1790000000 5 1790000000123456", 1) == one);
  BOOST_TEST(found("!1790000000 5 p1790000000123456", 1) == one);
  BOOST_TEST(found("!1790000000 5 f" + full, 1) == one);
  const numbers absent_and_foreign{1'790'000'000'000'000, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0};
  BOOST_TEST(found("!1790000000 0 p0000000000000000f" + test::doubles({-1.0, 0, 0, 0, 0}), 2) ==
             absent_and_foreign);
}

BOOST_AUTO_TEST_CASE(another_reply_is_refused) {
  for (const std::string& text :
       {std::string(), std::string("1790000000"), std::string("1790000000 5"),
        std::string("1790000000 5 "), std::string("1790000000 5 179000000012345"),
        std::string("1790000000 5 17900000001234567"), std::string("x 5 1790000000123456"),
        std::string("1790000000 1000000 1790000000123456"), std::string("-1 5 1790000000123456"),
        std::string("99999999999 5 1790000000123456")}) {
    BOOST_TEST(found(text, 1).empty(), text);
    BOOST_TEST(found("!" + text, 1).empty(), text);
  }
  const std::string full = test::doubles({1'790'000'000'123'456.0, 0, 0, 0, 0});
  for (const std::string& text :
       {"f" + full.substr(1), "f" + full + "0", "f" + full + "p1790000000123456", "x" + full, full,
        "f" + test::doubles({-3.0, 0, 0, 0, 0}), "f" + test::doubles({0.5, 0, 0, 0, 0}),
        "f" + test::doubles({0, 0, 0, 0, std::nan("")}), std::string("f"), std::string("p"),
        std::string("p179000000012345")}) {
    BOOST_TEST(found("!1790000000 5 " + text, 1).empty());
  }
}

BOOST_AUTO_TEST_CASE(a_bucket_in_parts_of_a_microsecond_has_numbers_of_any_length) {
  const policies::meter in_parts(7, 3'000'000, 10, false);
  const auto with = [&](const std::string& text, std::size_t keys) {
    return found_by(in_parts, "1790000000 5 " + text, keys);
  };
  const numbers three{1'790'000'000'000'005,
                      1'790'000'000'123'456,
                      6,
                      0,
                      0,
                      0,
                      0,
                      0,
                      0,
                      0,
                      0,
                      1'790'000'000'123'457,
                      0,
                      0,
                      0,
                      0};
  BOOST_TEST(with("1790000000123456/6 0 1790000000123457", 3) == three);
  const numbers one{1'790'000'000'000'005, 1'790'000'000'123'456, 6, 0, 0, 0};
  BOOST_TEST(found_by(in_parts, "!1790000000 5 p1790000000123456/6 ", 1) == one);
  BOOST_TEST(!with("0 ", 1).empty());  // the script of several keys ends each so
  BOOST_TEST(with("0", 2).empty());
  BOOST_TEST(with("0 0", 1).empty());
  for (const char* text : {"", " ", "0  ", "/6", "-5", "1790000000123456/", "1790000000123456/x",
                           "1790000000123456/-6", "1790000000123456/6x", "99999999999999999999",
                           "1790000000123456/99999999999999999999"}) {
    BOOST_TEST(with(text, 1).empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_for_several_keys_holds_the_texts_tier_by_tier) {
  const std::vector<redis::call_tier> tiers{{bucket, 1}, {policies::cool_down(), 1}};
  const auto read = [&](const std::string& text, std::size_t checks) {
    return found_by(tiers, text, checks);
  };
  constexpr std::int64_t now = 1'790'000'000'000'005, tat = 1'790'000'000'123'456;
  const std::string time = "1790000000 5 ", of_tat = std::to_string(tat);
  const std::string over = "17900000000000000000000001000000", none(32, '0');
  const numbers first{tat, 0, 0, 0, 0, tat - 123'456, 1'000'000}, second{tat + 1, 0, 0, 0, 0, 0, 0};
  const auto after = [](std::int64_t time, std::initializer_list<numbers> states) {
    numbers all{time};
    for (const numbers& s : states) all.insert(all.end(), s.begin(), s.end());
    return all;
  };
  const std::string tats = of_tat + "1790000000123457";
  BOOST_TEST(read(time + of_tat + over, 1) == after(now, {first}));
  BOOST_TEST(read(time + tats + over + none, 2) == after(now, {first, second}));
  // Cool-downs at the end have no text if there is none.
  const numbers calm{tat, 0, 0, 0, 0, 0, 0};
  BOOST_TEST(read(time + tats, 2) == after(now, {calm, second}));
  const std::string mixed = "!" + time + "p" + of_tat + "f" +
                            test::doubles({tat + 1.0, 0, 0, 0, 0, 0, 0});
  BOOST_TEST(read(mixed, 2) == after(now, {calm, second}));
  BOOST_TEST(read("!" + time + "p" + of_tat + over + "p" + of_tat, 2) == after(now, {first, calm}));
  BOOST_TEST(read(time, 1).empty());
  // All of them, or none.
  BOOST_TEST(read(time + tats + over, 2).empty());
  for (const char* text :
       {"1790000000000000", "179000000000000000000000010000000", "1790000000000000-000000000000000",
        "1790000000000000x000000001000000", "1790000000000000000000000100000 "}) {
    BOOST_TEST(read(time + of_tat + text, 1).empty(), text);
    BOOST_TEST(read(time + tats + over + text, 2).empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(reservations_are_texts_or_turns) {
  const std::vector<redis::call_tier> tiers{
      {policies::compile(fixed_window{.limit = 3, .window = std::chrono::seconds{1}}), 1}};
  std::vector<redis::call_key> keys(2);
  keys[0].count = 2;
  keys[1].count = 1;
  const auto read = [&](const std::string& text) {
    numbers all;
    if (!redis::read_found(tiers, keys, true, text, all)) all.clear();
    return all;
  };
  const auto full = [](std::initializer_list<std::int64_t> values) {
    std::string all;
    for (const std::int64_t v : values) policies::pack_number(all, v);
    return all;
  };
  constexpr std::int64_t now = 1'790'000'000'000'005, start = 1'790'000'000'000'000;
  const std::string state = test::doubles({start, 2, 0});
  const auto at_once = redis::at_once;
  BOOST_TEST(read("1790000000 5 " + state + state) ==
             (numbers{now, at_once, start, 2, 0, at_once, start, 2, 0}));
  // Two of the first key, then the text of the second.
  const std::string time = "!1790000000 5 ";
  const std::string turns = full({now, start, 2, 0, now + 9, start, 3, 0});
  BOOST_TEST(read(time + "f" + turns + "p" + state) ==
             (numbers{now, now, start, 2, 0, now + 9, start, 3, 0, at_once, start, 2, 0}));
  const std::string late = full({now, start, 2, 0, now - 1, start, 3, 0});
  for (const std::string& other :
       {"1790000000 5 " + state, "1790000000 5 " + state + state + "0", time + "f" + turns,
        time + "f" + turns + "p" + state + "p" + state, time + "f" + turns + "p" + state + "0",
        time + "f" + late + "p" + state, time + "f" + turns + "f" + state, std::string(), time}) {
    BOOST_TEST(read(other).empty());
  }
}

// Bytes that came in between made a number of a window that was none. The caller was told that its
// key holds something else and that it was not counted, but it was.
BOOST_AUTO_TEST_CASE(a_damaged_number_is_no_foreign_key) {
  const policies::fixed_window window(fixed_window{.limit = 3, .window = std::chrono::seconds{1}});
  const auto with = [&](const std::string& key) {
    return found_by(window, "1790000000 5 " + key, 1);
  };
  const numbers open{1'790'000'000'000'005, 1'790'000'000'000'000, 2, 0};
  BOOST_TEST(with(test::doubles({1.79e15, 2, 1.79e15})) == open);
  BOOST_TEST(with(std::string(24, '-')).empty());
  BOOST_TEST(with(test::doubles({1.79e15, 2}) + std::string("\0\0+stray", 8)).empty());
  for (const double bad : {-1.0, 0.5, 1e300, std::nan(""), std::ldexp(1, 53)}) {
    BOOST_TEST(with(test::doubles({bad, 2, 1.79e15})).empty());
    BOOST_TEST(with(test::doubles({1.79e15, bad, 1.79e15})).empty());
    BOOST_TEST(with(test::doubles({1.79e15, 2, bad})).empty());
  }
  BOOST_TEST(with(test::doubles({1.79e15, 2})).empty());
  // And of a bucket.
  BOOST_TEST(found("1790000000 5 1790000000+stray", 1).empty());
  const numbers not_ours{1'790'000'000'000'005, -1, 0, 0, 0, 0};
  BOOST_TEST(found("1790000000 5 1.79000000000e15", 1) == not_ours);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace reply_test

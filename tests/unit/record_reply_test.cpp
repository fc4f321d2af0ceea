// What a record's script replies with, in each of its two forms, and replies that are none.

#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "policy/kernel.hpp"
#include "redis/joint_call.hpp"
#include "redis/record_reply.hpp"
#include "support/doubles.hpp"

namespace record_reply_test {
namespace {

using namespace weir;
using numbers = std::vector<std::int64_t>;

const policies::meter bucket(1, 1000, 10, false);

/// The numbers for that many keys; empty if the reply is refused.
template <class Kernel>
numbers found_by(const Kernel& kernel, const std::string& bytes, std::size_t keys) {
  redis::reply_reader reader;
  bytes.copy(reader.prepare(bytes.size()).data(), bytes.size());
  reader.commit(bytes.size());
  error_code ec;
  const redis::reply_view* reply = reader.next(ec);
  BOOST_TEST_REQUIRE(reply != nullptr);
  numbers all(1 + keys * Kernel::reply_width);
  if (!redis::read_found(kernel, *reply, all) || all[0] < 0) all.clear();
  return all;
}
numbers found(const std::string& bytes, std::size_t keys) { return found_by(bucket, bytes, keys); }

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record_reply_suite)

BOOST_AUTO_TEST_CASE(texts_and_arrays_say_the_same) {
  const numbers one{1'790'000'000'000'005, 1'790'000'000'123'456, 0, 0, 0, 0};
  BOOST_TEST(found(bulk("1790000000 5 1790000000123456"), 1) == one);
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n" + bulk("1790000000123456"), 1) == one);
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n*5\r\n:1790000000123456\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
                   1) == one);
  const numbers absent_and_foreign{1'790'000'000'000'000, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0};
  BOOST_TEST(found(bulk("1790000000 0 0000000000000000----------------"), 2) == absent_and_foreign);
}

BOOST_AUTO_TEST_CASE(another_reply_is_refused) {
  for (const std::string& text :
       {std::string(), std::string("1790000000"), std::string("1790000000 5"),
        std::string("1790000000 5 "), std::string("1790000000 5 179000000012345"),
        std::string("1790000000 5 17900000001234567"), std::string("x 5 1790000000123456"),
        std::string("1790000000 1000000 1790000000123456"), std::string("-1 5 1790000000123456"),
        std::string("99999999999 5 1790000000123456")}) {
    BOOST_TEST(found(bulk(text), 1).empty(), text);
  }
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n", 1).empty());
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n*5\r\n:1\r\n:0\r\n*0\r\n:0\r\n:0\r\n", 1).empty());
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n" + bulk("17900000001234560"), 1).empty());
  BOOST_TEST(found("*2\r\n" + bulk("5") + bulk("1790000000123456"), 1).empty());
  BOOST_TEST(found("*6\r\n:1790000000000005\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n", 1).empty());
  BOOST_TEST(found("*1\r\n:1790000000000005\r\n", 1).empty());
  BOOST_TEST(found("*0\r\n", 1).empty());
  BOOST_TEST(found(":1\r\n", 1).empty());
}

BOOST_AUTO_TEST_CASE(a_bucket_in_parts_of_a_microsecond_has_numbers_of_any_length) {
  const policies::meter in_parts(7, 3'000'000, 10, false);
  const auto with = [&](const std::string& text, std::size_t keys) {
    return found_by(in_parts, bulk("1790000000 5 " + text), keys);
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
  BOOST_TEST(found_by(in_parts, "*2\r\n:1790000000000005\r\n" + bulk("1790000000123456/6"), 1) ==
             one);
  BOOST_TEST(!with("0 ", 1).empty());  // the script of several keys ends each so
  BOOST_TEST(with("0", 2).empty());
  BOOST_TEST(with("0 0", 1).empty());
  for (const char* text : {"", " ", "0  ", "/6", "-5", "1790000000123456/", "1790000000123456/x",
                           "1790000000123456/-6", "1790000000123456/6x", "99999999999999999999",
                           "1790000000123456/99999999999999999999"}) {
    BOOST_TEST(with(text, 1).empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_for_several_keys_holds_the_text_of_each) {
  const redis::call_tier tiers[] = {{bucket, 1}, {policies::cool_down(), 1}};
  const auto read = [&](std::string_view text) {
    numbers fields(policies::meter::reply_width + policies::cool_down::reply_width);
    const bool is_read = redis::read_plain_tiers(tiers, text, fields);
    return is_read && text.empty() ? fields : numbers{};
  };
  const std::string tat = "1790000000123456";
  const numbers both{1'790'000'000'123'456, 0, 0, 0, 0, 1'790'000'000'000'000, 1'000'000};
  BOOST_TEST(read(tat + "1790000000000000" + "0000000001000000") == both);
  const numbers no_cool_down{1'790'000'000'123'456, 0, 0, 0, 0, 0, 0};
  BOOST_TEST(read(tat + std::string(32, '0')) == no_cool_down);
  for (const char* text : {"", "1790000000000000", "179000000000000000000000010000000",
                           "1790000000000000-000000000000000", "1790000000000000x000000001000000",
                           "1790000000000000000000000100000 "}) {
    BOOST_TEST(read(tat + text).empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(a_cool_down_that_is_not_there_has_no_text) {
  const redis::call_tier tiers[] = {{bucket, 1}, {policies::cool_down(), 1}};
  const auto read = [&](std::string_view text) {
    numbers fields(policies::meter::reply_width + policies::cool_down::reply_width, 77);
    const bool is_read = redis::read_beside_cool_down(tiers, text, fields);
    return is_read && text.empty() ? fields : numbers{};
  };
  const std::string tat = "1790000000123456";
  const numbers none{1'790'000'000'123'456, 0, 0, 0, 0, 0, 0};
  BOOST_TEST(read(tat) == none);
  const numbers both{1'790'000'000'123'456, 0, 0, 0, 0, 1'790'000'000'000'000, 1'000'000};
  BOOST_TEST(read(tat + "17900000000000000000000001000000") == both);
  for (const char* text : {"", "1790000000", "17900000001234560"}) {
    BOOST_TEST(read(text).empty(), text);
  }
}

// Bytes that came in between made a number of a window that was none. The caller was told that its
// key holds something else and that it was not counted, but it was.
BOOST_AUTO_TEST_CASE(a_damaged_number_is_no_foreign_key) {
  const policies::fixed_window window(fixed_window{.limit = 3, .window = std::chrono::seconds{1}});
  const auto with = [&](const std::string& key) {
    return found_by(window, bulk("1790000000 5 " + key), 1);
  };
  const numbers open{1'790'000'000'000'005, 1'790'000'000'000'000, 2, 0};
  BOOST_TEST(with(test::doubles({1.79e15, 2, 1.79e15})) == open);
  const numbers other{1'790'000'000'000'005, -1, 0, 0};
  BOOST_TEST(with(std::string(24, '-')) == other);
  BOOST_TEST(with(test::doubles({1.79e15, 2}) + std::string("\0\0+stray", 8)).empty());
  for (const double bad : {-1.0, 0.5, 1e300, std::nan(""), std::ldexp(1, 53)}) {
    BOOST_TEST(with(test::doubles({bad, 2, 1.79e15})).empty());
    BOOST_TEST(with(test::doubles({1.79e15, bad, 1.79e15})).empty());
    BOOST_TEST(with(test::doubles({1.79e15, 2, bad})).empty());
  }
  BOOST_TEST(with(test::doubles({1.79e15, 2})).empty());
  // And of a bucket.
  BOOST_TEST(found(bulk("1790000000 5 1790000000+stray"), 1).empty());
  const numbers not_ours{1'790'000'000'000'005, -1, 0, 0, 0, 0};
  BOOST_TEST(found(bulk("1790000000 5 1.79000000000e15"), 1) == not_ours);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace record_reply_test

// What a record's script replies with, in each of its three forms, and replies that are none.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "policy/kernel.hpp"
#include "redis/record_reply.hpp"

namespace {

using namespace weir;
using numbers = std::vector<std::int64_t>;

const policies::meter bucket(1, 1000, 10, false);

/// The numbers for that many keys of a bucket; empty if the reply is refused.
numbers found(const std::string& bytes, std::size_t keys) {
  redis::reply_reader reader;
  bytes.copy(reader.prepare(bytes.size()).data(), bytes.size());
  reader.commit(bytes.size());
  error_code ec;
  const redis::reply_view* reply = reader.next(ec);
  BOOST_TEST_REQUIRE(reply != nullptr);
  numbers all(1 + keys * policies::meter::reply_width);
  if (!redis::read_found(bucket, *reply, all) || all[0] < 0) all.clear();
  return all;
}

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record_reply)

BOOST_AUTO_TEST_CASE(texts_arrays_and_flat_arrays_say_the_same) {
  const numbers one{1'790'000'000'000'005, 1'790'000'000'123'456, 0, 0, 0, 0};
  BOOST_TEST(found(bulk("1790000000 5 1790000000123456"), 1) == one);
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n" + bulk("1790000000123456"), 1) == one);
  BOOST_TEST(found("*2\r\n:1790000000000005\r\n*5\r\n:1790000000123456\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
                   1) == one);
  BOOST_TEST(found("*6\r\n:1790000000000005\r\n:1790000000123456\r\n:0\r\n:0\r\n:0\r\n:0\r\n", 1) ==
             one);
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
  BOOST_TEST(found("*1\r\n:1790000000000005\r\n", 1).empty());
  BOOST_TEST(found("*0\r\n", 1).empty());
  BOOST_TEST(found(":1\r\n", 1).empty());
}

BOOST_AUTO_TEST_SUITE_END()

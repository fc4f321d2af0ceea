// What reading costs: memory that follows the bytes received and is given back, and work that is
// linear.
#include "resp_transcript.hpp"

namespace resp_reader_memory_test {

using namespace std::string_literals;
using namespace weir::redis;
using namespace weir::redis::test;

BOOST_AUTO_TEST_SUITE(resp_reader_memory_suite)

BOOST_AUTO_TEST_CASE(an_announced_size_allocates_nothing) {
  // Legal as far as they go.
  for (const std::string_view stream : {"*65535\r\n", "$1048576\r\n", "%32767\r\n", "~65535\r\n",
                                        ">65535\r\n", "|32767\r\n", "=1048576\r\n"}) {
    reply_reader reader;
    transcript seen;
    feed(reader, stream, seen);
    BOOST_TEST(!seen.failed, stream);
    BOOST_TEST(reader.memory() <= 2048, stream);
  }
}

BOOST_AUTO_TEST_CASE(garbage_without_end_does_not_grow_the_buffer) {
  const reply_limits limits{
      .max_bulk = 1000, .max_line = 1000, .max_values = 100, .max_reply_bytes = 2000};
  for (const std::string& stream :
       {"+"s + std::string(100'000, 'a'), ":"s + std::string(100'000, '1'),
        std::string(100'000, '\0'),
        "*50\r\n" + repeat("$900\r\n" + std::string(900, 'x') + "\r\n", 50),
        repeat("|0\r\n", 100'000), repeat("|1\r\n+a\r\n+b\r\n", 10'000)}) {
    reply_reader reader(limits);
    transcript seen;
    std::size_t most = 0;
    for (std::size_t i = 0; i < stream.size() && !seen.failed; i += 100) {
      feed(reader, std::string_view(stream).substr(i, 100), seen, 100);
      most = std::max(most, reader.memory());
    }
    BOOST_TEST(seen.failed);
    BOOST_TEST(most <= 2 * (2000 + 1000 + 100) + 1024 + 2 * 100 * sizeof(reply_value) + 1024);
  }
}

BOOST_AUTO_TEST_CASE(texts_stay_valid_while_the_buffer_grows_under_a_half_read_reply) {
  std::string stream = "*3000\r\n";
  std::string expected = "*3000";
  for (int i = 0; i < 3000; ++i) {
    const std::string text = "text " + std::to_string(i);
    stream += i % 2 == 0 ? "+" + text + "\r\n"
                         : "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    expected += (i % 2 == 0 ? " +" : " $") + text;
  }
  const transcript seen = read_bytewise(":1\r\n" + stream + stream);
  BOOST_TEST((seen == transcript{{":1", expected, expected}, false}));
}

BOOST_AUTO_TEST_CASE(work_is_linear_however_small_the_pieces) {
  const auto work_per_byte = [](const std::string& stream) {
    reply_reader reader;
    transcript seen;
    for (std::size_t i = 0; i != stream.size(); ++i)
      feed(reader, std::string_view(stream).substr(i, 1), seen);
    BOOST_REQUIRE(!seen.failed);
    BOOST_REQUIRE(!seen.replies.empty());
    BOOST_REQUIRE(reader.buffered() == 0U);
    return static_cast<double>(reader.work()) / static_cast<double>(stream.size());
  };
  // A number is read again with each of its bytes: half its length on average.
  BOOST_TEST(work_per_byte("*50000\r\n" + repeat(":1234567\r\n", 50'000)) < 12);
  BOOST_TEST(work_per_byte("*30000\r\n" + repeat("+some text\r\n", 30'000)) < 12);
  BOOST_TEST(work_per_byte("*999\r\n" + repeat("|1\r\n+k\r\n*2\r\n:1\r\n:2\r\n#t\r\n", 999)) < 12);
  BOOST_TEST(work_per_byte("+" + std::string(65'000, 'x') + "\r\n") < 5);
  BOOST_TEST(work_per_byte("$1000000\r\n" + std::string(1'000'000, 'x') + "\r\n") < 5);
  BOOST_TEST(work_per_byte(repeat("+OK\r\n", 50'000)) < 6);
}

BOOST_AUTO_TEST_CASE(work_is_linear_though_replies_are_taken_one_per_read) {
  // The buffer is full, and stays so: moving all of it at each read would be quadratic.
  reply_reader reader;
  const std::span<char> room = reader.prepare(500'000);
  const std::string stream = repeat("+OK\r\n", room.size() / 5);
  std::memcpy(room.data(), stream.data(), stream.size());
  reader.commit(stream.size());
  const std::size_t in_stream = stream.size() / 5;
  weir::error_code ec;
  std::size_t replies = 0;
  while (reader.next(ec) != nullptr) {
    const std::span<char> more = reader.prepare(5);
    if (++replies > in_stream) continue;
    std::memcpy(more.data(), "+OK\r\n", 5);
    reader.commit(5);
  }
  BOOST_TEST(replies == 2 * in_stream);
  BOOST_TEST(reader.work() < 5 * 2 * stream.size());
}

BOOST_AUTO_TEST_CASE(a_steady_stream_keeps_its_buffer) {
  reply_reader reader;
  transcript seen;
  const std::string stream = repeat("*3\r\n:1790000000123456\r\n:5\r\n:0\r\n", 20);
  for (int i = 0; i < 10; ++i) feed(reader, stream, seen, 1024);
  const std::size_t memory = reader.memory();
  for (int i = 0; i < 1000; ++i) feed(reader, stream, seen, 1024);
  BOOST_TEST(reader.memory() == memory);
  BOOST_TEST(memory < 8192U);
  BOOST_TEST(seen.replies.size() == 1010U * 20U);
}

BOOST_AUTO_TEST_CASE(memory_of_a_rare_big_reply_is_given_back) {
  const std::string big = "*60000\r\n" + repeat("$20\r\naaaaaaaaaabbbbbbbbbb\r\n", 60'000);
  reply_reader reader;
  for (int round = 0; round < 2; ++round) {
    transcript seen;
    for (std::size_t i = 0; i < big.size(); i += 16'384) {
      feed(reader, std::string_view(big).substr(i, 16'384), seen, 16'384);
    }
    BOOST_TEST(seen.replies.size() == 1U);
    BOOST_TEST(reader.memory() > big.size());
    // With half a reply always left over: there need not be a moment without unread bytes.
    feed(reader, "*2\r\n:1\r\n", seen, 16'384);
    for (int i = 0; i < 50; ++i) feed(reader, "$1\r\nx\r\n*2\r\n+abc\r\n", seen, 16'384);
    feed(reader, "+end\r\n", seen, 16'384);
    BOOST_TEST(reader.memory() <= 128U * 1024U);
    BOOST_TEST(seen.replies[1] == "*2 :1 $x");
    BOOST_TEST(seen.replies[50] == "*2 +abc $x");
    BOOST_TEST(seen.replies[51] == "*2 +abc +end");
  }
}

BOOST_AUTO_TEST_CASE(clear_gives_back_what_a_big_reply_took) {
  reply_reader reader;
  transcript seen;
  feed(reader, "*50000\r\n" + repeat("+some text\r\n", 49'000), seen);
  BOOST_TEST(reader.memory() > 1'000'000U);
  reader.clear();
  BOOST_TEST(reader.memory() < 100'000U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace resp_reader_memory_test

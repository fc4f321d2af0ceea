#include "redis/resp_reader.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "redis/resp_writer.hpp"
#include "support/random_source.hpp"

using namespace std::string_literals;
using namespace weir::redis;

namespace {

// A reply in one line: "*2 :1 $abc" is an array of an integer and a string.
std::string text_of(const reply_view& reply) {
  constexpr std::string_view marks = "+-:$_#,(!=*%~>|";
  std::string text;
  for (const node& n : reply.nodes()) {
    if (!text.empty()) text += ' ';
    text += marks[static_cast<std::size_t>(n.type)];
    const bool counted = n.type == reply_type::integer || n.type == reply_type::boolean;
    if (counted || n.type >= reply_type::array) text += std::to_string(n.integer);
    text += n.text;
  }
  return text;
}

using texts = std::vector<std::string>;

struct transcript {
  texts replies;
  bool failed = false;
  bool operator==(const transcript&) const = default;
};

std::ostream& operator<<(std::ostream& out, const transcript& t) {
  for (const std::string& reply : t.replies) out << '[' << reply << "] ";
  return out << (t.failed ? "then broken" : "");
}

// `least` is what a read asks for: small, the reader has to move its bytes often.
void feed(reply_reader& reader, std::string_view piece, transcript& seen, std::size_t least = 1) {
  do {
    const std::span<char> room = reader.prepare(least);
    BOOST_REQUIRE(room.size() >= least);
    const std::size_t n = std::min(room.size(), piece.size());
    if (n != 0) std::memcpy(room.data(), piece.data(), n);
    reader.commit(n);
    piece.remove_prefix(n);
    weir::error_code ec = weir::error::timed_out;
    while (const reply_view* reply = reader.next(ec)) {
      BOOST_REQUIRE(!ec);
      seen.replies.push_back(text_of(*reply));
    }
    BOOST_REQUIRE((reader.failure() != nullptr) == ec.failed());
    if (ec) {
      BOOST_REQUIRE(ec == weir::error::protocol_error);
      seen.failed = true;
      return;
    }
  } while (!piece.empty());
}

transcript read_all(std::string_view stream, reply_limits limits = {}) {
  reply_reader reader(limits);
  transcript seen;
  feed(reader, stream, seen, stream.size() + 1);
  return seen;
}

transcript read_bytewise(std::string_view stream, reply_limits limits = {}) {
  reply_reader reader(limits);
  transcript seen;
  for (std::size_t i = 0; i != stream.size() && !seen.failed; ++i)
    feed(reader, stream.substr(i, 1), seen);
  return seen;
}

// The only reply in that stream, or "broken", or "" if it is incomplete.
std::string read_one(std::string_view stream, reply_limits limits = {}) {
  const transcript seen = read_all(stream, limits);
  if (seen.failed) return "broken";
  BOOST_REQUIRE(seen.replies.size() <= 1);
  return seen.replies.empty() ? "" : seen.replies.front();
}

std::string repeat(std::string_view text, std::size_t n) {
  std::string all;
  while (n-- != 0) all += text;
  return all;
}

struct sample {
  std::string stream;
  std::string reply;
};

// One of every kind.
const std::vector<sample>& samples() {
  static const std::vector<sample> all = {
      {"+OK\r\n", "+OK"},
      {"+\r\n", "+"},
      {"-NOSCRIPT No matching script.\r\n", "-NOSCRIPT No matching script."},
      {":0\r\n", ":0"},
      {":1790000000123456\r\n", ":1790000000123456"},
      {":-12\r\n", ":-12"},
      {":+12\r\n", ":12"},
      {":9223372036854775807\r\n", ":9223372036854775807"},
      {":-9223372036854775808\r\n", ":-9223372036854775808"},
      {"$5\r\nhello\r\n", "$hello"},
      {"$0\r\n\r\n", "$"},
      {"$6\r\na\r\n\0\r\n\r\n"s, "$a\r\n\0\r\n"s},
      {"$12\r\n:1\r\n$-1\r\n*9\r\r\n", "$:1\r\n$-1\r\n*9\r"},
      {"$-1\r\n", "_"},
      {"*-1\r\n", "_"},
      {"_\r\n", "_"},
      {"#t\r\n", "#1"},
      {"#f\r\n", "#0"},
      {",3.25e-7\r\n", ",3.25e-7"},
      {",-inf\r\n", ",-inf"},
      {",nan\r\n", ",nan"},
      {"(-3492890328409238509324850943850943825024385\r\n",
       "(-3492890328409238509324850943850943825024385"},
      {"!21\r\nSYNTAX invalid syntax\r\n", "!SYNTAX invalid syntax"},
      {"=15\r\ntxt:Some string\r\n", "=Some string"},
      {"=4\r\nmkd:\r\n", "="},
      {"*0\r\n", "*0"},
      {"*3\r\n:1790000000123456\r\n:5\r\n:0\r\n", "*3 :1790000000123456 :5 :0"},
      {"*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n$1\r\nx\r\n", "*2 *2 :1 *0 *1 $x"},
      {"*3\r\n$-1\r\n*-1\r\n-ERR inside\r\n", "*3 _ _ -ERR inside"},
      {"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "%4 +a :1 +b *1 :2"},
      {"%0\r\n", "%0"},
      {"~2\r\n+a\r\n#t\r\n", "~2 +a #1"},
      {">3\r\n+message\r\n+channel\r\n$2\r\nhi\r\n", ">3 +message +channel $hi"},
      {"|1\r\n+ttl\r\n:3600\r\n:7\r\n", ":7"},
      {"|0\r\n+OK\r\n", "+OK"},
      {"|1\r\n+a\r\n*2\r\n:1\r\n:2\r\n|1\r\n+b\r\n+c\r\n$1\r\nx\r\n", "$x"},
      {"*3\r\n:1\r\n|1\r\n+ttl\r\n%1\r\n+x\r\n+y\r\n:2\r\n:3\r\n", "*3 :1 :2 :3"},
      {"*2\r\n:1\r\n|1\r\n|1\r\n+x\r\n+y\r\n+k\r\n+v\r\n*1\r\n:2\r\n", "*2 :1 *1 :2"},
      {"%1\r\n|1\r\n+x\r\n+y\r\n+k\r\n|0\r\n+v\r\n", "%2 +k +v"},
  };
  return all;
}

// All of them behind each other.
const sample& pipelined() {
  static const sample all = [] {
    sample joined;
    for (const sample& s : samples()) joined.stream += s.stream;
    return joined;
  }();
  return all;
}

texts expected_replies() {
  texts all;
  for (const sample& s : samples()) all.push_back(s.reply);
  return all;
}

const std::vector<std::string>& broken_streams() {
  static const std::vector<std::string> all = {
      "x", "\r\n", "\n", " +OK\r\n", "\0"s, "HTTP/1.1 400 Bad Request\r\n",
      // lines
      "+OK\n", "+OK\r\r\n", "+O\nK\r\n", "-ERR\rx\r\n",
      // integers
      ":\r\n", ":a\r\n", ":1a\r\n", ":--1\r\n", ":-\r\n", ":+\r\n", ": 1\r\n", ":1 \r\n", ":01\r\n",
      ":-01\r\n", ":1\n", ":1\rx", ":9223372036854775808\r\n", ":-9223372036854775809\r\n",
      ":18446744073709551617\r\n", ":11111111111111111111\r\n", ":1.5\r\n",
      // lengths
      "$\r\n", "$-2\r\n", "$-01\r\n", "$--1\r\n", "$-\r\n", "$+1\r\n", "$01\r\n", "$00\r\n",
      "$1x\r\n", "$ 1\r\n", "$-0\r\n", "$18446744073709551616\r\n", "$9223372036854775807\r\n",
      "$1048577\r\n", "*-2\r\n", "*+1\r\n", "*01\r\n", "*x\r\n", "*65536\r\n", "*2147483647\r\n",
      "*4294967296\r\n", "*9223372036854775807\r\n", "%-1\r\n", "~-1\r\n", ">-1\r\n", "|-1\r\n",
      "!-1\r\n", "=-1\r\n", "%32768\r\n", "%9223372036854775807\r\n", "|32768\r\n",
      // terminators
      "$1\r\nab\r\n", "$1\r\na\n\r", "$1\r\na\rx", "$0\r\nx\r\n", "$1\n", "_x\r", "_\rx", "_\n\n",
      "#t\n\n", "#tt\r", "#x\r\n", "#T\r\n", "#\r\n\r",
      // the rest
      ",\r\n", ",x\r\n", ",1,5\r\n", "(\r\n", "(-\r\n", "(1.5\r\n", "(12a\r\n", "=3\r\ntxt\r\n",
      "=0\r\n\r\n", "=8\r\ntxt-text\r\n", "$?\r\n", "*?\r\n", "%?\r\n", ";4\r\n", ".\r\n",
      "*1\r\n>1\r\n+x\r\n", "*2\r\n:1\r\nx", "|1\r\n+a\r\nx"};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resp_reader_suite)

BOOST_AUTO_TEST_CASE(every_type_of_resp2_and_resp3) {
  for (const sample& s : samples()) BOOST_TEST(read_one(s.stream) == s.reply, "in " << s.stream);
}

BOOST_AUTO_TEST_CASE(pipelined_replies_come_out_one_by_one) {
  const transcript seen = read_all(pipelined().stream);
  BOOST_TEST(!seen.failed);
  BOOST_TEST(seen.replies == expected_replies(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_proper_prefix_is_a_reply) {
  for (const sample& s : samples()) {
    for (std::size_t n = 0; n != s.stream.size(); ++n) {
      const transcript seen = read_all(s.stream.substr(0, n));
      BOOST_TEST((seen == transcript{}), n << " bytes of " << s.stream << " gave " << seen);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stream_split_anywhere_gives_the_same_replies) {
  std::vector<std::string> streams{pipelined().stream};
  for (const sample& s : samples()) streams.push_back(s.stream + ":1\r\n" + s.stream);
  for (const std::string& s : broken_streams()) streams.push_back("+first\r\n" + s);
  for (const std::string& stream : streams) {
    const std::string_view all = stream;
    const transcript whole = read_all(all);
    BOOST_REQUIRE(!whole.replies.empty());
    BOOST_TEST(read_bytewise(all) == whole, "byte by byte: " << stream);
    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
      transcript seen;
      reply_reader reader;
      feed(reader, all.substr(0, cut), seen);
      if (!seen.failed) feed(reader, all.substr(cut), seen);
      BOOST_TEST(seen == whole, "cut at " << cut << ": " << stream);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_short_stream_split_in_three_anywhere_gives_the_same_replies) {
  std::vector<std::string> streams = broken_streams();
  for (const sample& s : samples()) streams.push_back(s.stream + s.stream);
  for (const std::string& stream : streams) {
    const std::string_view all = stream;
    const transcript whole = read_all(all);
    for (std::size_t a = 0; a <= all.size(); ++a) {
      for (std::size_t b = a; b <= all.size(); ++b) {
        transcript seen;
        reply_reader reader;
        for (const auto piece : {all.substr(0, a), all.substr(a, b - a), all.substr(b)}) {
          if (!seen.failed) feed(reader, piece, seen);
        }
        if (seen != whole) BOOST_ERROR("cut at " << a << " and " << b << ": " << stream);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_resp_breaks_the_stream_without_taking_memory) {
  for (const std::string& stream : broken_streams()) {
    reply_reader reader;
    transcript seen;
    feed(reader, stream, seen);
    BOOST_TEST(seen.failed, "accepted " << stream);
    BOOST_TEST(seen.replies.empty(), stream);
    BOOST_TEST(reader.memory() <= 2048, stream << " took " << reader.memory());
  }
}

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

BOOST_AUTO_TEST_CASE(replies_before_a_framing_error_are_returned_and_the_error_is_final) {
  reply_reader reader;
  transcript seen;
  feed(reader, "+a\r\n:1\r\n*2\r\n:1\r\nx:2\r\n+b\r\n", seen, 100);
  BOOST_TEST((seen == transcript{{"+a", ":1"}, true}), seen);

  const std::size_t memory = reader.memory();
  for (int i = 0; i < 1000; ++i) {
    const std::span<char> room = reader.prepare(100);
    std::memcpy(room.data(), "+OK\r\n", 5);
    reader.commit(5);
    weir::error_code ec;
    BOOST_REQUIRE(reader.next(ec) == nullptr);
    BOOST_REQUIRE(ec == weir::error::protocol_error);
  }
  BOOST_TEST(reader.memory() == memory);

  reader.clear();
  BOOST_TEST(reader.failure() == nullptr);
  BOOST_TEST(reader.buffered() == 0U);
  transcript after;
  feed(reader, "*1\r\n+OK\r\n", after);
  BOOST_TEST((after == transcript{{"*1 +OK"}, false}), after);
}

BOOST_AUTO_TEST_CASE(clear_forgets_a_half_read_reply) {
  for (const std::string_view half :
       {"*3\r\n:1\r\n", "$10\r\nabc", "+abc", "|1\r\n+a\r\n", ":12", "*1\r\n*1\r\n"}) {
    reply_reader reader;
    transcript seen;
    feed(reader, half, seen);
    reader.clear();
    feed(reader, ":5\r\n*1\r\n:6\r\n", seen);
    BOOST_TEST((seen == transcript{{":5", "*1 :6"}, false}), half << " gave " << seen);
  }
}

BOOST_AUTO_TEST_CASE(each_limit_holds_exactly) {
  BOOST_TEST(read_one("$4\r\nabcd\r\n", {.max_bulk = 4}) == "$abcd");
  BOOST_TEST(read_one("$5\r\nabcde\r\n", {.max_bulk = 4}) == "broken");
  BOOST_TEST(read_one("$5\r\n", {.max_bulk = 4}) == "broken");

  BOOST_TEST(read_one("+abcd\r\n", {.max_line = 4}) == "+abcd");
  BOOST_TEST(read_one("+abcde\r\n", {.max_line = 4}) == "broken");
  BOOST_TEST(read_one("+abcd", {.max_line = 4}) == "");
  BOOST_TEST(read_one("+abcde", {.max_line = 4}) == "broken");

  BOOST_TEST(read_one("*3\r\n:1\r\n:2\r\n:3\r\n", {.max_nodes = 4}) == "*3 :1 :2 :3");
  BOOST_TEST(read_one("*4\r\n", {.max_nodes = 4}) == "broken");
  BOOST_TEST(read_one("*2\r\n*1\r\n:1\r\n:2\r\n", {.max_nodes = 4}) == "*2 *1 :1 :2");
  BOOST_TEST(read_one("*2\r\n*1\r\n:1\r\n*1\r\n", {.max_nodes = 4}) == "broken");
  BOOST_TEST(read_one("%2\r\n", {.max_nodes = 4}) == "broken");
  BOOST_TEST(read_one("|1\r\n+a\r\n+b\r\n*1\r\n:1\r\n", {.max_nodes = 4}) == "*1 :1");
  BOOST_TEST(read_one("|1\r\n+a\r\n+b\r\n*2\r\n", {.max_nodes = 4}) == "broken");
  // Per reply, not for all of them.
  const transcript many = read_all(repeat("*3\r\n:1\r\n:2\r\n:3\r\n", 100), {.max_nodes = 4});
  BOOST_TEST(!many.failed);
  BOOST_TEST(many.replies.size() == 100U);

  const std::string reply = "*2\r\n$4\r\nabcd\r\n:1\r\n";
  BOOST_TEST(read_one(reply, {.max_reply_bytes = reply.size()}) == "*2 $abcd :1");
  BOOST_TEST(read_one(reply, {.max_reply_bytes = reply.size() - 1}) == "broken");
  BOOST_TEST(read_one("*2\r\n$90\r\n", {.max_reply_bytes = 90}) == "broken");
  const transcript endless = read_bytewise(repeat("|0\r\n", 1000), {.max_reply_bytes = 1000});
  BOOST_TEST(endless.failed);
}

BOOST_AUTO_TEST_CASE(nesting_is_bounded) {
  for (const std::string_view open : {"*1\r\n", "~1\r\n"}) {
    BOOST_TEST(read_one(repeat(open, 8) + ":1\r\n").ends_with(":1"));
    BOOST_TEST(read_one(repeat(open, 9) + ":1\r\n") == "broken");
    BOOST_TEST(read_one(repeat(open, 8) + "*0\r\n") == "broken");
  }
  BOOST_TEST(read_one(repeat("|1\r\n", 9)) == "broken");
  BOOST_TEST(read_one(repeat("%1\r\n", 9)) == "broken");
  BOOST_TEST(read_one(repeat("|1\r\n", 8) + repeat("+x\r\n", 16)) == "");
  BOOST_TEST(read_one(repeat("|1\r\n", 8) + repeat("+x\r\n", 17)) == "+x");

  reply_reader reader;
  transcript seen;
  feed(reader, repeat("*1\r\n", 100'000), seen);
  BOOST_TEST(seen.failed);
  BOOST_TEST(reader.memory() <= 4096);
}

BOOST_AUTO_TEST_CASE(garbage_without_end_does_not_grow_the_buffer) {
  const reply_limits limits{
      .max_bulk = 1000, .max_line = 1000, .max_nodes = 100, .max_reply_bytes = 2000};
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
    BOOST_TEST(most <= 2 * (2000 + 1000 + 100) + 1024 + 2 * 100 * sizeof(node) + 1024);
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

BOOST_AUTO_TEST_CASE(helpers_of_a_reply) {
  reply_reader reader;
  weir::error_code ec;
  const auto read = [&](std::string_view stream) -> const reply_view& {
    std::memcpy(reader.prepare(stream.size()).data(), stream.data(), stream.size());
    reader.commit(stream.size());
    const reply_view* reply = reader.next(ec);
    BOOST_REQUIRE(reply != nullptr);
    return *reply;
  };
  std::array<std::int64_t, 3> three{};
  BOOST_TEST(read("*3\r\n:7\r\n:-8\r\n:9\r\n").integers(three));
  BOOST_TEST(three == (std::array<std::int64_t, 3>{7, -8, 9}), boost::test_tools::per_element());
  BOOST_TEST(read("*0\r\n").integers({}));
  for (const std::string_view other :
       {"*2\r\n:7\r\n:8\r\n", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "*3\r\n:7\r\n+8\r\n:9\r\n",
        "*2\r\n:7\r\n*1\r\n:9\r\n", "*3\r\n:7\r\n:8\r\n*0\r\n", "~3\r\n:7\r\n:8\r\n:9\r\n",
        ":3\r\n", "$-1\r\n", "*3\r\n:7\r\n:8\r\n#t\r\n"}) {
    BOOST_TEST(!read(other).integers(three), other);
  }

  BOOST_TEST(read("-MOVED 3999 127.0.0.1:6381\r\n").error_word() == "MOVED");
  BOOST_TEST(read("!3\r\nERR\r\n").error_word() == "ERR");
  BOOST_TEST(read("+MOVED 3999\r\n").error_word() == "");
  BOOST_TEST(read("-ERR x\r\n").is_error());
  BOOST_TEST(read("!1\r\nx\r\n").is_error());
  BOOST_TEST(!read("*1\r\n-ERR x\r\n").is_error());
  BOOST_TEST(read("*-1\r\n").is_null());
  BOOST_TEST(!read(":0\r\n").is_null());
  BOOST_TEST(read(">1\r\n+x\r\n").is_push());
  BOOST_TEST(!read("*1\r\n+x\r\n").is_push());

  const reply_view& nested = read("*3\r\n*2\r\n:1\r\n%1\r\n+k\r\n+v\r\n*0\r\n:2\r\n");
  BOOST_TEST(nested.after(0) == 8U);
  BOOST_TEST(nested.after(1) == 6U);
  BOOST_TEST(nested.after(2) == 3U);
  BOOST_TEST(nested.after(3) == 6U);
  BOOST_TEST(nested.after(6) == 7U);
  BOOST_TEST(nested.after(7) == 8U);
}

BOOST_AUTO_TEST_CASE(what_the_writer_writes_the_reader_reads) {
  const std::uint64_t seed = weir::test::run_seed();
  weir::test::random_source random(seed, 1);
  std::string stream;
  texts expected;
  for (int command = 0; command < 500; ++command) {
    const auto n = static_cast<std::size_t>(random.between(1, 6));
    command_writer writer(stream);
    writer.begin(n);
    std::string text = "*" + std::to_string(n);
    for (std::size_t i = 0; i != n; ++i) {
      if (random.one_in(3)) {
        const std::int64_t number = random.magnitude(INT64_MAX / 4) * (random.one_in(2) ? 1 : -1);
        writer.arg(number);
        text += " $" + std::to_string(number);
      } else {
        std::string bytes(static_cast<std::size_t>(random.magnitude(2000)) - 1, '\0');
        for (char& c : bytes) c = static_cast<char>(random.between(-128, 127));
        const std::string_view all = bytes;
        const std::size_t half = all.size() / 2;
        if (random.one_in(2)) {
          writer.arg(all);
        } else {
          writer.arg_parts({all.substr(0, half), all.substr(half)});
        }
        text += " $" + bytes;
      }
    }
    expected.push_back(text);
  }
  BOOST_TEST((read_all(stream) == transcript{expected, false}), "WEIR_TEST_SEED=" << seed);
  BOOST_TEST((read_bytewise(stream) == transcript{expected, false}), "WEIR_TEST_SEED=" << seed);
}

BOOST_AUTO_TEST_CASE(random_streams_are_read_the_same_in_any_pieces_within_bounds) {
  const std::uint64_t seed = weir::test::run_seed();
  weir::test::random_source random(seed, 2);
  const reply_limits limits{
      .max_bulk = 300, .max_line = 50, .max_nodes = 40, .max_depth = 3, .max_reply_bytes = 600};
  constexpr std::string_view alphabet = "+-:$*_#,(!=%~>|;.?\r\n\r\n0123456789tfax\0\xff";
  const auto any_byte = [&] { return random.pick(alphabet); };

  std::size_t whole_replies = 0;
  std::size_t failures = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string stream;
    if (random.one_in(5)) {
      for (std::int64_t n = random.between(1, 60); n != 0; --n) stream += any_byte();
    } else {
      for (std::int64_t n = random.between(1, 8); n != 0; --n)
        stream += random.pick(samples()).stream;
      for (std::int64_t n = random.between(0, 3); n != 0 && !stream.empty(); --n) {
        const auto at = static_cast<std::size_t>(
            random.between(0, static_cast<std::int64_t>(stream.size()) - 1));
        switch (random.between(0, 3)) {
          case 0:
            stream[at] = any_byte();
            break;
          case 1:
            stream.insert(at, 1, any_byte());
            break;
          case 2:
            stream.erase(at, static_cast<std::size_t>(random.between(1, 5)));
            break;
          default:
            stream.insert(at, random.pick(samples()).stream);
            break;
        }
      }
    }
    const transcript whole = read_all(stream, limits);
    whole_replies += whole.replies.size();
    failures += whole.failed ? 1 : 0;

    reply_reader reader(limits);
    transcript seen;
    for (std::size_t at = 0; at < stream.size() && !seen.failed;) {
      const auto n = static_cast<std::size_t>(random.magnitude(64));
      feed(reader, std::string_view(stream).substr(at, n), seen,
           static_cast<std::size_t>(random.between(1, 64)));
      at += n;
      BOOST_REQUIRE(reader.memory() <= 2 * (600 + 50 + 64) + 1024 + 2 * 40 * sizeof(node) + 1024);
    }
    BOOST_REQUIRE_MESSAGE(seen == whole, "WEIR_TEST_SEED=" << seed << ", round " << round << ": "
                                                           << seen << "\n instead of " << whole);
  }
  // The mixture is worth its time only if both happen often.
  BOOST_TEST(whole_replies > 20'000U);
  BOOST_TEST(failures > 5'000U);
}

BOOST_AUTO_TEST_SUITE_END()

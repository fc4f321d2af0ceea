#pragma once

#include <cstring>
#include <ostream>

#include "redis/resp/resp_reader.hpp"
#include "support/test.hpp"

/// What a reader makes of a stream, as text, and streams to try it on.
namespace weir::redis::test {

using namespace std::string_literals;

// A reply in one line: "*2 :1 $abc" is an array of an integer and a string.
inline std::string text_of(const reply_view& reply) {
  constexpr std::string_view marks = "+-:$_#,(!=*%~>|";
  std::string text;
  for (const reply_value& n : reply.values()) {
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

inline std::ostream& operator<<(std::ostream& out, const transcript& t) {
  for (const std::string& reply : t.replies) out << '[' << reply << "] ";
  return out << (t.failed ? "then broken" : "");
}

// `least` is what a read asks for: small, the reader has to move its bytes often.
inline void feed(reply_reader& reader, std::string_view piece, transcript& seen,
                 std::size_t least = 1) {
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

inline transcript read_all(std::string_view stream, reply_limits limits = {}) {
  reply_reader reader(limits);
  transcript seen;
  feed(reader, stream, seen, stream.size() + 1);
  return seen;
}

inline transcript read_bytewise(std::string_view stream, reply_limits limits = {}) {
  reply_reader reader(limits);
  transcript seen;
  for (std::size_t i = 0; i != stream.size() && !seen.failed; ++i)
    feed(reader, stream.substr(i, 1), seen);
  return seen;
}

// The only reply in that stream, or "broken", or "" if it is incomplete.
inline std::string read_one(std::string_view stream, reply_limits limits = {}) {
  const transcript seen = read_all(stream, limits);
  if (seen.failed) return "broken";
  BOOST_REQUIRE(seen.replies.size() <= 1);
  return seen.replies.empty() ? "" : seen.replies.front();
}

inline std::string repeat(std::string_view text, std::size_t n) {
  std::string all;
  while (n-- != 0) all += text;
  return all;
}

struct sample {
  std::string stream;
  std::string reply;
};

// One of every kind.
inline const std::vector<sample>& samples() {
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
inline const sample& pipelined() {
  static const sample all = [] {
    sample joined;
    for (const sample& s : samples()) joined.stream += s.stream;
    return joined;
  }();
  return all;
}

inline texts expected_replies() {
  texts all;
  for (const sample& s : samples()) all.push_back(s.reply);
  return all;
}

inline const std::vector<std::string>& broken_streams() {
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

}  // namespace weir::redis::test

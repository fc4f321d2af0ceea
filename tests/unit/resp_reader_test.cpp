// The grammar of RESP: what is a reply, what is none, and that it does not matter how the bytes are
// cut.
#include "redis/resp/resp_reader.hpp"

#include "redis/resp/resp_writer.hpp"
#include "resp_transcript.hpp"
#include "support/random_source.hpp"

namespace resp_reader_test {

using namespace std::string_literals;
using namespace weir::redis;
using namespace weir::redis::test;

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

  BOOST_TEST(read_one("*3\r\n:1\r\n:2\r\n:3\r\n", {.max_values = 4}) == "*3 :1 :2 :3");
  BOOST_TEST(read_one("*4\r\n", {.max_values = 4}) == "broken");
  BOOST_TEST(read_one("*2\r\n*1\r\n:1\r\n:2\r\n", {.max_values = 4}) == "*2 *1 :1 :2");
  BOOST_TEST(read_one("*2\r\n*1\r\n:1\r\n*1\r\n", {.max_values = 4}) == "broken");
  BOOST_TEST(read_one("%2\r\n", {.max_values = 4}) == "broken");
  BOOST_TEST(read_one("|1\r\n+a\r\n+b\r\n*1\r\n:1\r\n", {.max_values = 4}) == "*1 :1");
  BOOST_TEST(read_one("|1\r\n+a\r\n+b\r\n*2\r\n", {.max_values = 4}) == "broken");
  // Per reply, not for all of them.
  const transcript many = read_all(repeat("*3\r\n:1\r\n:2\r\n:3\r\n", 100), {.max_values = 4});
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

  BOOST_TEST(read("-ERR x\r\n").is_error());
  BOOST_TEST(read("!1\r\nx\r\n").is_error());
  BOOST_TEST(!read("*1\r\n-ERR x\r\n").is_error());
  BOOST_TEST((read("*-1\r\n").root().type == weir::redis::reply_type::null));
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
        writer.arg(bytes);
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
      .max_bulk = 300, .max_line = 50, .max_values = 40, .max_depth = 3, .max_reply_bytes = 600};
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
      BOOST_REQUIRE(reader.memory() <=
                    2 * (600 + 50 + 64) + 1024 + 2 * 40 * sizeof(reply_value) + 1024);
    }
    BOOST_REQUIRE_MESSAGE(seen == whole, "WEIR_TEST_SEED=" << seed << ", round " << round << ": "
                                                           << seen << "\n instead of " << whole);
  }
  // The mixture is worth its time only if both happen often.
  BOOST_TEST(whole_replies > 20'000U);
  BOOST_TEST(failures > 5'000U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace resp_reader_test

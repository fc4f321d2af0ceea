// The reader of the meta protocol: every reply, in pieces of any size, within its bounds.
#include "memcached/meta_reader.hpp"

#include "support/random_source.hpp"
#include "support/test.hpp"

namespace memcached_reader_test {

using namespace weir;
using namespace weir::test;
using weir::memcached::meta_reader;
using weir::memcached::meta_reply;
using kind = meta_reply::kind;

struct heard {
  kind what;
  std::string text;
  std::uint64_t cas;
  bool oversized;
  bool operator==(const heard&) const = default;
};

struct outcome {
  std::vector<heard> replies;
  bool broken = false;
  bool operator==(const outcome&) const = default;
};

outcome read(std::string_view bytes, std::size_t piece, std::size_t max_value = 64) {
  meta_reader reader(max_value);
  outcome result;
  while (!bytes.empty() && !result.broken) {
    const std::string_view now = bytes.substr(0, piece);
    const auto room = reader.prepare(now.size());
    std::copy(now.begin(), now.end(), room.begin());
    reader.commit(now.size());
    bytes.remove_prefix(now.size());
    error_code ec;
    while (const meta_reply* r = reader.next(ec)) {
      result.replies.push_back({r->what, std::string(r->text), r->cas, r->oversized});
    }
    result.broken = ec.failed();
  }
  return result;
}

BOOST_AUTO_TEST_SUITE(memcached_reader_suite)

BOOST_AUTO_TEST_CASE(every_reply_in_pieces_of_every_size) {
  const std::string bytes =
      "MN\r\nVA 5 c17 t-1 f0\r\na\r\nbc\r\nVA 0 c18\r\n\r\nHD\r\nHD c9\r\nEN\r\nNS "
      "c0\r\nEX\r\nNF\r\n"
      "STAT time 1795401744\r\nSTAT inter \r\nEND\r\nSERVER_ERROR out of memory storing object\r\n"
      "CLIENT_ERROR bad data chunk\r\nERROR\r\n";
  const std::vector<heard> expected = {
      {kind::noop, "", 0, false},
      {kind::value, "a\r\nbc", 17, false},
      {kind::value, "", 18, false},
      {kind::done, "", 0, false},
      {kind::done, "", 9, false},
      {kind::missing, "", 0, false},
      {kind::not_stored, "", 0, false},
      {kind::exists, "", 0, false},
      {kind::not_found, "", 0, false},
      {kind::stat, "time 1795401744", 0, false},
      {kind::stat, "inter ", 0, false},
      {kind::end, "", 0, false},
      {kind::server_error, "out of memory storing object", 0, false},
      {kind::client_error, "bad data chunk", 0, false},
      {kind::client_error, "", 0, false},
  };
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const outcome got = read(bytes, piece);
    BOOST_TEST_CONTEXT("pieces of " << piece) {
      BOOST_TEST(!got.broken);
      BOOST_TEST_REQUIRE((got.replies == expected));
    }
  }
}

// One key with somebody else's large value must not end the connection for all others.
BOOST_AUTO_TEST_CASE(an_oversized_value_is_skipped) {
  const std::string bytes = "VA 1000 c5\r\n\x02" + std::string(999, '\n') + "\r\nHD\r\n";
  for (const std::size_t piece : {1, 7, 1000, 2000}) {
    const outcome got = read(bytes, static_cast<std::size_t>(piece));
    BOOST_TEST(!got.broken);
    BOOST_TEST_REQUIRE(got.replies.size() == 2u);
    BOOST_TEST((got.replies[0] == heard{kind::value, "\x02", 5, true}));
    BOOST_TEST((got.replies[1].what == kind::done));
  }
}

BOOST_AUTO_TEST_CASE(foreign_bytes_break_the_stream) {
  const std::string long_line(meta_reader::max_line + 3, 'x');
  for (const std::string& bytes :
       {std::string("+OK\r\n"), std::string("-ERR unknown command 'mn'\r\n"),
        std::string("HTTP/1.1 400 Bad Request\r\n"), std::string("\r\n"), std::string("VA\r\n"),
        std::string("VA -1\r\n"), std::string("VA 99999999999999999999\r\n"),
        std::string("VA 2000000000 c1\r\n"), std::string("VA 2 cx\r\nab\r\n"),
        std::string("VA 2 c1\r\nabcd"), std::string("HD c18446744073709551616\r\n"), long_line}) {
    for (const std::size_t piece : {std::size_t{1}, bytes.size()}) {
      BOOST_TEST(read(bytes, piece).broken, bytes.substr(0, 40));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_large_value_does_not_keep_its_memory) {
  meta_reader reader(1'000'000);
  const std::string bytes = "VA 900000 c1\r\n" + std::string(900'000, 'a') + "\r\n";
  const auto room = reader.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  reader.commit(bytes.size());
  error_code ec;
  BOOST_TEST_REQUIRE(reader.next(ec) != nullptr);
  BOOST_TEST(reader.memory() > 900'000u);
  BOOST_TEST(reader.next(ec) == nullptr);
  reader.prepare(16 * 1024);
  BOOST_TEST(reader.memory() < 100'000u);
}

BOOST_AUTO_TEST_CASE(random_bytes_read_alike_in_all_pieces) {
  const std::uint64_t seed = run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  random_source random(seed, 7100);
  const std::vector<std::string> words = {"VA ",  "HD", "EN",   "3 ", "70 ", "c1", " ",
                                          "\r\n", "\n", "STAT", "a",  "EX",  "\r"};
  for (int i = 0; i < 3000; ++i) {
    std::string bytes;
    for (std::int64_t n = random.between(1, 30); n > 0; --n) bytes += random.pick(words);
    const outcome whole = read(bytes, bytes.size());
    const auto piece = static_cast<std::size_t>(random.between(1, 9));
    BOOST_TEST_REQUIRE((whole == read(bytes, piece)), "WEIR_TEST_SEED=" << seed << ": " << bytes);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_reader_test

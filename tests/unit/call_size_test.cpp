// What the answers to a call say of its keys: whether they cost the server more than usual.

#include "redis/call_size.hpp"

#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

#include "policy/kernel.hpp"
#include "redis/script_call.hpp"

namespace call_size_test {
namespace {

using namespace weir;
using namespace std::chrono_literals;

constexpr std::int64_t now = 1'790'000'000'000'000;

std::string doubles(std::initializer_list<double> values) {
  std::string text;
  for (const double v : values) {
    const auto bytes = std::bit_cast<std::array<char, sizeof v>>(v);
    text.append(bytes.data(), bytes.size());
  }
  return text;
}

/// A call for so many keys, after the server has answered with the clock and `found`.
redis::script_call answered(const policy& p, std::size_t keys, const std::string& found) {
  redis::script_call c;
  c.what = redis::script_call::command::request;
  c.kind = detail::check_kind::record;
  c.tiers.push_back({policies::compile(p), 1});
  c.keys.resize(keys);
  const std::string text = "1790000000 0 " + found;
  const std::string bytes = "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  redis::reply_reader reader;
  bytes.copy(reader.prepare(bytes.size()).data(), bytes.size());
  reader.commit(bytes.size());
  error_code ec;
  const redis::reply_view* reply = reader.next(ec);
  BOOST_TEST_REQUIRE(reply != nullptr);
  std::vector<std::int64_t> scratch;
  BOOST_TEST((redis::read_reply(c, *reply, scratch) == error{}));
  return c;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(call_size_suite)

BOOST_AUTO_TEST_CASE(an_answer_tells_how_many_keys_were_costly) {
  const auto bucket = answered(
      token_bucket{9, per_second(1)}, 4,
      "0000000000000000" + std::to_string(now) + std::to_string(now + 1) + "----------------");
  BOOST_TEST(bucket.answered_keys == 4u);
  BOOST_TEST(bucket.costly_keys == 1u);  // the new one

  const double open = now - 9'999'999, ended = now - 10'000'000, line = now / 16e6 * 16e6;
  const auto window = answered(fixed_window{9, 10s}, 3,
                               doubles({open, 1, line, ended, 1, line, 0, 0, 0}));
  BOOST_TEST(window.answered_keys == 3u);
  BOOST_TEST(window.costly_keys == 2u);  // the new one, and the one that has ended
}

// The text is too short.
BOOST_AUTO_TEST_CASE(what_is_no_answer_says_nothing) {
  redis::script_call c;
  c.what = redis::script_call::command::request;
  c.tiers.push_back({policies::compile(token_bucket{9, per_second(1)}), 1});
  c.keys.resize(2);
  const std::string bytes = "$29\r\n1790000000 0 0000000000000000\r\n";
  redis::reply_reader reader;
  bytes.copy(reader.prepare(bytes.size()).data(), bytes.size());
  reader.commit(bytes.size());
  error_code ec;
  std::vector<std::int64_t> scratch;
  BOOST_TEST((redis::read_reply(c, *reader.next(ec), scratch) == error::protocol_error));
  BOOST_TEST(c.answered_keys == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace call_size_test

// What the answers to a call say of its keys: whether they cost the server more than usual.
#include "redis/script/call_size.hpp"

#include "policy/kernel.hpp"
#include "redis/script/reply.hpp"
#include "redis/script/script_call.hpp"
#include "support/doubles.hpp"
#include "support/test.hpp"

namespace call_size_test {

using namespace weir;
using namespace weir::test;
using test::doubles;

constexpr std::int64_t now = 1'790'000'000'000'000;

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

/// A call for so many checks, after the server's reply.
redis::script_call replied(const std::vector<policies::kernel>& tiers, std::size_t checks,
                           const std::string& bytes) {
  redis::script_call c;
  c.what = redis::script_call::command::request;
  c.kind = detail::check_kind::record;
  c.traits = detail::asks::record;
  for (const policies::kernel& k : tiers) c.tiers.push_back({k, 1});
  c.script = redis::script_of(c);
  c.keys.resize(checks);
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

/// The same, where the reply is the clock and `found`.
redis::script_call answered(const policy& p, std::size_t keys, const std::string& found) {
  return replied({policies::compile(p)}, keys, bulk("1790000000 0 " + found));
}

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

// With one reservation ahead in each check, a call of 24 keys held the server twice as long as one
// of plain keys.
BOOST_AUTO_TEST_CASE(of_checks_with_several_keys_those_are_costly_that_full_kernels_have_answered) {
  const auto two = policies::compile(tiers{token_bucket{9, per_second(1)}, fixed_window{9, 10s}});
  const std::string tat = std::to_string(now), window(24, '\0'), plain = tat + window;
  const auto common = replied(two, 2, bulk("1790000000 0 " + tat + tat + window + window));
  BOOST_TEST(common.answered_keys == 4u);
  BOOST_TEST(common.costly_keys == 0u);
  const std::string states = "f" + std::string(8 * sizeof(double), '\0');
  const auto mixed = replied(two, 3, bulk("!1790000000 0 p" + plain + states + states));
  BOOST_TEST(mixed.answered_keys == 6u);
  BOOST_TEST(mixed.costly_keys == 4u);
  // Policies that always take the full kernels tell nothing of the keys.
  const auto full = replied(
      policies::compile(tiers{token_bucket{9, per_second(1)}, fixed_window{unlimited, 10s}}), 1,
      bulk("!1790000000 0 " + states));
  BOOST_TEST(full.answered_keys == 0u);
}

BOOST_AUTO_TEST_CASE(a_check_that_a_cool_down_refuses_is_not_costly) {
  const std::vector<policies::kernel> tiers{policies::compile(token_bucket{9, per_second(1)}),
                                            policies::cool_down()};
  const std::string bucket = std::to_string(now);
  // New, full again, and in use: the first two are not dear either, beside the whole call's bound.
  const std::string full = std::to_string(now - 1);
  auto none = replied(tiers, 3, bulk("1790000000 0 0000000000000000" + full + bucket));
  BOOST_TEST(none.answered_keys == 6u);
  BOOST_TEST(none.costly_keys == 0u);
  const std::string states = "f" + std::string(7 * sizeof(double), '\0');
  auto mixed = replied(
      tiers, 3,
      bulk("!1790000000 0 p" + bucket + "p" + bucket + bucket + "0000000001000000" + states));
  BOOST_TEST(mixed.answered_keys == 6u);
  BOOST_TEST(mixed.costly_keys == 2u);

  redis::call_size size(64);
  const auto at_most = [&] { return size.most_keys(none) / 2; };
  BOOST_TEST(at_most() == 6u);
  none.answered_keys = 128;
  size.answered(none);
  BOOST_TEST(at_most() == 28u);
  mixed.answered_keys = mixed.costly_keys = 128;
  size.answered(mixed);
  BOOST_TEST(at_most() == 6u);
}

// Ten calls of logs let the next one carry 64 new buckets.
BOOST_AUTO_TEST_CASE(answers_of_logs_alone_say_nothing_of_other_keys) {
  const auto logs = answered(sliding_log{9, 10s}, 2, doubles({0, 0, 0}) + doubles({1, now, 0}));
  BOOST_TEST(logs.answered_keys == 0u);
}

BOOST_AUTO_TEST_CASE(a_call_of_checks_with_a_log_has_18_logs_or_9_beside_another_tier) {
  const policies::kernel log = policies::compile(sliding_log{9, 10s});
  const policies::kernel bucket = policies::compile(token_bucket{9, per_second(1)});
  redis::call_size size(64);
  auto cooled = replied({log, policies::cool_down()}, 1,
                        bulk("1790000000 0 " + doubles({0, 0, 0})));
  BOOST_TEST(size.most_keys(cooled) == 6u);
  cooled.answered_keys = 128;
  size.answered(cooled);
  BOOST_TEST(size.most_keys(cooled) / 2 == 18u);
  const auto two = replied({bucket, log}, 1,
                           bulk("1790000000 0 " + std::to_string(now) + doubles({0, 0, 0})));
  BOOST_TEST(size.most_keys(two) / 2 == 9u);
}

// Few calls of a limiter with cool-downs let those of others carry 64 new keys.
BOOST_AUTO_TEST_CASE(checks_of_one_key_and_of_several_know_nothing_of_each_other) {
  redis::call_size size(64);
  auto single = answered(token_bucket{9, per_second(1)}, 1, std::to_string(now));
  auto several = replied({policies::compile(token_bucket{9, per_second(1)}), policies::cool_down()},
                         1, bulk("1790000000 0 " + std::to_string(now)));
  single.answered_keys = several.answered_keys = 128;
  size.answered(several);
  BOOST_TEST(size.most_keys(single) == 32u);
  size.answered(single);
  BOOST_TEST(size.most_keys(single) == 64u);
  several.costly_keys = 128;
  size.answered(several);
  BOOST_TEST(size.most_keys(several) == 12u);
  BOOST_TEST(size.most_keys(single) == 64u);
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

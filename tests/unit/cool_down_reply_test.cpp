// The reply to checks that a cool-down could have refused: if none is there, one text answers for
// all of them, and the policy decides as it does beside a cool-down.
#include "redis/script/coalescer.hpp"
#include "redis/script/reply.hpp"
#include "support/doubles.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "support/text.hpp"

namespace cool_down_reply_test {

using namespace weir;
using namespace weir::test;
using detail::check_kind;
using test::doubles;
using test::fake_check;

constexpr std::int64_t now = 1'790'000'000'000'000;

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

/// The answers to three checks, two of them of one subject, after this reply.
std::vector<decision> answers(const policy& p, check_kind kind, const std::string& bytes) {
  const auto limiter = test::make_core("r", p, {.cool_downs = true});
  std::deque<fake_check> checks;
  detail::check_list line;
  for (const char* subject : {"one", "one", "two"}) {
    line.push_back(checks.emplace_back(limiter, subject, 2, kind));
  }
  redis::coalescer packer(64);
  redis::script_call& call = packer.pack(line).front();
  BOOST_TEST_REQUIRE(call.keys.size() == 2u);
  redis::reply_reader reader;
  bytes.copy(reader.prepare(bytes.size()).data(), bytes.size());
  reader.commit(bytes.size());
  error_code ec;
  std::vector<std::int64_t> scratch;
  BOOST_TEST((redis::read_reply(call, *reader.next(ec), scratch) == error{}));
  BOOST_TEST(call.answered_keys == 4u);
  BOOST_TEST(call.costly_keys == 0u);
  std::vector<decision> all;
  for (redis::call_key& key : call.keys) {
    for (const detail::check& c : key.checks) all.push_back(c.answer);
    key.checks.clear();
  }
  return all;
}

BOOST_AUTO_TEST_SUITE(cool_down_reply_suite)

BOOST_AUTO_TEST_CASE(without_a_cool_down_the_policy_decides_as_beside_one) {
  const double line = now / 16'000'000 * 16e6 + 16e6;
  const std::string soon = std::to_string(now + 1'000'000), late = std::to_string(now + 5'000'000);
  struct question {
    policy asked;
    std::string some_left, none_left;
    const char* gap = "";
  };
  const std::vector<question> questions{
      {token_bucket{5, per_second(1)}, soon, late},
      {leaky_bucket{5, per_second(1)}, soon, late},
      {gcra{{7, 9s}, 5}, soon + "/3", late + "/3", " "},
      {fixed_window{5, 10s}, doubles({now - 5.0, 1, line}), doubles({now - 5.0, 5, line})},
      {sliding_window{5, 10s}, doubles({now - 5.0, 1, 0, line}), doubles({now - 5.0, 5, 0, line})},
      // A coarser resolution wrote the newest entry.
      {sliding_log{5, 10s, 1s}, doubles({1, now + 6e6, 0}), doubles({5, now + 6e6, now - 5.0})}};
  std::size_t allowed = 0;
  for (const question& q : questions) {
    for (const check_kind kind : {check_kind::record, check_kind::fetch}) {
      const auto alone = answers(q.asked, kind,
                                 bulk("1790000000 0 " + q.some_left + q.gap + q.none_left));
      const auto beside = answers(q.asked, kind,
                                  bulk("!1790000000 0 p" + q.some_left + q.gap + 'p' + q.none_left +
                                       q.gap + std::string(32, '0')));
      BOOST_TEST_REQUIRE(alone.size() == 3u);
      BOOST_TEST_REQUIRE(beside.size() == 3u);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        BOOST_TEST_CONTEXT(test::text_of(q.asked) << ", check " << i) {
          BOOST_TEST((alone[i] == beside[i]), test::text_of(alone[i])
                                                  << ", " << test::text_of(beside[i]));
          if (!alone[i].allowed) continue;
          ++allowed;
          BOOST_TEST(alone[i].receipt.counted_at == beside[i].receipt.counted_at);
          BOOST_TEST(alone[i].receipt.counted_at >= now);
          for (std::size_t b = 0; b < alone[i].receipt.buckets.size(); ++b) {
            const receipt::bucket &x = alone[i].receipt.buckets[b],
                                  &y = beside[i].receipt.buckets[b];
            BOOST_TEST(x.whole == y.whole);
            BOOST_TEST(x.part == y.part);
            BOOST_TEST(x.returned == y.returned);
          }
        }
      }
    }
  }
  BOOST_TEST(allowed > 10u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cool_down_reply_test

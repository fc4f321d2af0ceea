// What stands around the keys of a call is kept for the next call.
#include "redis/script/call_writer.hpp"

#include <cstring>

#include "redis/script/coalescer.hpp"
#include "support/command_reader.hpp"
#include "support/doubles.hpp"
#include "support/fake_check.hpp"
#include "support/random_source.hpp"
#include "support/test.hpp"

namespace call_writer_test {

using namespace weir;
using namespace weir::test;
using detail::check_kind;
using test::fake_check;

std::string written_by(redis::call_writer& writer, const redis::script_call& call) {
  std::string out;
  writer.write(out, call);
  return out;
}

BOOST_AUTO_TEST_SUITE(call_writer_suite)

BOOST_AUTO_TEST_CASE(each_call_is_written_as_if_it_were_the_first) {
  const std::uint64_t seed = test::run_seed();
  BOOST_TEST_MESSAGE("WEIR_TEST_SEED=" << seed);
  test::random_source random(seed);
  const std::vector<test::core_ptr> limiters{
      test::make_core("a", token_bucket{9, per_second(1)}),
      test::make_core("b", token_bucket{9, per_second(2)}),
      test::make_core("c", gcra{{7, 3s}, 5}),
      test::make_core("d", fixed_window{9, 1h}),
      test::make_core("e", fixed_window{9, 2h}),
      test::make_core("f", sliding_window{9, 1h}),
      test::make_core("g", sliding_log{9, 1h}),
      test::make_core("h", sliding_log{9, 1h, 1min}),
      test::make_core("i", tiers{token_bucket{9, per_second(1)}, fixed_window{9, 1h}}),
      test::make_core("a", token_bucket{9, per_second(1)}, {.cool_downs = true}),
      test::make_core(std::string(99, 'j'), sliding_window{9, 1h}, {.cool_downs = true})};
  redis::call_writer writer;
  std::set<std::string> all;
  for (int round = 0; round < 2000; ++round) {
    // Few differences between one call and the next, so that all kinds of them occur alone.
    redis::coalescer packer(static_cast<std::size_t>(random.between(1, 3)));
    std::deque<fake_check> checks;
    detail::check_list line;
    const auto& limiter = random.pick(limiters);
    const std::int64_t cost = random.between(1, 2);
    const auto kind = random.pick(std::vector{check_kind::record, check_kind::record,
                                              check_kind::fetch, check_kind::acquire,
                                              check_kind::reset});
    for (std::int64_t n = random.between(1, 4); n > 0; --n) {
      const std::string subject = "account-" + std::to_string(random.between(1, 4));
      line.push_back(checks.emplace_back(limiter, subject, cost, kind));
    }
    for (const redis::script_call& call : packer.pack(line)) {
      redis::call_writer fresh;
      const std::string expected = written_by(fresh, call);
      BOOST_TEST_REQUIRE(written_by(writer, call) == expected);
      test::command_reader reader;
      reader.feed(expected);
      const auto words = reader.next();  // as many words as it says, and of their lengths
      BOOST_TEST_REQUIRE(words.has_value());
      BOOST_TEST(!reader.next().has_value());
      all.insert(expected);
    }
    line.clear();
  }
  BOOST_TEST(all.size() > 500u);
}

// An acquire sends the very script of a record.
BOOST_AUTO_TEST_CASE(reservations_differ_from_checks_in_the_longest_wait_alone) {
  for (const policy& p : {policy(token_bucket{9, per_second(1)}), policy(gcra{{7, 3s}, 5}),
                          policy(fixed_window{9, 1h}), policy(sliding_log{9, 1h}),
                          policy(fixed_window{.limit = 9, .window = 1h, .count_refused = true})}) {
    for (const bool cools_down : {false, true}) {
      const auto limiter = test::make_core("r", p, {.cool_downs = cools_down});
      std::string texts[2];
      for (const check_kind kind : {check_kind::record, check_kind::acquire}) {
        fake_check one(limiter, "one", 2, kind);
        if (kind == check_kind::acquire) {
          detail::as<detail::acquire_request>(one.check()).max_wait = 7s;
        }
        detail::check_list line;
        line.push_back(one);
        redis::coalescer packer(64);
        redis::call_writer writer;
        std::string& text = texts[kind == check_kind::acquire];
        text = written_by(writer, packer.pack(line).front());
        const std::string none = test::doubles({-1.0}), some = test::doubles({7'000'000.0});
        BOOST_TEST((text.find(kind == check_kind::record ? none : some) != text.npos));
        const std::size_t at = text.find(some);
        if (at != text.npos) text.replace(at, some.size(), none);
        line.clear();
      }
      BOOST_TEST(texts[0] == texts[1]);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_keys_of_each_tier_stand_together) {
  // The second resource is too long for keys that are written as similar ones.
  for (const std::string& resource : {std::string("r"), std::string(99, 'r')}) {
    const auto limiter = test::make_core(resource, token_bucket{9, per_second(1)},
                                         {.cool_downs = true});
    std::deque<fake_check> checks;
    detail::check_list line;
    std::vector<std::string> expected;
    for (const std::size_t tier : {0u, 1u}) {
      for (const char* subject : {"one", "{two}", "three"}) {
        if (tier == 0) line.push_back(checks.emplace_back(limiter, subject, 1, check_kind::record));
        limiter->append_key(expected.emplace_back(), subject, tier);
      }
    }
    redis::coalescer packer(64);
    redis::call_writer writer;
    test::command_reader reader;
    reader.feed(written_by(writer, packer.pack(line).front()));
    const auto words = reader.next();
    BOOST_TEST_REQUIRE(words.has_value());
    BOOST_TEST((*words)[2] == "6");
    BOOST_TEST(std::vector<std::string>(words->begin() + 3, words->begin() + 9) == expected,
               boost::test_tools::per_element());
    line.clear();
  }
}

// All consumers and the total: the script has to see what the check before has counted.
BOOST_AUTO_TEST_CASE(calls_of_several_limiters_say_that_their_checks_may_share_keys) {
  const auto total = test::make_core("total", token_bucket{9, per_second(1)});
  const auto each = test::make_core("each", fixed_window{9, 1h});
  const auto alone = test::make_core("alone",
                                     tiers{token_bucket{9, per_second(1)}, fixed_window{9, 1h}});
  for (const bool is_joint : {true, false}) {
    for (const std::size_t count : {1u, 2u}) {
      std::deque<fake_check> checks;
      detail::check_list line;
      std::vector<std::string> expected;
      for (std::size_t i = 0; i < count; ++i) {
        const std::string subject = "account-" + std::to_string(i);
        std::vector<detail::term> further;
        if (is_joint) further.push_back({each, detail::short_text(subject), 1});
        line.push_back(checks.emplace_back(is_joint ? total : alone, is_joint ? "all" : subject, 1,
                                           check_kind::record, 500ms, std::move(further)));
        if (is_joint) total->append_key(expected.emplace_back(), "all", 0);
      }
      for (std::size_t i = 0; is_joint && i < count; ++i) {
        each->append_key(expected.emplace_back(), "account-" + std::to_string(i), 0);
      }
      redis::coalescer packer(64);
      redis::call_writer writer;
      test::command_reader reader;
      const redis::call_list& calls = packer.pack(line);
      BOOST_TEST_REQUIRE(calls.size() == 1u);
      reader.feed(written_by(writer, calls.front()));
      const auto words = reader.next();
      BOOST_TEST_REQUIRE(words.has_value());
      const auto keys = static_cast<long>(2 * count);
      double front[2] = {77, 77};
      std::memcpy(front, (*words)[3 + 2 * count].data(), sizeof front);
      BOOST_TEST(front[0] == (is_joint && count > 1 ? 1.0 : 0.0));
      BOOST_TEST(front[1] == -1.0);  // no reservations
      if (is_joint) {
        BOOST_TEST(
            std::vector<std::string>(words->begin() + 3, words->begin() + 3 + keys) == expected,
            boost::test_tools::per_element());
      }
      line.clear();
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace call_writer_test

// The text form of policies: what to_string() writes, parse_policy() reads.
#include <boost/system/system_error.hpp>
#include <vector>

#include "support/random_source.hpp"
#include "support/test.hpp"
#include "weir/weir.hpp"

namespace policy_text_test {

using namespace weir;
using namespace weir::test;

std::string text_of_failure(std::string_view text) {
  try {
    BOOST_ERROR("parsed as " << to_string(parse_policy(text)));
  } catch (const boost::system::system_error& e) {
    BOOST_TEST((e.code() == error::invalid_policy));
    BOOST_TEST(!try_parse_policy(text).has_value());
    return e.what();
  }
  return {};
}

BOOST_AUTO_TEST_SUITE(policy_text_suite)

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  const std::pair<tiers, std::string_view> rows[] = {
      {tiers(token_bucket{.capacity = 20, .refill = per_second(100)}), "token_bucket 20, 100/s"},
      {tiers(leaky_bucket{.capacity = 5, .leak = per_day(1)}), "leaky_bucket 5, 1/day"},
      {tiers(gcra{.rate = {10, 5s}}), "gcra 10 per 5s"},
      {tiers(gcra{.rate = {10, 5s}, .burst = 3}), "gcra 10 per 5s, burst 3"},
      {tiers(sliding_window{.limit = unlimited, .window = 90s}),
       "sliding_window unlimited per 90s"},
      {tiers(sliding_window{.limit = 1, .window = 1us, .count_refused = true}),
       "sliding_window 1/us, count_refused"},
      {tiers(fixed_window{.limit = 5, .window = 24h}), "fixed_window 5/day"},
      {tiers(fixed_window{.limit = unlimited, .window = 24h}), "fixed_window unlimited/day"},
      {tiers(fixed_window{.limit = 5,
                          .window = 24h,
                          .anchor = anchor::epoch,
                          .offset = 1500ms,
                          .count_refused = true}),
       "fixed_window 5/day, epoch, offset 1500ms, count_refused"},
      {tiers(sliding_log{.limit = 5, .window = 1h}), "sliding_log 5/h"},
      {tiers(sliding_log{.limit = 5, .window = 1h, .resolution = 250us, .count_refused = true}),
       "sliding_log 5/h, resolution 250us, count_refused"},
      {tiers(gcra{.rate = per_second(1)}, fixed_window{.limit = 2, .window = 1min}),
       "gcra 1/s; fixed_window 2/min"},
  };
  for (const auto& [written, text] : rows) {
    BOOST_TEST(to_string(written) == text);
    BOOST_TEST((parse_policy(text) == written), text);
  }
  BOOST_TEST(to_string(policy(gcra{.rate = per_second(1)})) == "gcra 1/s");
}

BOOST_AUTO_TEST_CASE(other_texts_that_are_read) {
  const sliding_log minute{.limit = 100, .window = 1min}, week{.limit = 5000, .window = 7 * 24h};
  const token_bucket bucket{.capacity = 20, .refill = per_second(100)};
  const std::pair<std::string_view, tiers> rows[] = {
      {"100/min", tiers(minute)},
      {"100 per minute, 5000/week", tiers(minute, week)},
      {"100/MIN;5000/2WEEKS", tiers(minute, sliding_log{.limit = 5000, .window = 14 * 24h})},
      {" Sliding_Log 100/Min , Resolution 1 Sec ;\n\t5000 PER weeks\r\n",
       tiers(sliding_log{.limit = 100, .window = 1min, .resolution = 1s}, week)},
      {"TOKEN_BUCKET 20,100/s;100/min,5000/w", tiers(bucket, minute, week)},
      {"100/min; token_bucket 20, 100/s", tiers(minute, bucket)},
      {"gcra 1/s,burst 5;gcra 1/s",
       tiers(gcra{.rate = per_second(1), .burst = 5}, gcra{.rate = per_second(1)})},
      {"sliding_log unlimited/h, resolution 1s",
       tiers(sliding_log{.limit = unlimited, .window = 1h, .resolution = 1s})},
      {"1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s", tiers(std::vector<policy>(8, sliding_log{1, 1s}))},
  };
  for (const auto& [text, expected] : rows) BOOST_TEST((parse_policy(text) == expected), text);
}

BOOST_AUTO_TEST_CASE(an_error_names_the_character_and_the_expectation) {
  constexpr std::string_view any = "a rate such as 100/s, or the name of a policy",
                             option = "an option of the policy, in the documented order",
                             count = "a whole number above 0", count_or = "or \"unlimited\"";
  const struct {
    std::string_view text;
    int at;
    std::string_view expected;
  } rows[] = {
      {"", 1, any},
      {"tokens 20, 100/s", 1, any},
      {"token_buckets 20, 100/s", 1, any},
      {"gcra10/s", 1, any},
      {"unlimited/day", 1, any},
      {"-1/s", 1, any},
      {"100/min;", 9, any},
      {"100/min,", 9, "a rate such as 100/s; \";\" stands before the name"},
      {"100/min, gcra 1/s", 10, "a rate such as 100/s; \";\" stands before the name"},
      {"100/min 5/s", 9, "\",\", \";\" or the end of the text"},
      {"100/min, resolution 1s", 10, "a rate such as 100/s"},
      {"100/month", 5, "a unit (us, ms, s, min, h, day or week)"},
      {"token_bucket 20", 16, "\",\" and a rate after the capacity"},
      {"token_bucket 20, 100", 21, "\"/\" or \"per\" after the count"},
      {"token_bucket unlimited, 1/s", 14, count},
      {"fixed_window unlimitd/day", 14, count_or},
      {"sliding_log", 12, count_or},
      {"fixed_window 5/day, epoch, offset", 34, "a duration above 0, such as 8h"},
      {"sliding_log 5/day, resolution 0s", 31, count},
      {"gcra 1/s, burst 0", 17, count},
      // A comma begins no named policy, and ends none.
      {"fixed_window 100/min, 5000/day", 21, option},
      {"gcra 1/s, gcra 2/s", 9, option},
      {"gcra 1/s, burst 1,500/s", 18, option},
      {"gcra 1/s, bust 5", 9, option},
      {"fixed_window 5/day, count_refused, epoch", 34, option},
      {"fixed_window 5/day, offset 8h", 19, option},
      {"1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s", 32, "the end of the text, because 8 policies"},
  };
  for (const auto& [text, at, expected] : rows) {
    const std::string place = ", at character " + std::to_string(at) + ": expected ";
    const std::string told = text_of_failure(text);
    const auto from = told.find(place);
    BOOST_TEST((from != told.npos && told.find(expected, from) != told.npos), told);
  }
}

BOOST_AUTO_TEST_CASE(a_limiter_tells_its_policy) {
  boost::asio::io_context io;
  const store s = make_memory_store(io.get_executor());
  const tiers two = parse_policy("gcra 1/s, burst 2; fixed_window 100/day, epoch");
  BOOST_TEST((limiter(s, "r", two).policy() == two));
  BOOST_TEST((limiter(s, "r", two[1]).policy() == tiers(two[1])));
}

// With all numbers, not only those that a limiter takes.
BOOST_AUTO_TEST_CASE(random_policies_are_read_back) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  random_source random{run_seed(), 1};
  const auto number = [&] {
    return random.one_in(9) ? most : random.one_in(9) ? 1 : random.magnitude(most);
  };
  const auto span = [&]() -> duration {
    constexpr std::int64_t units[] = {1,          1'000,         1'000'000,
                                      60'000'000, 3'600'000'000, 86'400'000'000};
    const std::int64_t unit = units[static_cast<std::size_t>(random.between(0, 5))];
    return microseconds(unit * random.magnitude(most / unit));
  };
  const auto if_set = [&] { return random.one_in(2) ? span() : duration(); };
  const auto one = [&]() -> policy {
    const bool refused = random.one_in(2);
    switch (random.between(0, 5)) {
      case 0:
        if (random.one_in(2)) {
          return fixed_window{.limit = number(), .window = span(), .count_refused = refused};
        }
        return fixed_window{number(), span(), anchor::epoch, if_set(), refused};
      case 1:
        return sliding_log{number(), span(), if_set(), refused};
      case 2:
        return sliding_window{number(), span(), refused};
      case 3:
        return token_bucket{number(), {number(), span()}};
      case 4:
        return leaky_bucket{number(), {number(), span()}};
      default:
        return gcra{{number(), span()}, number()};
    }
  };
  for (int i = 0; i < 5'000; ++i) {
    std::vector<policy> each;
    for (auto n = random.between(1, 8); n > 0; --n) each.push_back(one());
    const tiers all = tiers(each);
    const auto again = try_parse_policy(to_string(all));
    if (again.has_value() && *again == all) continue;
    BOOST_TEST(false, "WEIR_TEST_SEED=" << run_seed() << ' ' << to_string(all));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace policy_text_test

#include <boost/system/system_error.hpp>
#include <random>

#include "support/random_source.hpp"
#include "support/test.hpp"
#include "text/duration_text.hpp"
#include "weir/rate.hpp"

namespace weir {

// For Boost.Test's messages; the raw numbers, because to_string is what is tested here.
std::ostream& operator<<(std::ostream& out, const rate& r) {
  return out << '{' << r.count << " per " << r.period.count() << " us}";
}

}  // namespace weir

namespace rate_test {

using namespace weir;
using namespace weir::test;

constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();

std::string text_of_failure(std::string_view text) {
  try {
    const rate parsed = rate::parse(text);
    BOOST_ERROR("parsed as " << parsed);
  } catch (const boost::system::system_error& e) {
    BOOST_TEST((e.code() == error::invalid_rate));
    return e.what();
  }
  return {};
}

BOOST_AUTO_TEST_SUITE(rate_suite)

// per_second(1.9) was 1/s.
template <class T>
concept makes_a_rate = requires(T count) { per_second(count); };
static_assert(makes_a_rate<int> && makes_a_rate<std::uint64_t> && !makes_a_rate<double>);

BOOST_AUTO_TEST_CASE(valid_texts) {
  const struct {
    rate expected;
    std::vector<std::string_view> texts;
  } rows[] = {
      // As documented.
      {per_second(100), {"100/s"}},
      {per_day(5000), {"5000/day"}},
      {{10, 5s}, {"10 per 5s"}},
      {{1, 10ms}, {"1 per 10ms"}},
      {per_minute(60), {"60/min"}},
      {{3, 2h}, {"3 / 2 h"}},
      // Units.
      {{7, 1us}, {"7/us"}},
      {{7, 1ms}, {"7/ms"}},
      {{7, 1s}, {"7/sec", "7/secs", "7/second", "7/seconds"}},
      {{7, 1min}, {"7/m", "7/mins", "7/minute", "7/minutes"}},
      {{7, 1h}, {"7/h", "7/hour", "7/hours"}},
      {{7, 24h}, {"7/d", "7/days", "7/Day", "7 Per DAYS"}},
      {{7, 7 * 24h}, {"7/w", "7/week", "7/weeks", "7/WEEK"}},
      {{100, 15min}, {"100 per 15 minutes"}},
      {{7, 48h}, {"7/2d"}},
      // Spaces.
      {{10, 5s}, {"10per5s", "10\t/\r\n5s\n", "  10   per   5   s  ", "10/ 5s"}},
      {{10, 1s}, {"10 per second", "10 pers"}},
      // Numbers.
      {{7, 2s}, {"007/02s"}},
      {per_day(1'000'000), {"1000000/day"}},
      {per_second(1'000'000), {"1000000/s"}},
      {per_second(max64), {"9223372036854775807/s"}},
      {{1, std::chrono::microseconds{max64}}, {"1 per 9223372036854775807us"}},
      {{1, 9223372036854s}, {"1 per 9223372036854s"}},
      {{1, 106751991 * 24h}, {"1 per 106751991d"}},
  };
  for (const auto& [expected, texts] : rows) {
    for (const std::string_view text : texts) {
      BOOST_TEST_CONTEXT('"' << text << '"') {
        const auto parsed = rate::try_parse(text);
        BOOST_REQUIRE(parsed.has_value());
        BOOST_TEST(*parsed == expected);
        BOOST_TEST(rate::parse(text) == expected);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(invalid_texts) {
  constexpr std::string_view number = "a whole number above 0";
  constexpr std::string_view fraction = "a whole number, not a fraction";
  constexpr std::string_view separator = "\"/\" or \"per\" after the count";
  constexpr std::string_view unit = "a unit (us, ms, s, min, h, day or week)";
  constexpr std::string_view end = "the end of the text";
  const struct {
    int character;  // counted from 1
    std::string_view expected;
    std::vector<std::string_view> texts;
  } rows[] = {
      {1, number, {"", "/s", "x", "0/s", "000/s", "-5/s", "+5/s", "0x10/s"}},
      {4, number, {"   ", "10//s", "10/0s", "10/-1s", "10/\xc2\xb5s"}},
      {2, fraction, {"1.5/s", "1./s"}},
      {1, fraction, {".5/s"}},
      {2, separator, {"1,000/s", "1e6/s", "1_000/s"}},
      {3, separator, {"10", std::string_view{"10\0/s", 5}}},
      {4, separator, {"10 s", "10 Pen s"}},
      {4, unit, {"10/", "10/S", "10/M", "10/month", "10/mss"}},
      {5, unit, {"10/ ", "10/5"}},
      {7, unit, {"10 per"}},
      {6, unit, {"10/5 "}},
      {5, fraction, {"10/1.5s"}},
      {4, fraction, {"10/.5s"}},
      {5, end, {"10/s2", "10/s/s", "10/s, 20/min", std::string_view{"10/s\0", 5}}},
      {7, end, {"10/5s x"}},
      {6, end, {"10/1h30m"}},
      {1, "at most 9223372036854775807", {"9223372036854775808/s", "99999999999999999999999999/s"}},
      {7, "at most 9223372036854775807", {"1 per 9223372036854775808us"}},
      {7,
       "at most 9223372036854775807 microseconds",
       {"1 per 9223372036855s", "1 per 106751992d", "1 per 9223372036854775807day"}},
  };
  for (const auto& [character, expected, texts] : rows) {
    const std::string where = "at character " + std::to_string(character) + ": expected ";
    for (const std::string_view text : texts) {
      const auto parsed = rate::try_parse(text);
      const std::string what = text_of_failure(text);
      BOOST_TEST_CONTEXT('"' << text << "\": " << what) {
        BOOST_REQUIRE(parsed.has_error());
        BOOST_TEST((parsed.error() == error::invalid_rate));
        BOOST_TEST(what.find(where) != std::string::npos);
        BOOST_TEST(what.find(expected) != std::string::npos);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_exception_shows_the_text_safely) {
  const auto shown = [](std::string_view text) {
    const std::string what = text_of_failure(text);
    return what.substr(0, what.find(", at character"));
  };
  BOOST_TEST(shown("1.5/s") == "rate \"1.5/s\"");
  BOOST_TEST(shown("a\"b\\c") == "rate \"a\\\"b\\\\c\"");
  BOOST_TEST(shown(std::string_view{"\n\0\x1b[31m\xff\x7f", 9}) ==
             "rate \"\\x0a\\x00\\x1b[31m\\xff\\x7f\"");
  BOOST_TEST(shown(std::string(60, 'x')) == "rate \"" + std::string(60, 'x') + "\"");
  BOOST_TEST(shown(std::string(61, 'x')) == "rate \"" + std::string(60, 'x') + "...\"");
  // Cut between escapes, never inside one.
  BOOST_TEST(shown(std::string(58, 'x') + "\n\n") == "rate \"" + std::string(58, 'x') + "...\"");
  BOOST_TEST(text_of_failure(std::string(1'000'000, '\n')).size() < 300u);
}

BOOST_AUTO_TEST_CASE(written_texts) {
  struct {
    rate value;
    std::string_view expected;
  } const table[] = {
      {per_second(100), "100/s"},
      {per_minute(60), "60/min"},
      {per_hour(1), "1/h"},
      {per_day(5000), "5000/day"},
      {{10, 5s}, "10 per 5s"},
      {every(10ms), "1 per 10ms"},
      {{5, 1ms}, "5/ms"},
      {{5, 1us}, "5/us"},
      {{5, 1'500us}, "5 per 1500us"},
      {{5, 90s}, "5 per 90s"},
      {{5, 60s}, "5/min"},
      {{5, 90min}, "5 per 90min"},
      {{5, 36h}, "5 per 36h"},
      {{5, 7 * 24h}, "5 per 7d"},
      {{max64, std::chrono::microseconds{max64}}, "9223372036854775807 per 9223372036854775807us"},
      // Not valid, but seen in an error text some day.
      {{0, 0us}, "0 per 0us"},
      {{-3, 1s}, "-3/s"},
      {{3, -2s}, "3 per -2s"},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT(row.value) {
      const std::string text = to_string(row.value);
      BOOST_TEST(text == row.expected);
      const auto back = rate::try_parse(text);
      const bool valid = row.value.count > 0 && row.value.period > 0us;
      BOOST_TEST(back.has_value() == valid);
      if (back) BOOST_TEST(*back == row.value);
    }
  }
}

BOOST_AUTO_TEST_CASE(any_valid_rate_survives_the_round_trip) {
  std::mt19937_64 random(run_seed());
  // All magnitudes alike: the low `bits` bits of a random number.
  const auto number = [&](std::int64_t most) {
    const std::uint64_t value = random() >> (1 + random() % 63);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(value), 1, most);
  };
  constexpr std::int64_t units[] = {1, 1'000, 1'000'000, 60'000'000, 3'600'000'000, 86'400'000'000};
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    for (int i = 0; i < 20'000; ++i) {
      const std::int64_t unit = units[random() % std::size(units)];
      const rate r{number(max64), std::chrono::microseconds{unit * number(max64 / unit)}};
      const std::string text = to_string(r);
      const auto back = rate::try_parse(text);
      BOOST_TEST_CONTEXT(r << " as " << text) {
        BOOST_REQUIRE(back.has_value());
        BOOST_REQUIRE(*back == r);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(random_bytes_are_read_or_refused) {
  std::mt19937_64 random(run_seed());
  constexpr std::string_view pieces[] = {
      "1", "0",   "9223372036854775807", "/", "per", " ", "s", "ms", "h", "day", "us", ".",
      "-", "\xff"};
  constexpr std::string_view skeleton[] = {"7", " ", "/", " ", "90", " ", "ms", " "};
  int valid = 0;
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed()) {
    for (int i = 0; i < 50'000; ++i) {
      std::string text;
      if (i % 2 == 0) {  // a valid text with some of its parts exchanged
        for (const auto& part : skeleton) {
          text += random() % 4 == 0 ? pieces[random() % std::size(pieces)] : part;
        }
      } else {
        for (auto n = random() % 40; n > 0; --n) text += static_cast<char>(random());
      }
      text.shrink_to_fit();  // so that a sanitizer sees a read beyond the end
      const auto parsed = rate::try_parse(std::string_view{text.data(), text.size()});
      std::optional<rate> thrown;
      try {
        thrown = rate::parse(text);
      } catch (const boost::system::system_error& e) {
        const std::string_view what = e.what();
        BOOST_REQUIRE(std::ranges::all_of(what, [](char c) { return c >= ' ' && c <= '~'; }));
      }
      BOOST_REQUIRE(parsed.has_value() == thrown.has_value());
      if (!parsed) continue;
      ++valid;
      BOOST_REQUIRE(*parsed == *thrown);
      BOOST_REQUIRE(parsed->count > 0);
      BOOST_REQUIRE(parsed->period.count() > 0);
      BOOST_REQUIRE(rate::parse(to_string(*parsed)) == *parsed);
    }
    BOOST_TEST(valid > 1'000, "the random texts hardly reach the valid ones: " << valid);
  }
}

BOOST_AUTO_TEST_CASE(a_duration_needs_its_number) {
  const auto read = [](std::string_view text) {
    weir::text::text_reader reader{text};
    auto result = reader.duration();
    return result && reader.end() ? result : std::nullopt;
  };
  BOOST_TEST((read("250ms") == 250ms));
  BOOST_TEST((read("2 s") == 2s));
  BOOST_TEST((read("s") == std::nullopt));
  BOOST_TEST((read("") == std::nullopt));
  BOOST_TEST((read("250") == std::nullopt));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace rate_test

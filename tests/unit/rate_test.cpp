#include <algorithm>
#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "text/duration_text.hpp"
#include "weir/rate.hpp"

namespace weir {

// For Boost.Test's messages; the raw numbers, because to_string is what is tested here.
std::ostream& operator<<(std::ostream& out, const rate& r) {
  return out << '{' << r.count << " per " << r.period.count() << " us}";
}

}  // namespace weir

namespace rate_test {
namespace {

using namespace std::chrono_literals;
using weir::rate;

constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();

/// Another one in each run; WEIR_TEST_SEED repeats a run that failed.
std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* given = std::getenv("WEIR_TEST_SEED");
    return given ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device{}()};
  }();
  return value;
}

std::string text_of_failure(std::string_view text) {
  try {
    const rate parsed = rate::parse(text);
    BOOST_ERROR("parsed as " << parsed);
  } catch (const boost::system::system_error& e) {
    BOOST_TEST((e.code() == weir::error::invalid_rate));
    return e.what();
  }
  return {};
}

BOOST_AUTO_TEST_SUITE(rate_suite)

// per_second(1.9) was 1/s.
template <class T>
concept makes_a_rate = requires(T count) { weir::per_second(count); };
static_assert(makes_a_rate<int> && makes_a_rate<std::uint64_t> && !makes_a_rate<double>);

BOOST_AUTO_TEST_CASE(valid_texts) {
  struct {
    std::string_view text;
    rate expected;
  } const table[] = {
      // As documented.
      {"100/s", weir::per_second(100)},
      {"5000/day", weir::per_day(5000)},
      {"10 per 5s", {10, 5s}},
      {"1 per 10ms", {1, 10ms}},
      {"60/min", weir::per_minute(60)},
      {"3 / 2 h", {3, 2h}},
      // Units.
      {"7/us", {7, 1us}},
      {"7/ms", {7, 1ms}},
      {"7/sec", {7, 1s}},
      {"7/secs", {7, 1s}},
      {"7/second", {7, 1s}},
      {"7/seconds", {7, 1s}},
      {"7/m", {7, 1min}},
      {"7/mins", {7, 1min}},
      {"7/minute", {7, 1min}},
      {"7/minutes", {7, 1min}},
      {"7/h", {7, 1h}},
      {"7/hour", {7, 1h}},
      {"7/hours", {7, 1h}},
      {"7/d", {7, 24h}},
      {"7/days", {7, 24h}},
      {"100 per 15 minutes", {100, 15min}},
      {"7/2d", {7, 48h}},
      // Spaces.
      {"10per5s", {10, 5s}},
      {"  10   per   5   s  ", {10, 5s}},
      {"10/ 5s", {10, 5s}},
      {"10 per second", {10, 1s}},
      {"10 pers", {10, 1s}},
      // Numbers.
      {"007/02s", {7, 2s}},
      {"1000000/day", weir::per_day(1'000'000)},
      {"1000000/s", weir::per_second(1'000'000)},
      {"9223372036854775807/s", weir::per_second(max64)},
      {"1 per 9223372036854775807us", {1, std::chrono::microseconds{max64}}},
      {"1 per 9223372036854s", {1, 9223372036854s}},
      {"1 per 106751991d", {1, 106751991 * 24h}},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT('"' << row.text << '"') {
      const auto parsed = rate::try_parse(row.text);
      BOOST_REQUIRE(parsed.has_value());
      BOOST_TEST(*parsed == row.expected);
      BOOST_TEST(rate::parse(row.text) == row.expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(invalid_texts) {
  constexpr std::string_view number = "a whole number above 0";
  constexpr std::string_view fraction = "a whole number, not a fraction";
  constexpr std::string_view separator = "\"/\" or \"per\" after the count";
  constexpr std::string_view unit = "a unit (us, ms, s, min, h or day)";
  constexpr std::string_view end = "the end of the text";
  struct {
    std::string_view text;
    int character;  // counted from 1
    std::string_view expected;
  } const table[] = {
      {"", 1, number},
      {"   ", 4, number},
      {"/s", 1, number},
      {"x", 1, number},
      {"0/s", 1, number},
      {"000/s", 1, number},
      {"-5/s", 1, number},
      {"+5/s", 1, number},
      {"0x10/s", 1, number},
      {"1.5/s", 2, fraction},
      {".5/s", 1, fraction},
      {"1./s", 2, fraction},
      {"1,000/s", 2, separator},
      {"1e6/s", 2, separator},
      {"1_000/s", 2, separator},
      {"10", 3, separator},
      {"10 s", 4, separator},
      {"10 Per s", 4, separator},
      {"10\t/s", 3, separator},
      {"10//s", 4, number},
      {"10/", 4, unit},
      {"10/ ", 5, unit},
      {"10 per", 7, unit},
      {"10/S", 4, unit},
      {"10/Day", 4, unit},
      {"10/week", 4, unit},
      {"10/mss", 4, unit},
      {"10/5", 5, unit},
      {"10/5 ", 6, unit},
      {"10/0s", 4, number},
      {"10/-1s", 4, number},
      {"10/1.5s", 5, fraction},
      {"10/.5s", 4, fraction},
      {"10/s2", 5, end},
      {"10/s/s", 5, end},
      {"10/s, 20/min", 5, end},
      {"10/5s x", 7, end},
      {"10/1h30m", 6, end},
      {"9223372036854775808/s", 1, "at most 9223372036854775807"},
      {"99999999999999999999999999/s", 1, "at most 9223372036854775807"},
      {"1 per 9223372036854775808us", 7, "at most 9223372036854775807"},
      {"1 per 9223372036855s", 7, "at most 9223372036854775807 microseconds"},
      {"1 per 106751992d", 7, "at most 9223372036854775807 microseconds"},
      {"1 per 9223372036854775807day", 7, "at most 9223372036854775807 microseconds"},
      {std::string_view{"10/s\0", 5}, 5, end},
      {std::string_view{"10\0/s", 5}, 3, separator},
      {"10/\xc2\xb5s", 4, number},
  };
  for (const auto& row : table) {
    BOOST_TEST_CONTEXT('"' << row.text << '"') {
      const auto parsed = rate::try_parse(row.text);
      BOOST_REQUIRE(parsed.has_error());
      BOOST_TEST((parsed.error() == weir::error::invalid_rate));

      const std::string what = text_of_failure(row.text);
      BOOST_TEST_CONTEXT(what) {
        const std::string where = "at character " + std::to_string(row.character) + ": expected ";
        BOOST_TEST(what.find(where) != std::string::npos);
        BOOST_TEST(what.find(row.expected) != std::string::npos);
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
      {weir::per_second(100), "100/s"},
      {weir::per_minute(60), "60/min"},
      {weir::per_hour(1), "1/h"},
      {weir::per_day(5000), "5000/day"},
      {{10, 5s}, "10 per 5s"},
      {weir::every(10ms), "1 per 10ms"},
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
  std::mt19937_64 random(seed());
  // All magnitudes alike: the low `bits` bits of a random number.
  const auto number = [&](std::int64_t most) {
    const std::uint64_t value = random() >> (1 + random() % 63);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(value), 1, most);
  };
  constexpr std::int64_t units[] = {1, 1'000, 1'000'000, 60'000'000, 3'600'000'000, 86'400'000'000};
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed()) {
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
  std::mt19937_64 random(seed());
  constexpr std::string_view pieces[] = {
      "1", "0",   "9223372036854775807", "/", "per", " ", "s", "ms", "h", "day", "us", ".",
      "-", "\xff"};
  constexpr std::string_view skeleton[] = {"7", " ", "/", " ", "90", " ", "ms", " "};
  int valid = 0;
  BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << seed()) {
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

}  // namespace

}  // namespace rate_test

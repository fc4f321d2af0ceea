// What holds whatever the headers, on random responses; and what reading costs.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "feedback_fixture.hpp"
#include "support/date_forms.hpp"
#include "support/random_source.hpp"
#include "support/sanitized.hpp"

using namespace weir::test;
using weir::header_field;
using weir::longest_feedback;
using weir::vendor_feedback;

// The thread sanitizer brings an operator new of its own, and no other may stand beside it.
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define WEIR_TEST_OWN_OPERATOR_NEW 0
#endif
#endif
#ifndef WEIR_TEST_OWN_OPERATOR_NEW
#define WEIR_TEST_OWN_OPERATOR_NEW 1
#endif

#if WEIR_TEST_OWN_OPERATOR_NEW

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc{};
}
// std::stable_sort() takes its memory in this way.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size != 0 ? size : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif

namespace {

constexpr std::array<std::string_view, 22> names = {
    "Retry-After",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "RateLimit",
    "RateLimit-Policy",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-RateLimit-Reset-After",
    "X-RateLimit-Remaining-Tokens",
    "X-RateLimit-Reset-Tokens",
    "X-Rate-Limit-Remaining",
    "X-Rate-Limit-Reset",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset",
    "X-Shopify-Shop-Api-Call-Limit",
    "Date",
    "Age",
    "Content-Type",
};

constexpr std::array<int, 8> statuses = {200, 202, 301, 403, 404, 429, 429, 503};

struct random_response {
  random_response() = default;
  random_response(const random_response& other) : status(other.status) {
    for (const auto& [name, value] : other.headers) add(name, std::string(value));
  }
  random_response& operator=(const random_response&) = delete;

  int status = 200;
  std::deque<std::string> values;  // of the headers
  std::vector<header_field> headers;

  void add(std::string_view name, std::string value) {
    headers.push_back({name, values.emplace_back(std::move(value))});
  }
  vendor_feedback read(const weir::feedback_options& options = {}) const {
    return weir::read_feedback(status, headers, at_now, options);
  }
};

std::string random_count(random_source& random) {
  if (random.one_in(3)) return "0";
  if (random.one_in(12)) return std::string(static_cast<std::size_t>(random.between(15, 40)), '9');
  std::string out = std::to_string(random.magnitude(1'000'000'000'000));
  if (random.one_in(5)) out += "." + std::to_string(random.between(0, 999'999));
  return out;
}

std::string random_value(random_source& random) {
  switch (random.between(0, 13)) {
    case 13:
      return date_in_form(static_cast<int>(random.between(0, date_forms - 1)),
                          1'776'782'282 + random.between(-5'000, 5'000));
    case 0:
      return "Tue, 21 Apr 2026 14:" + std::to_string(random.between(10, 59)) + ":02 GMT";
    case 1:
      return "2026-04-21T14:" + std::to_string(random.between(10, 59)) + ":02.5Z";
    case 2:
      return std::to_string(random.between(0, 90)) + "m" + random_count(random) + "ms";
    case 3:
      return std::to_string(1'776'782'282 + random.between(-5'000, 5'000));
    case 4:
      return std::to_string(1'776'782'282'000 + random.between(-5'000, 5'000));
    case 5:
      return random_count(random) + ", " + random_count(random);
    case 6:
      return random_count(random) + "/" + random_count(random);
    case 7:
      return "\"" + std::to_string(random.between(0, 2)) + "\";r=" + random_count(random) +
             ";q=" + random_count(random) + ";t=" + random_count(random) +
             (random.one_in(4) ? ";qu=\"content-bytes\"" : "");
    case 8:
      return "limit=" + random_count(random) + ", remaining=" + random_count(random) +
             ", reset=" + random_count(random);
    case 9:
      return random_count(random) + ", " + random_count(random) + ";w=60, " + random_count(random) +
             ";w=3600;comment=" + (random.one_in(2) ? "%\"gr%c3%bc%c3%9fe, Ina\"" : "\"Ina, Jo\"");
    case 10:
      return "\"a" + std::string(random.one_in(2) ? " , b" : ",c") +
             "\";r=" + random_count(random) + ";q=" + random_count(random) +
             ";t=" + random_count(random) + ", (1 2);x";
    case 11:
      return "Tue, 21 Apr 2026 14:" + std::to_string(random.between(10, 59)) + ":02 GMT, " +
             random_count(random);
    default:
      return random_count(random);
  }
}

/// Names and values are drawn apart: some fit, others are what a careless vendor might send.
random_response random_headers(random_source& random) {
  random_response out;
  out.status = random.pick(statuses);
  const auto count = static_cast<std::size_t>(random.between(0, 12));
  for (std::size_t i = 0; i < count; ++i) {
    std::string value = random_value(random);
    out.add(random.pick(names), std::move(value));
  }
  return out;
}

std::string text_of(const random_response& response) {
  std::string out = std::to_string(response.status);
  for (const auto& [name, value] : response.headers) {
    out.append("\n").append(name).append(": ").append(value);
  }
  return out;
}

constexpr int rounds = is_sanitized ? 4'000 : 20'000;

/// Runs `check` on many responses. The seed stands beside what fails.
template <class Check>
void on_random_responses(std::uint32_t stream, Check check) {
  random_source random{run_seed(), stream};
  for (int round = 0; round < rounds; ++round) {
    const random_response response = random_headers(random);
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed() << '\n' << text_of(response)) {
      check(response, random);
    }
  }
}

bool within_bounds(const std::optional<microseconds>& time) {
  return !time || (*time >= 0us && *time <= longest_feedback);
}

bool within_bounds(const weir::vendor_quota& quota) {
  return quota.remaining.value_or(0) >= 0 && quota.limit.value_or(0) >= 0 &&
         within_bounds(quota.reset_after);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(feedback_properties_suite)

BOOST_AUTO_TEST_CASE(nothing_is_negative_or_without_bound) {
  int blocked = 0;
  on_random_responses(1, [&](const random_response& response, random_source&) {
    for (const bool decides : {false, true}) {
      const vendor_feedback feedback = response.read({.retry_after_decides = decides});
      BOOST_TEST(within_bounds(feedback.blocked_for));
      BOOST_TEST(within_bounds(feedback.requests));
      BOOST_TEST(within_bounds(feedback.tokens));
      BOOST_TEST((feedback.source == weir::feedback_source::none) == !feedback.blocked_for);
      if (response.status == 429) BOOST_TEST(feedback.refused);
      const bool blocks = response.status == 429 || response.status == 403;
      for (const auto& quota : {feedback.requests, feedback.tokens}) {
        // Another status does not block because of each window.
        if (blocks && quota.remaining == 0 && quota.reset_after && !decides)
          BOOST_TEST((feedback.blocked_for >= quota.reset_after));
      }
      if (feedback.blocked_for) ++blocked;
    }
  });
  BOOST_TEST(blocked > rounds / 10);  // these responses do say something
}

BOOST_AUTO_TEST_CASE(the_order_of_headers_changes_nothing) {
  on_random_responses(2, [](const random_response& response, random_source& random) {
    const vendor_feedback feedback = response.read();
    random_response shuffled = response;
    std::mt19937_64 engine{static_cast<std::uint64_t>(random.between(0, 1'000'000'000))};
    std::ranges::shuffle(shuffled.headers, engine);
    BOOST_TEST(shuffled.read() == feedback, text_of(shuffled));
  });
}

BOOST_AUTO_TEST_CASE(headers_that_come_twice_change_nothing) {
  on_random_responses(3, [](const random_response& response, random_source&) {
    random_response twice = response;
    twice.headers.insert(twice.headers.end(), response.headers.begin(), response.headers.end());
    BOOST_TEST(twice.read() == response.read());
  });
}

// Proxies and HTTP libraries join equal headers. Two RateLimit fields of draft 07, joined, gave the
// least left of the one and the latest reset of the other.
BOOST_AUTO_TEST_CASE(headers_joined_by_commas_or_split_at_any_comma_change_nothing) {
  random_source random{run_seed(), 8};
  int split = 0, joined = 0;
  for (int round = 0; round < (is_sanitized ? 20'000 : 300'000); ++round) {
    const random_response response = random_headers(random);
    random_response other;
    other.status = response.status;
    for (const auto& [name, value] : response.headers) {
      const auto same = std::ranges::find(other.headers, name, &header_field::name);
      if (same != other.headers.end() && random.one_in(2)) {
        // To the last one, because the lines of one header keep their order.
        auto last = same;
        for (auto it = same; it != other.headers.end(); ++it) {
          if (it->name == name) last = it;
        }
        const std::string_view comma = random.one_in(2) ? ", " : ",";
        last->value = other.values.emplace_back(std::string(last->value) + std::string(comma) +
                                                std::string(value));
        ++joined;
        continue;
      }
      std::string_view rest = value;
      for (std::size_t at = 0; (at = rest.find(',', at)) != rest.npos;) {
        if (random.one_in(2)) {
          ++at;
          continue;
        }
        other.add(name, std::string(rest.substr(0, at)));
        rest.remove_prefix(at + 1);
        if (random.one_in(2) && rest.starts_with(' ')) rest.remove_prefix(1);
        at = 0;
        ++split;
      }
      other.add(name, std::string(rest));
    }
    if (random.one_in(2)) std::ranges::stable_sort(other.headers, {}, &header_field::name);
    if (other.read() == response.read()) continue;
    BOOST_TEST(other.read() == response.read(), "WEIR_TEST_SEED=" << run_seed() << '\n'
                                                                  << text_of(response) << "\nis\n"
                                                                  << text_of(other));
  }
  BOOST_TEST(split > 1'000);
  BOOST_TEST(joined > 1'000);
}

// Whatever else a response says: in seconds, in milliseconds, as a date.
BOOST_AUTO_TEST_CASE(a_later_retry_after_never_gives_a_shorter_pause) {
  on_random_responses(4, [](const random_response& response, random_source& random) {
    const auto with = [&](std::string_view name, const std::string& value, bool decides) {
      random_response out = response;
      out.headers.push_back({name, value});
      return out.read({.retry_after_decides = decides}).blocked_for;
    };
    // Not at once, which tells nothing of the pause; and in less than ten years, because more are
    // counted from 1970.
    const std::int64_t sooner = 1 + random.magnitude(150'000'000);
    const std::int64_t later = sooner + random.magnitude(150'000'000);
    for (const bool decides : {false, true}) {
      for (const std::string_view name : {"Retry-After", "retry-after-ms"}) {
        const auto first = with(name, std::to_string(sooner), decides);
        BOOST_TEST((first <= with(name, std::to_string(later), decides)));
        const bool counts = response.status >= 400;
        if (counts) BOOST_TEST((first >= std::min<microseconds>(longest_feedback, sooner * 1ms)));
      }
      const auto date = [](std::int64_t minute) {
        return "Tue, 21 Apr 2026 15:" + std::to_string(minute) + ":02 GMT";
      };
      const std::int64_t minute = random.between(10, 58), last = random.between(minute, 59);
      const auto moves_now = [](const header_field& h) {
        return h.name == "Date" || h.name == "Age";
      };
      if (std::ranges::any_of(response.headers, moves_now)) continue;
      BOOST_TEST(
          (with("Retry-After", date(minute), decides) <= with("Retry-After", date(last), decides)));
    }
  });
}

// What a wrong clock, ahead by twenty years at most, can do: nothing, if the response has a date.
BOOST_AUTO_TEST_CASE(with_a_date_our_own_clock_does_not_matter) {
  on_random_responses(5, [](const random_response& response, random_source& random) {
    random_response dated = response;
    dated.headers.push_back({"Date", "Tue, 21 Apr 2026 14:00:02 GMT"});
    const auto skew = std::chrono::seconds{random.between(-1'700'000'000, 600'000'000)};
    BOOST_TEST(weir::read_feedback(dated.status, dated.headers, at_now + skew) == dated.read());
  });
}

#if WEIR_TEST_OWN_OPERATOR_NEW
BOOST_AUTO_TEST_CASE(reading_allocates_nothing) {
  random_source random{run_seed(), 6};
  for (int round = 0; round < 1'000; ++round) {
    const random_response response = random_headers(random);
    const std::size_t before = allocations;
    const vendor_feedback feedback = response.read();
    const std::size_t after = allocations;
    BOOST_TEST(after == before, "WEIR_TEST_SEED=" << run_seed() << ' ' << text_of(response));
    BOOST_TEST(within_bounds(feedback.blocked_for));
  }
  BOOST_TEST(allocations > 0u);  // they are counted
}
#endif

BOOST_AUTO_TEST_CASE(long_values_and_many_headers_are_read_like_others) {
  std::string list;
  for (int i = 0; i < 5'000; ++i) list += "1,";
  std::string policies;
  for (int i = 0; i < 2'000; ++i) policies += "\"p" + std::to_string(i) + "\";q=1, ";
  const std::vector<std::pair<std::string_view, std::string>> long_ones = {
      {"Retry-After", std::string(10'000, '0') + "7"},
      {"Retry-After", list},
      {"Retry-After", list + "x"},
      {"RateLimit-Policy", policies + "\"z\";q=1"},
      {"RateLimit", std::string(10'000, '(')},
      {"X-RateLimit-Limit", std::string(10'000, '9')},
      {"X-RateLimit-Remaining", list + "2"},
      {"X-RateLimit-Reset", std::string(10'000, 'T')},
      {"Date", std::string(10'000, ' ')},
  };
  constexpr std::array<std::string_view, 6> times = {
      "Retry-After", "retry-after-ms", "X-RateLimit-Reset", "Date", "Age", "Content-Type"};
  std::vector<header_field> headers;
  for (int i = 0; i < 2'000; ++i) {
    for (const std::string_view name : times) headers.push_back({name, "soon"});
  }
  for (const auto& [name, value] : long_ones) headers.push_back({name, value});
  const vendor_feedback expected{
      .refused = true,
      .blocked_for = 7s,
      .source = weir::feedback_source::retry_after,
      .requests = {1, 9'000'000'000'000'000'000, {}, weir::feedback_source::x_ratelimit}};
  BOOST_TEST(weir::read_feedback(429, headers, at_now) == expected);
}

// Times of day far from any clock, and all bytes there are.
BOOST_AUTO_TEST_CASE(any_bytes_at_any_time) {
  random_source random{run_seed(), 7};
  for (int round = 0; round < rounds; ++round) {
    std::array<std::string, 6> values;
    std::vector<header_field> headers;
    for (std::string& value : values) {
      value = random_value(random);
      for (auto i = random.between(0, 3); i > 0; --i) {
        const auto at = static_cast<std::size_t>(
            random.between(0, static_cast<std::int64_t>(value.size())));
        value.insert(at, 1, static_cast<char>(random.between(0, 255)));
      }
      headers.push_back({random.pick(names), value});
    }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    const std::array<std::int64_t, 5> times = {-most - 1, -1, 0, most, random.magnitude(most) - 1};
    const weir::time_point now{microseconds{random.pick(times)}};
    const auto unit = static_cast<weir::reset_unit>(random.between(0, 4));
    const auto feedback = weir::read_feedback(429, headers, now, {.reset = unit});
    BOOST_TEST_CONTEXT("WEIR_TEST_SEED=" << run_seed() << " round " << round) {
      BOOST_TEST(within_bounds(feedback.blocked_for));
      BOOST_TEST(within_bounds(feedback.requests));
      BOOST_TEST(within_bounds(feedback.tokens));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

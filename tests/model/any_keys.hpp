#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "policy/kernel.hpp"
#include "support/doubles.hpp"
#include "support/random_source.hpp"
#include "support/redis_client.hpp"

/// Random kernels with a common path for several keys, and what such keys may hold.
namespace weir::model {

/// A kernel that has a part in the common path.
inline policies::kernel any_kernel(test::random_source& random) {
  const std::int64_t limit = random.magnitude(5);
  const std::chrono::microseconds window(1'000 * random.magnitude(60'000'000));
  switch (random.between(0, 5)) {
    case 0:
      return policies::compile(token_bucket{limit, every(window)});
    case 4:
      return policies::compile(token_bucket{limit, {7, 3 * window}});
    case 1:
      return policies::compile(leaky_bucket{limit, every(window)});
    case 2:
      return policies::compile(random.one_in(2)
                                   ? fixed_window{limit, window}
                                   : fixed_window{limit, window, anchor::epoch, window / 3});
    case 3:
      return policies::compile(sliding_window{limit, window});
    default:
      return policies::cool_down();
  }
}

/// A time that may be a state's.
inline std::int64_t near(test::random_source& random, std::int64_t now) {
  const std::int64_t away = random.magnitude(100'000'000'000);
  return random.one_in(2) ? now + away : now - away;
}

/// Texts that are nearly a state: of a state's length or form, numbers to Lua alone, or too large.
inline std::string any_text(test::random_source& random, const std::string& bucket) {
  const std::string digits(400, '9');
  const auto of_length = [&](char c) {
    return std::string(static_cast<std::size_t>(random.between(2, 5) * 8), c);
  };
  switch (random.between(0, 11)) {
    case 0:
      return {};
    case 1:
      return of_length('\0');
    case 2:
      return of_length('-');
    case 3:
      return of_length(random.one_in(2) ? '0' : '9');
    case 4:
      return "0x1234567890abcd";
    case 5:
      return "+" + bucket.substr(1);
    case 6:
      return random.one_in(2) ? bucket + " " : " " + bucket;
    case 7:
      return random.one_in(2) ? digits : bucket + "/" + digits;
    case 8:
      return random.one_in(2) ? "9007199254740993" : "9007199254740992/1";
    case 9:
      return std::string("weir/2 0123456789abcdef012345678").substr(0, random.one_in(2) ? 16 : 32);
    case 10:
      return random.one_in(2) ? bucket + "-000000000000001" : bucket.substr(0, 8) + of_length('.');
    default:
      return random.one_in(2) ? "inf" : "nan";
  }
}

/// A double that is no time and no count.
inline double odd_number(test::random_source& random) {
  using limits = std::numeric_limits<double>;
  const double all[] = {-0.0,  limits::infinity(),   limits::quiet_NaN(),
                        1e300, limits::denorm_min(), -1,
                        0.5,   9007199254740992};
  return all[random.between(0, std::size(all) - 1)];
}

/// Puts the same into both keys: nothing, another type, a state of any kind, or stray text.
inline void fill(test::redis_client& client, test::random_source& random, std::int64_t now,
                 const std::string& a, const std::string& b) {
  client.must("DEL", a, b);
  const auto time = static_cast<double>(near(random, now));
  const auto count = static_cast<double>(random.between(0, 4));
  const auto line = static_cast<double>(near(random, now) / policies::grid * policies::grid);
  const auto other = static_cast<double>(near(random, now));
  const std::string bucket = std::to_string(near(random, now));
  const auto set = [&](const std::string& text) {
    client.must("SET", a, text);
    client.must("SET", b, text);
  };
  switch (random.between(0, 24)) {
    case 0:
      client.must("HSET", a, "field", "1");
      client.must("HSET", b, "field", "1");
      return;
    case 1:
      return set(test::doubles({time, count, line}));
    case 2:
      return set(test::doubles({time, count, time, line, count}));  // opened ahead
    case 3:
      return set(test::doubles({time, count, count, line}));
    case 4:
      return set(test::doubles({time, count, count, other, count}));
    case 5:
      return set(bucket);
    case 6:
      return set(bucket + "/0@" + std::to_string(now) + ">" + bucket + "-0+0");
    case 7:
    case 11:
      set(bucket + std::to_string(1'000'000'000'000'000 + random.magnitude(60'000'000)));
      if (random.one_in(2)) return;
      client.must("PEXPIRE", a, 60'000);
      client.must("PEXPIRE", b, 60'000);
      return;
    case 8:
      return set(random.one_in(2) ? "1.7900000002e15" : "1789999999      x");
    case 9:
      return set(test::doubles({time + 0.5, count, line}));
    case 12:
      return set(any_text(random, bucket));
    case 13:
      return set(random.one_in(2) ? test::doubles({time, odd_number(random), line})
                                  : test::doubles({time, count, odd_number(random), line}));
    case 14:
      return set(random.one_in(2) ? test::doubles({odd_number(random), count, line})
                                  : test::doubles({time, count, count, odd_number(random)}));
    case 10:
      return set(bucket + "/" + std::to_string(random.between(0, 8)));
    default:
      return;
  }
}

}  // namespace weir::model

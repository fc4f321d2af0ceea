#pragma once

#include <chrono>
#include <iterator>
#include <limits>
#include <set>

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
  switch (random.between(0, 7)) {
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
    case 5:
      return policies::compile(sliding_log{limit, window});
    case 6:
      return policies::compile(sliding_log{limit, window, window / random.between(1, 9)});
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

/// Puts the same log into both keys. The head is of any kind, the times are near the clock's, and
/// now and then one of the log's ends holds stray bytes.
inline void fill_log(test::redis_client& client, test::random_source& random, std::int64_t now,
                     const std::string& a, const std::string& b) {
  constexpr double modulus = 4503599627370496;
  const std::int64_t reach = random.one_in(3) ? 100'000'000'000 : 1'000;
  std::set<double> times;
  for (std::int64_t n = random.between(1, 8); n > 0; --n) {
    times.insert(static_cast<double>(now - random.magnitude(reach)));
  }
  if (random.one_in(8)) times.insert(static_cast<double>(near(random, now)));
  // A stray whole number cannot be told from a total.
  const double odd = random.one_in(2) ? 0.5 : std::numeric_limits<double>::quiet_NaN();
  const double base = random.one_in(3) ? 0 : modulus - static_cast<double>(random.between(1, 9));
  const auto line = static_cast<double>(near(random, now) / policies::grid * policies::grid);
  std::vector<std::array<double, 2>> entries;
  for (double total = base; const double time : times) {
    total += static_cast<double>(random.between(1, 3));
    if (total >= modulus) total -= modulus;
    entries.push_back({time, total});
  }
  // If the log has one entry, the head's copy of its total may be outdated.
  const auto [oldest, oldest_total] = entries.front();
  const bool is_lone = entries.size() == 1;
  std::string head;
  switch (random.between(0, 7)) {
    case 0:
      head = test::doubles({0, base});
      break;
    case 1:  // a reservation ahead
      head = test::doubles({entries.back()[0] - 1, base, entries.back()[0], 0});
      break;
    case 2:
      head = random.one_in(2) ? test::doubles({0, odd})
                              : test::doubles({0, odd, oldest, oldest_total, line});
      break;
    case 3:
      head = any_text(random, "1790000000123456");
      if (head == std::string(40, '\0')) head.clear();  // it would say that the oldest is of 1970
      break;
    default:
      head = test::doubles({0, base, oldest, is_lone ? base : oldest_total, line});
  }
  if (random.one_in(16)) entries.back()[0] = odd_number(random);
  if (random.one_in(16)) entries.back()[1] = odd;
  std::vector<std::string> elements{head};
  for (const auto& [time, total] : entries) elements.push_back(test::doubles({time, total}));
  if (random.one_in(16)) elements.back() = any_text(random, "1790000000123456");
  if (random.one_in(16)) elements.resize(1);
  for (const std::string& text : elements) {
    client.must("RPUSH", a, text);
    client.must("RPUSH", b, text);
  }
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
    case 15:
    case 16:
    case 17:
    case 18:
      return fill_log(client, random, now, a, b);
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

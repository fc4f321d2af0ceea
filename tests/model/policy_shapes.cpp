#include "model/policy_shapes.hpp"

#include <algorithm>

#include "policy/sliding_window.hpp"

namespace weir::model {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
__extension__ using wide = __int128;

constexpr std::int64_t day = 86'400'000'000;

// 35 years is a window's bound; 40 days and a year have limits of their own in sliding_window.
constexpr std::int64_t windows[] = {1,         2,          7,           1'000, 999'983,  1'000'000,
                                    3'000'000, 60'000'000, 100'000'007, day,   40 * day, 365 * day};
constexpr std::int64_t longest = std::int64_t{1} << 50;
constexpr std::int64_t limits[] = {1, 2, 3, 5, 10, 100, 1'000'000, 999'983};

const rate rates[] = {per_second(1'000'000),
                      per_day(1'000'000),
                      {7, 3s},
                      per_day(999'983),
                      per_second(1),
                      per_second(3),
                      per_minute(7),
                      per_day(1),
                      {1, 1us},
                      {3, 1us},
                      {3, 7us},
                      every(10ms),
                      {1'000'003, 1s},
                      {2, 3us},
                      per_hour(11),
                      {999'983, 86'399s}};

std::int64_t random_window(test::random_source& random, std::int64_t high) {
  return random.one_in(4) ? random.magnitude(high) : std::min(high, random.pick(windows));
}

std::int64_t random_limit(test::random_source& random, std::int64_t high) {
  if (random.one_in(16)) return unlimited;
  return random.one_in(3) ? random.magnitude(high) : std::min(high, random.pick(limits));
}

struct meter_shape {
  weir::rate rate;
  std::int64_t size;
};

meter_shape random_meter(test::random_source& random) {
  weir::rate r = random.pick(rates);
  if (random.one_in(4)) r = {random.magnitude(max_units), microseconds(random.magnitude(longest))};
  // size * period / count has to stay below 2^51 us.
  const wide most = ((wide{1} << 51) * r.count - 1) / r.period.count();
  if (most < 1) return random_meter(random);
  const auto high = static_cast<std::int64_t>(std::min<wide>(most, max_units));
  const std::int64_t size = random.one_in(3)   ? random.magnitude(high)
                            : random.one_in(8) ? high
                                               : std::min(high, random.pick(limits));
  return {r, size};
}

}  // namespace

template <>
fixed_window random_policy<fixed_window>(test::random_source& random) {
  fixed_window p{.limit = random_limit(random, max_units),
                 .window = microseconds(random_window(random, longest))};
  if (random.one_in(2)) {
    p.anchor = anchor::epoch;
    p.offset = microseconds(random.one_in(2) ? 0 : random.between(0, p.window.count() - 1));
  }
  p.count_refused = random.one_in(3);
  return p;
}

template <>
sliding_log random_policy<sliding_log>(test::random_source& random) {
  sliding_log p{.limit = random_limit(random, max_units),
                .window = microseconds(random_window(random, longest))};
  const std::int64_t window = p.window.count();
  switch (random.between(0, 5)) {
    case 0:
      p.resolution = p.window;
      break;
    case 1:
      p.resolution = microseconds(std::max<std::int64_t>(1, window / 10));
      break;
    case 2:
      p.resolution = microseconds(random.magnitude(window));
      break;
    default:
      break;
  }
  p.count_refused = random.one_in(3);
  if (p.count_refused && p.limit != unlimited) p.limit = std::min(p.limit, std::int64_t{1} << 50);
  return p;
}

template <>
sliding_window random_policy<sliding_window>(test::random_source& random) {
  const std::int64_t window = random_window(random, longest / 4);
  const std::int64_t most = policies::sliding_window::most(window);
  return {.limit = random.one_in(8) ? most : random_limit(random, most),
          .window = microseconds(window),
          .count_refused = random.one_in(3)};
}

template <>
token_bucket random_policy<token_bucket>(test::random_source& random) {
  const meter_shape shape = random_meter(random);
  return {.capacity = shape.size, .refill = shape.rate};
}

template <>
gcra random_policy<gcra>(test::random_source& random) {
  const meter_shape shape = random_meter(random);
  return {.rate = shape.rate, .burst = shape.size};
}

template <>
leaky_bucket random_policy<leaky_bucket>(test::random_source& random) {
  const meter_shape shape = random_meter(random);
  return {.capacity = shape.size, .leak = shape.rate};
}

policy random_policy_that_combines(test::random_source& random) {
  policy p;
  switch (random.between(0, 5)) {
    case 0:
      p = random_policy<fixed_window>(random);
      break;
    case 1:
      p = random_policy<sliding_log>(random);
      break;
    case 2:
      p = random_policy<sliding_window>(random);
      break;
    case 3:
      p = random_policy<token_bucket>(random);
      break;
    case 4:
      p = random_policy<gcra>(random);
      break;
    default:
      p = random_policy<leaky_bucket>(random);
      break;
  }
  std::visit(
      [](auto& one) {
        if constexpr (requires { one.count_refused; }) one.count_refused = false;
      },
      p);
  return p;
}

std::int64_t span_of(const policy& p) {
  struct visitor {
    std::int64_t operator()(const fixed_window& p) const { return p.window.count(); }
    std::int64_t operator()(const sliding_log& p) const { return p.window.count(); }
    std::int64_t operator()(const sliding_window& p) const { return p.window.count(); }
    std::int64_t operator()(const token_bucket& p) const { return filling(p.capacity, p.refill); }
    std::int64_t operator()(const gcra& p) const { return filling(p.burst, p.rate); }
    std::int64_t operator()(const leaky_bucket& p) const { return filling(p.capacity, p.leak); }
    static std::int64_t filling(std::int64_t size, const rate& r) {
      return static_cast<std::int64_t>(wide{size} * r.period.count() / r.count) + 1;
    }
  };
  return std::visit(visitor{}, p);
}

std::int64_t most_of(const policy& p) {
  const auto* windows = std::get_if<sliding_window>(&p);
  return windows ? policies::sliding_window::most(windows->window.count()) : max_units;
}

}  // namespace weir::model

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace weir::test {

/// The seed of this test run: WEIR_TEST_SEED if set, else a new one. Tests print it on failure.
inline std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    if (const char* given = std::getenv("WEIR_TEST_SEED")) return std::stoull(given);
    std::random_device device;
    return static_cast<unsigned long long>(device()) << 32 | device();
  }();
  return seed;
}

/// The largest number of that magnitude: of so many binary digits behind the first. Up to 62.
constexpr std::int64_t end_of_magnitude(int digits) {
  const std::int64_t first = std::int64_t{1} << digits;
  return first + (first - 1);  // twice the first may not exist
}

class random_source {
 public:
  /// `stream` tells the users of one seed apart.
  explicit random_source(std::uint64_t seed, std::uint32_t stream = 0) {
    std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                        stream};
    engine_.seed(mixed);
  }

  /// Evenly from [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }

  /// From [1, high], each order of magnitude as likely as the next.
  std::int64_t magnitude(std::int64_t high) {
    int bits = 0;
    while (bits < 62 && high >> (bits + 1) > 0) ++bits;
    const int chosen = static_cast<int>(between(0, bits));
    return between(std::int64_t{1} << chosen, std::min(high, end_of_magnitude(chosen)));
  }

  bool one_in(std::int64_t n) { return between(1, n) == 1; }

  template <class Container>
  const auto& pick(const Container& from) {
    return from[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(std::size(from)) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace weir::test

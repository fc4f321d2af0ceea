#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace weir::detail {

/// Pauses between attempts to connect: uniformly random between zero and a ceiling that doubles
/// ("full jitter", M. Brooker, AWS Architecture Blog, 2015), so that clients that lost a server
/// together do not return together.
class backoff {
 public:
  using duration = std::chrono::microseconds;

  backoff(duration min, duration max, std::uint32_t seed)
      : min_(std::max(min, duration{1})),
        max_(std::max(max, min_)),
        ceiling_(min_),
        random_(seed) {}

  duration next() {
    const duration ceiling = ceiling_;
    ceiling_ = ceiling_ > max_ / 2 ? max_ : ceiling_ * 2;
    return duration(std::uniform_int_distribution<duration::rep>(0, ceiling.count())(random_));
  }

  /// Call it when a server serves again.
  void reset() noexcept { ceiling_ = min_; }

 private:
  duration min_;
  duration max_;
  duration ceiling_;
  std::minstd_rand random_;
};

}  // namespace weir::detail

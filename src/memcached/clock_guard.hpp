#pragma once

#include <chrono>
#include <cstdint>

#include "policy/arithmetic.hpp"

namespace weir::memcached {

/// Compares the caller's clock with a server's. The server reports whole seconds: they may be ahead
/// of its real time by less than a second, and behind by less than three (memcached counts from a
/// truncated start, once a second).
class clock_guard {
 public:
  using time = std::chrono::steady_clock::time_point;

  /// `most`: the largest difference; 0: any.
  explicit clock_guard(std::chrono::microseconds most) noexcept : most_(most.count()) {}

  /// How far the clocks of two clients may differ if neither is found to differ from the server's
  /// by more than `most`; 0 if they are not compared.
  static policies::span most_between_clients(std::chrono::microseconds most) noexcept {
    constexpr std::chrono::seconds unnoticed{4};
    return most.count() > 0 ? 2 * (most + unnoticed).count() : 0;
  }

  bool is_needed() const noexcept { return most_ > 0; }

  /// Takes the server's time from a reply that came at `clock` by the caller's clock, to a request
  /// sent `waited` before. True if both clocks may be right.
  bool compare(std::int64_t seconds, policies::instant clock, std::chrono::microseconds waited,
               time now) noexcept {
    constexpr policies::span second = 1'000'000;
    clock_ = clock;
    at_ = now;
    server_ahead_ = seconds * second - (clock - waited.count());
    const policies::instant low = (seconds - 1) * second - most_;
    const policies::instant high = (seconds + 3) * second + most_;
    return !is_needed() || (clock >= low && clock - waited.count() <= high);
  }

  /// False if the caller's clock has stepped since the last compare(): both clocks must be compared
  /// again.
  bool is_steady(policies::instant clock, time now) const noexcept {
    const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(now - at_).count();
    const policies::span stepped = clock - clock_ - passed;
    return !is_needed() || (stepped <= most_ && stepped >= -most_);
  }

  /// The most by which the server's reported time was ahead at the last compare().
  policies::span server_ahead() const noexcept { return server_ahead_; }

 private:
  std::int64_t most_;
  policies::span server_ahead_ = 0;
  policies::instant clock_ = 0;  // of the last compare()
  time at_{};
};

}  // namespace weir::memcached

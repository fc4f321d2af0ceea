#pragma once

#include <time.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.hpp"
#include "policy/arithmetic.hpp"
#include "weir/local_limiter.hpp"

namespace weir::detail {

/// Reads the clock of a limiter without a store.
class clock_reader {
 public:
  explicit clock_reader(local_clock clock) noexcept : is_coarse_(clock == local_clock::coarse) {}
  explicit clock_reader(std::function<time_point()> clock) noexcept : clock_(std::move(clock)) {}

  policies::instant now() const { return is_coarse_ ? last_tick() : read_clock(clock_); }

 private:
  static policies::instant last_tick() noexcept {
    timespec t{};
    if (::clock_gettime(CLOCK_REALTIME_COARSE, &t) != 0) return read_clock({});
    return std::clamp<policies::instant>(policies::instant{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000,
                                         1, policies::max_exact);
  }

  std::function<time_point()> clock_;
  bool is_coarse_ = false;
};

}  // namespace weir::detail

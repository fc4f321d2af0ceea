#pragma once

#include <time.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "check/clock.hpp"
#include "weir/local_limiter.hpp"

namespace weir::detail {

/// Reads the clock of a limiter without a store.
class clock_reader {
 public:
  explicit clock_reader(local_clock clock) noexcept : is_coarse_(clock == local_clock::coarse) {}
  explicit clock_reader(std::function<time_point()> clock) noexcept : clock_(std::move(clock)) {}

  /// At most the largest time that a state may hold, in the year 2255.
  policies::instant now() const {
    return std::min(is_coarse_ ? last_tick() : read_clock(clock_), policies::max_exact);
  }

 private:
  static policies::instant last_tick() noexcept {
    timespec t{};
    if (::clock_gettime(CLOCK_REALTIME_COARSE, &t) != 0) return read_clock({});
    return std::max<policies::instant>(0,
                                       policies::instant{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000);
  }

  std::function<time_point()> clock_;
  bool is_coarse_ = false;
};

}  // namespace weir::detail

#pragma once

#include <algorithm>
#include <chrono>

#include "base/jitter.hpp"
#include "weir/decision.hpp"
#include "weir/detail/check.hpp"

namespace weir::waiting {

/// Two answers may put the end of one cool-down this far apart, because each took its own time.
inline constexpr std::chrono::microseconds same_end = std::chrono::milliseconds{100};

/// What is left of a `max_wait` that ends at `latest`, rounded down by at most 1/64 of max_wait, so
/// that checks started together are equal and coalesce.
inline std::chrono::microseconds max_wait_left(std::chrono::microseconds max_wait,
                                               detail::check::steady_time latest,
                                               detail::check::steady_time now) {
  using std::chrono::microseconds;
  const auto left = std::chrono::floor<microseconds>(latest - now);
  if (left >= max_wait) return max_wait;
  const microseconds step = std::max(microseconds{1}, max_wait / 64);
  return std::max(microseconds{0}, left - left % step);
}

/// Corrects retry_after in the refusal of a check that carried less than the call's max_wait, by
/// `less`: the caller's next call carries all of it. A failure policy's retry_after does not depend
/// on max_wait.
inline decision with_whole_max_wait(decision d, std::chrono::microseconds less) {
  if (d.source == source::fallback) return d;
  d.retry_after = std::max(std::chrono::microseconds{1}, d.retry_after - less);
  return d;
}

/// Turns a reservation's answer `d` into the refusal, `later` than the answer, of a caller whose
/// max_wait ends before a cool-down, which lasts `left` longer.
inline void refuse_in_cool_down(decision& d, std::chrono::microseconds later,
                                std::chrono::microseconds left,
                                std::chrono::microseconds max_wait) {
  d.decided_at += later;
  d.reset_after = std::max(d.reset_after - later, left);
  d.allowed = false;
  d.cooling_down = true;
  d.remaining = 0;
  d.delay = {};
  d.retry_after = std::max(std::chrono::microseconds{1}, left - max_wait);
  d.retry_after += detail::jitter(d.retry_after);
}

}  // namespace weir::waiting

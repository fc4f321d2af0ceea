#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace weir::net {

/// Leaves a store alone that fails again and again (M. Nygard, Release It!, 2007): after `failures`
/// in a row, in which it had `patience` to answer, the circuit opens and nothing is let through;
/// then one probe per `pause`. A success closes it.
///
/// Without the patience, a burst of calls with a deadline shorter than the way to the server and
/// back would shut out all.
class circuit_breaker {
 public:
  using time = std::chrono::steady_clock::time_point;

  /// 0 failures: never opens.
  circuit_breaker(std::size_t failures, std::chrono::microseconds patience,
                  std::chrono::milliseconds pause)
      : threshold_(failures), patience_(patience), pause_(pause) {}

  /// Whether a call may go to the store now.
  bool lets_through(time now) noexcept {
    if (!open_) return true;
    if (now < next_probe_) return false;
    next_probe_ = now + pause_;
    return true;
  }

  bool is_open() const noexcept { return open_; }

  void succeeded() noexcept {
    open_ = false;
    in_a_row_ = 0;
  }

  /// A call that was made at `since` has got no answer.
  void failed(time since, time now) noexcept {
    if (open_ || threshold_ == 0) return;
    silent_since_ = in_a_row_ == 0 ? since : std::min(silent_since_, since);
    ++in_a_row_;
    if (in_a_row_ < threshold_ || now - silent_since_ < patience_) return;
    open_ = true;
    next_probe_ = now + pause_;
  }

 private:
  std::size_t threshold_;
  std::chrono::microseconds patience_;
  std::chrono::milliseconds pause_;
  std::size_t in_a_row_ = 0;
  time silent_since_{};  // when the first of these was made
  bool open_ = false;
  time next_probe_{};
};

}  // namespace weir::net

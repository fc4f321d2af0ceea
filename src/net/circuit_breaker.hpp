#pragma once

#include <chrono>
#include <cstddef>

namespace weir::net {

/// Leaves a store alone that fails again and again (M. Nygard, Release It!, 2007): after `failures` in a row the circuit
/// opens and nothing is let through; then one probe per `pause`. A success closes it.
class circuit_breaker {
 public:
  using time = std::chrono::steady_clock::time_point;

  /// 0 failures: never opens.
  circuit_breaker(std::size_t failures, std::chrono::milliseconds pause)
      : threshold_(failures), pause_(pause) {}

  /// Whether a call may go to the store now.
  bool lets_through(time now) noexcept {
    if (!open_) return true;
    if (now < next_probe_) return false;
    next_probe_ = now + pause_;
    return true;
  }

  void succeeded() noexcept {
    open_ = false;
    in_a_row_ = 0;
  }

  void failed(time now) noexcept {
    if (open_ || threshold_ == 0 || ++in_a_row_ < threshold_) return;
    open_ = true;
    next_probe_ = now + pause_;
  }

  bool is_open() const noexcept { return open_; }

 private:
  std::size_t threshold_;
  std::chrono::milliseconds pause_;
  std::size_t in_a_row_ = 0;
  bool open_ = false;
  time next_probe_{};
};

}  // namespace weir::net

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace weir::detail {

/// A circuit breaker (M. Nygard, Release It!, 2007). The circuit opens after a call that got no
/// answer for `timeout`, or after `failures` shorter ones in a row, the first of them at least
/// `timeout` old: only one call per `pause` is let through. A success closes it.
///
/// Without the condition on `timeout`, a burst of calls with deadlines shorter than a round trip
/// would open the circuit for all calls.
class circuit_breaker {
 public:
  using time = std::chrono::steady_clock::time_point;

  /// With 0 failures it never opens.
  circuit_breaker(std::size_t failures, std::chrono::microseconds timeout,
                  std::chrono::microseconds pause)
      : threshold_(failures), timeout_(timeout), pause_(pause) {}

  /// True if a call may go to the store now.
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

  /// Notes a new connection. An open circuit stays open, because a server that greets may still
  /// answer no call, but the next call is let through at once.
  void reconnected() noexcept {
    in_a_row_ = 0;
    next_probe_ = {};
  }

  /// Notes that a call made at `since` got no answer.
  void failed(time since, time now) noexcept {
    if (open_ || threshold_ == 0) return;
    silent_since_ = in_a_row_ == 0 ? since : std::min(silent_since_, since);
    ++in_a_row_;
    const bool is_silent = now - since >= timeout_;
    if (!is_silent && (in_a_row_ < threshold_ || now - silent_since_ < timeout_)) return;
    open_ = true;
    next_probe_ = now + pause_;
  }

 private:
  std::size_t threshold_;
  std::chrono::microseconds timeout_;
  std::chrono::microseconds pause_;
  std::size_t in_a_row_ = 0;
  time silent_since_{};  // when the first of these calls was made
  bool open_ = false;
  time next_probe_{};
};

}  // namespace weir::detail

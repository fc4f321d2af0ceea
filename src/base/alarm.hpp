#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "weir/detail/check.hpp"

namespace weir::detail {

/// One timer for an agenda. The owner's mutex guards all calls.
class alarm {
 public:
  using time = check::steady_time;

  /// Makes the timer, if there is none. An empty executor stops the alarm: the context is gone.
  ///
  /// First calls add(), which registers the owner with the object that calls stop(); if add()
  /// returns false, the alarm is stopped. add() may throw: an owner that is not registered must
  /// have no timer, because nothing would destroy the timer before its context.
  template <class Add>
  void start(const boost::asio::any_io_executor& executor, Add&& add) {
    if (!executor) stop();
    if (is_stopped_ || timer_) return;
    if (!add()) return stop();
    timer_.emplace(executor);
  }

  /// Calls `ring` at `when`, or at the time set before if that is earlier; time::max(): never.
  /// `ring` keeps the owner alive, and calls rang() before it sets the alarm again.
  template <class Ring>
  void set(time when, Ring ring) {
    if (!timer_ || when == set_to_ || (when > set_to_ && when != time::max())) return;
    set_to_ = time::max();  // async_wait() may throw: then a later call sets the timer
    timer_->expires_at(when);
    // A needless timer would keep run() from returning.
    if (when == time::max()) return;
    timer_->async_wait([ring](error_code ec) {
      if (!ec) ring();
    });
    set_to_ = when;
  }
  void rang() noexcept { set_to_ = time::max(); }

  /// Destroys the timer for good: the store closes, or the context is being destroyed.
  void stop() noexcept {
    is_stopped_ = true;
    timer_.reset();
  }
  bool is_started() const noexcept { return timer_.has_value(); }
  bool is_stopped() const noexcept { return is_stopped_; }

 private:
  std::optional<boost::asio::steady_timer> timer_;
  time set_to_ = time::max();
  bool is_stopped_ = false;
};

}  // namespace weir::detail

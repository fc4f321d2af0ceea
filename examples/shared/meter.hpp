#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>

namespace examples {

// How vendors count: without weir, and strictly. earliest() returns the first time, not before
// `now`, at which a call is admitted; take() notes an admitted call. `now` never runs backward.

using vendor_clock = std::chrono::steady_clock;
using vendor_time = vendor_clock::time_point;

/// At most `limit` in any `window`, however it is placed: a call made at t counts while now - t <
/// window.
class window_meter {
 public:
  window_meter(std::size_t limit, vendor_clock::duration window) : limit_(limit), window_(window) {}

  vendor_time earliest(vendor_time now) {
    forget(now);
    return calls_.size() < limit_ ? now : calls_[calls_.size() - limit_] + window_;
  }
  void take(vendor_time now) { calls_.push_back(now); }

  std::size_t left(vendor_time now) {
    forget(now);
    return limit_ - std::min(limit_, calls_.size());
  }

 private:
  void forget(vendor_time now) {
    while (!calls_.empty() && now - calls_.front() >= window_) calls_.pop_front();
  }

  const std::size_t limit_;
  const vendor_clock::duration window_;
  std::deque<vendor_time> calls_;
};

/// One call every `interval`, and unused calls are saved up to `capacity`: a bucket of so many
/// tokens, full at the beginning.
class bucket_meter {
 public:
  bucket_meter(std::size_t capacity, vendor_clock::duration interval)
      : capacity_(capacity), interval_(interval) {}

  vendor_time earliest(vendor_time now) const {
    return std::max(now, full_at_ - interval_ * (static_cast<vendor_clock::rep>(capacity_) - 1));
  }
  void take(vendor_time now) { full_at_ = std::max(full_at_, now) + interval_; }

  std::size_t left(vendor_time now) const {
    const auto missing = std::max(full_at_ - now, vendor_clock::duration::zero());
    return capacity_ -
           static_cast<std::size_t>((missing + interval_ - vendor_clock::duration{1}) / interval_);
  }

 private:
  const std::size_t capacity_;
  const vendor_clock::duration interval_;
  vendor_time full_at_{};
};

}  // namespace examples

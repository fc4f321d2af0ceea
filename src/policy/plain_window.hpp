#pragma once

#include <optional>

#include "policy/fixed_window.hpp"

namespace weir::policies {

/// The common path of fixed_window: states that are a begin and a count, and nothing else (no
/// reservation ahead), where a refused request does not count.
class plain_window {
 public:
  static std::optional<plain_window> of(const fixed_window& k) noexcept {
    if (k.counts_refused()) return {};
    return plain_window(k);
  }

  /// Whether a request passes. `start` and `count`: the state before, and then after it; a count of
  /// 0: there is no window. 1 <= cost <= limit.
  bool record(instant& start, units& count, instant now, units cost) const noexcept {
    if (count > 0) {
      // A window far ahead was not written by this clock: it begins anew.
      if (start - now > window_) start = begin_of_window(now);
      // A clock behind the state is read as the state's own time.
      if (now < start + window_) {
        if (count + cost > limit_) return false;
        count += cost;
        return true;
      }
    }
    start = begin_of_window(now);
    count = cost;
    return true;
  }

 private:
  explicit plain_window(const fixed_window& k) noexcept
      : window_(k.window()), limit_(k.limit()), offset_(k.offset()) {}

  instant begin_of_window(instant at) const noexcept {
    if (!offset_) return at;
    // Never negative: a window's offset is less than its length.
    return at - (at - *offset_ + window_) % window_;
  }

  span window_;
  units limit_;
  std::optional<span> offset_;
};

}  // namespace weir::policies

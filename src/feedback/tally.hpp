#pragma once

#include <optional>
#include <type_traits>

#include "weir/feedback.hpp"

namespace weir::feedback {

/// The longest of several times to wait. Among equal times, the source that is first in the enum
/// counts, so that the order of headers does not matter.
class longest_wait {
 public:
  void add(std::chrono::microseconds time, feedback_source source) noexcept {
    if (time_ && (time < *time_ || (time == *time_ && source >= source_))) return;
    time_ = time;
    source_ = source;
  }

  std::optional<std::chrono::microseconds> time() const noexcept { return time_; }
  feedback_source source() const noexcept { return source_; }

 private:
  std::optional<std::chrono::microseconds> time_;
  feedback_source source_ = feedback_source::none;
};

/// The window with the least left among several of one kind. Its missing fields come from windows
/// that do not state their remaining units.
class quota_tally {
 public:
  /// `blocks`: nothing more goes until the window's reset if nothing is left.
  void add(const vendor_quota& window, bool blocks = true) noexcept;
  vendor_quota result() const noexcept;

  /// The longest wait that a window with nothing left asks for.
  longest_wait empty_for() const noexcept;

 private:
  vendor_quota tightest_;
  vendor_quota partial_;
  longest_wait empty_for_;
  bool tightest_blocks_ = true;
};

/// The lower of two values; if one is missing, the other.
template <class T>
void keep_lowest(std::optional<T>& kept,
                 const std::type_identity_t<std::optional<T>>& other) noexcept {
  if (other && (!kept || *other < *kept)) kept = other;
}

template <class T>
void keep_highest(std::optional<T>& kept,
                  const std::type_identity_t<std::optional<T>>& other) noexcept {
  if (other && (!kept || *other > *kept)) kept = other;
}

}  // namespace weir::feedback

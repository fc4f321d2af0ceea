#pragma once

#include <optional>
#include <type_traits>

#include "weir/feedback.hpp"

namespace weir::detail {

/// Of several times to wait, the longest. Of equal ones, the source that comes first in the enum,
/// so that the order of headers never shows.
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

/// Of several windows of one kind, the one with the least left. What it does not say is taken from
/// those that say nothing of what is left.
class quota_tally {
 public:
  void add(const vendor_quota& window) noexcept;
  vendor_quota result() const noexcept;

  /// How long the windows with nothing left ask for.
  const longest_wait& empty_for() const noexcept { return empty_for_; }

 private:
  vendor_quota tightest_;
  vendor_quota partial_;
  longest_wait empty_for_;
};

/// The lower of two where both exist, else the one that does.
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

}  // namespace weir::detail

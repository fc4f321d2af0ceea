#pragma once

#include <optional>
#include <string_view>

#include "feedback/header_lines.hpp"
#include "weir/feedback.hpp"

namespace weir::feedback {

/// Reads the times in headers as durations from the response: never negative, at most
/// longest_feedback, rounded up. The longest of a list counts. Elements that cannot be read count
/// as absent.
class header_times {
 public:
  explicit header_times(time_point now) noexcept;

  /// Notes a Date header. The earliest of several counts, because it gives the longest waits.
  void date(const header_lines& lines) noexcept;

  /// Notes an Age header: the time that the response was in a cache.
  void age(const header_lines& lines) noexcept;
  bool cached() const noexcept { return age_.count() > 0; }

  /// Call these after all dates and ages.
  std::optional<std::chrono::microseconds> retry_seconds(const header_lines& lines) const noexcept;
  std::optional<std::chrono::microseconds> retry_milliseconds(
      const header_lines& lines) const noexcept;
  std::optional<std::chrono::microseconds> reset(const header_lines& lines,
                                                 reset_unit unit) const noexcept;

 private:
  time_point base() const noexcept;
  std::chrono::microseconds until(time_point at) const noexcept;
  std::optional<std::chrono::microseconds> number(std::string_view value,
                                                  reset_unit unit) const noexcept;
  std::optional<std::chrono::microseconds> one_reset(std::string_view value,
                                                     reset_unit unit) const noexcept;

  time_point now_;
  std::optional<time_point> date_;
  std::chrono::microseconds age_{0};
};

}  // namespace weir::feedback

#pragma once

#include <optional>

#include "policy/meter.hpp"

namespace weir::policies {

/// The common path of meter: states that are a TAT and nothing else (no reservation ahead, nothing
/// given back), of a rate whose unit is a whole number of microseconds. meter_record.lua is the
/// same in Redis.
class plain_meter {
 public:
  /// Nothing if the rate's unit is no whole number of microseconds.
  static std::optional<plain_meter> of(const meter& k) noexcept {
    if (!k.has_whole_units()) return {};
    return plain_meter(k.time_of_one(), k.limit());
  }

  /// Whether a request passes. `tat`: the state before, and then after it. 1 <= cost <= limit.
  bool record(instant& tat, instant now, units cost) const noexcept {
    // A clock behind the state is read as the state's own time.
    const instant passed = tat - burst_;
    instant at = now;
    if (passed > now) {
      if (passed - now > burst_) {  // not written by this clock: the bucket is full from now on
        tat = now + burst_;
        return false;
      }
      at = passed;
    }
    const instant next = (tat > at ? tat : at) + cost * unit_;
    if (next > at + burst_) return false;
    tat = next;
    return true;
  }

 private:
  plain_meter(span unit, units burst) noexcept : unit_(unit), burst_(unit * burst) {}

  span unit_;
  span burst_;  // the time of all units
};

}  // namespace weir::policies

#pragma once

#include <cstdint>
#include <memory>

#include "weir/policy.hpp"

namespace weir::model {

/// One subject under one policy, as a reader of docs/design.md would write it down: slow, with no
/// cleverness, and knowing nothing of src/policy. What the real kernels say is compared with this.
class reference {
 public:
  virtual ~reference() = default;

  /// `now` in microseconds since the epoch.
  virtual decision record(std::int64_t now, std::int64_t cost) = 0;

  /// The verdict that record would give, with the figures of the state as it stands.
  virtual decision fetch(std::int64_t now, std::int64_t cost) const = 0;

  /// The request has a reservation for that time, which has been rounded up: a bucket counts it at
  /// the earliest exact time that rounds up to it, so that it takes no rounding for idle time.
  virtual void reserve(std::int64_t turn, std::int64_t cost) { record(turn, cost); }

  /// The request just recorded goes out at `start`: another policy delays it until then. What comes
  /// behind it in a queue waits for its end.
  virtual void delay_until(std::int64_t /*start*/, std::int64_t /*cost*/, decision& /*said*/) {}
};

/// `most` is where counters stop.
std::unique_ptr<reference> reference_of(const fixed_window& p, std::int64_t most);
std::unique_ptr<reference> reference_of(const sliding_log& p, std::int64_t most);
std::unique_ptr<reference> reference_of(const sliding_window& p, std::int64_t most);
std::unique_ptr<reference> reference_of(const token_bucket& p, std::int64_t most);
std::unique_ptr<reference> reference_of(const gcra& p, std::int64_t most);
std::unique_ptr<reference> reference_of(const leaky_bucket& p, std::int64_t most);

inline std::unique_ptr<reference> make_reference(const policy& p, std::int64_t most = max_units) {
  return std::visit([most](const auto& one) { return reference_of(one, most); }, p);
}

}  // namespace weir::model

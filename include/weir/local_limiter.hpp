#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weir/decision.hpp"
#include "weir/policy.hpp"

namespace weir {

/// Applies one policy (or several tiers) in one process, without a store, subjects or coroutines:
///
///     weir::local_limiter limiter{
///         weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)}};
///     if (limiter.allowed()) send();
///
/// **Errors.** The constructor throws boost::system::system_error with `invalid_policy`. allowed(),
/// record() and fetch() throw it with `invalid_cost` or `cost_exceeds_limit`.
///
/// **Thread safety.** Any thread may call any function; each call takes one short lock.
template <class Policy>
class local_limiter {
 public:
  /// `clock`: the system's clock if not given. It may step backward.
  explicit local_limiter(const Policy& policy, std::function<time_point()> clock = {});
  ~local_limiter();
  local_limiter(local_limiter&&) noexcept;
  local_limiter& operator=(local_limiter&&) noexcept;

  /// Counts `cost` units if they fit, and returns whether they did. `cost`: 1 to max_units.
  bool allowed(std::int64_t cost = 1) { return record(cost).allowed; }

  /// As allowed(), but returns the whole decision.
  decision record(std::int64_t cost = 1);

  /// Returns what record() would return now, and counts nothing.
  decision fetch(std::int64_t cost = 1) const;

  /// Forgets everything that was counted.
  void reset();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

extern template class local_limiter<fixed_window>;
extern template class local_limiter<sliding_log>;
extern template class local_limiter<sliding_window>;
extern template class local_limiter<token_bucket>;
extern template class local_limiter<gcra>;
extern template class local_limiter<leaky_bucket>;
extern template class local_limiter<policy>;
extern template class local_limiter<tiers>;

}  // namespace weir

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weir/decision.hpp"
#include "weir/policy.hpp"

namespace weir {

/// One policy (or tiers of several) for one process, without a store, subjects or coroutines:
///
///     weir::local_limiter limiter{
///         weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)}};
///     if (limiter.allowed()) send();
///
/// Thread safety: every function may be called from any thread; one short lock per call.
///
/// Errors: the constructor throws boost::system::system_error with error::invalid_policy; the
/// checks throw it with error::invalid_cost or error::cost_exceeds_limit.
template <class Policy>
class local_limiter {
 public:
  /// `clock`: the system's unless given. May step backward.
  explicit local_limiter(const Policy& policy, std::function<time_point()> clock = {});
  ~local_limiter();
  local_limiter(local_limiter&&) noexcept;
  local_limiter& operator=(local_limiter&&) noexcept;

  /// Counts `cost` units if they fit, and tells whether they did.
  bool allowed(std::int64_t cost = 1) { return record(cost).allowed; }

  /// The same, with the whole decision.
  decision record(std::int64_t cost = 1);

  /// What record would answer, changing nothing; see limiter::fetch.
  decision fetch(std::int64_t cost = 1) const;

  /// As if nothing had been counted yet.
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

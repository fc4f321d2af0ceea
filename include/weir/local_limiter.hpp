#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/policy.hpp"

namespace weir {

/// The clock of a limiter without a store.
enum class local_clock : std::uint8_t {
  precise,  ///< the system's clock; reading it takes most of a call's time
  coarse,   ///< the system's clock as of its last tick: some milliseconds late, but read faster
};

/// Applies one policy (or several tiers) in one process, without a store, subjects or coroutines:
///
///     weir::local_limiter limiter{
///         weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)}};
///     if (limiter.allowed()) send();
///
/// **Errors.** The constructor throws boost::system::system_error with `invalid_policy`. allowed(),
/// record() and fetch() throw it with `invalid_cost` or `cost_exceeds_limit`.
///
/// **Thread safety.** Any thread may call any function. The state of some policies is one atomic
/// word, which calls change without a lock: buckets whose time of one unit is a whole number of
/// microseconds (100 a second, but not 3 a second), and fixed windows without count_refused whose
/// begin and count fit (a `limit` up to 2,047; with anchor::epoch more, such as 6 * 10^10 for
/// windows of a minute). All others take one short lock in each call.
///
/// **Object lifetime.** A moved-from object may only be destroyed or assigned to.
template <class Policy>
class WEIR_EXPORT local_limiter {
  static_assert(detail::is_policy<Policy>, "weir: this type is neither a policy nor weir::tiers");

 public:
  explicit local_limiter(const Policy& rule, local_clock clock = local_clock::precise);
  /// `clock`: read in each call, by the calling thread, and again if another thread was faster;
  /// sometimes under a lock, so it must not use this limiter. It may step backward.
  local_limiter(const Policy& rule, std::function<time_point()> clock);
  ~local_limiter();
  local_limiter(local_limiter&&) noexcept;
  local_limiter& operator=(local_limiter&&) noexcept;

  /// Counts `cost` units if they fit, and returns whether they did. `cost`: 1 to max_units.
  [[nodiscard]] bool allowed(std::int64_t cost = 1);

  /// As allowed(), but returns the whole decision, which takes longer.
  decision record(std::int64_t cost = 1);

  /// Returns what record() would return now, and counts nothing.
  decision fetch(std::int64_t cost = 1) const;

  /// Forgets everything that was counted.
  void reset();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

extern template class WEIR_EXPORT local_limiter<fixed_window>;
extern template class WEIR_EXPORT local_limiter<sliding_log>;
extern template class WEIR_EXPORT local_limiter<sliding_window>;
extern template class WEIR_EXPORT local_limiter<token_bucket>;
extern template class WEIR_EXPORT local_limiter<gcra>;
extern template class WEIR_EXPORT local_limiter<leaky_bucket>;
extern template class WEIR_EXPORT local_limiter<policy>;
extern template class WEIR_EXPORT local_limiter<tiers>;

}  // namespace weir

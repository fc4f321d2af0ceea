#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "weir/detail/export.hpp"
#include "weir/local_limiter.hpp"

namespace weir {

namespace detail {
class keyed_limiter;
}

/// Options of a local_keyed_limiter.
struct local_keyed_options {
  /// The most keys that the limiter remembers: 1 to 10^9. A new key beyond that takes the place of
  /// an old one: see local_keyed_limiter.
  std::size_t max_keys = 1'000'000;
};

/// Applies one policy (or several tiers) to each of many keys in one process, without a store or
/// coroutines. Each key is counted apart, as by a local_limiter of its own:
///
///     weir::local_keyed_limiter limiter{
///         weir::token_bucket{.capacity = 20, .refill = weir::per_second(100)}};
///     if (limiter.allowed(user)) serve();
///
/// **Keys.** 1 to 65,536 bytes. The limiter copies a new key, so the caller's text need not
/// outlive the call.
///
/// **Memory.** A key takes 85 to 175 bytes if its state fits one word (see local_limiter), else
/// twice that. A key of more than 48 bytes also takes its length (at most 257), and each entry of
/// a sliding_log 16 bytes. Calls drop keys that are *idle*: the key's state has had no effect for
/// 2 s, such as the state of a full token bucket. Each call does a bounded part of that work, so
/// there is no pause, no timer and no thread. A limiter that gets no calls drops nothing.
///
/// **Too many keys.** A new key beyond `max_keys` displaces another one. Of up to 16 neighbours in
/// the table, that is an idle key, else the one that has fewest units in use. Nothing passes
/// uncounted: the new key is counted from its first request on. A displaced key that was not idle
/// yet starts anew with its next request, with its whole limit; evicted() counts such keys. If it
/// grows, max_keys is too small for the traffic.
///
/// **Errors.** The constructor throws boost::system::system_error with `invalid_policy` or
/// `invalid_options`. Calls with a key throw it with `invalid_subject` if the key is empty or too
/// long; allowed(), record() and fetch() also with `invalid_cost` or `cost_exceeds_limit`. Such
/// calls count nothing.
///
/// **Thread safety.** Any thread may call any function. A call takes one short lock, which it
/// shares with some 256 keys.
///
/// **Object lifetime.** A moved-from object may only be destroyed or assigned to.
template <class Policy>
class WEIR_EXPORT local_keyed_limiter {
  static_assert(detail::is_policy<Policy>, "weir: this type is neither a policy nor weir::tiers");

 public:
  explicit local_keyed_limiter(const Policy& rule, const local_keyed_options& options = {},
                               local_clock clock = local_clock::precise);
  /// `clock`: read once in each call, by the calling thread, under a lock: it must not use this
  /// limiter. It may step backward; if by more than 2 s, keys dropped before start anew.
  local_keyed_limiter(const Policy& rule, const local_keyed_options& options,
                      std::function<time_point()> clock);
  ~local_keyed_limiter();
  local_keyed_limiter(local_keyed_limiter&&) noexcept;
  local_keyed_limiter& operator=(local_keyed_limiter&&) noexcept;

  /// Counts `cost` units of `key` if they fit, and returns whether they did. `cost`: 1 to
  /// max_units.
  [[nodiscard]] bool allowed(std::string_view key, std::int64_t cost = 1);

  /// As allowed(), but returns the whole decision, which takes longer.
  decision record(std::string_view key, std::int64_t cost = 1);

  /// Returns what record() would return now, and counts nothing. A new key is not remembered.
  decision fetch(std::string_view key, std::int64_t cost = 1) const;

  /// Forgets what was counted of `key`.
  void reset(std::string_view key);

  /// The number of keys that are remembered now, including idle ones that no call has dropped yet.
  /// At most max_keys.
  std::size_t size() const noexcept;

  /// How many keys were displaced before they were idle, since the limiter was made.
  std::uint64_t evicted() const noexcept;

 private:
  std::unique_ptr<detail::keyed_limiter> impl_;
};

extern template class WEIR_EXPORT local_keyed_limiter<fixed_window>;
extern template class WEIR_EXPORT local_keyed_limiter<sliding_log>;
extern template class WEIR_EXPORT local_keyed_limiter<sliding_window>;
extern template class WEIR_EXPORT local_keyed_limiter<token_bucket>;
extern template class WEIR_EXPORT local_keyed_limiter<gcra>;
extern template class WEIR_EXPORT local_keyed_limiter<leaky_bucket>;
extern template class WEIR_EXPORT local_keyed_limiter<policy>;
extern template class WEIR_EXPORT local_keyed_limiter<tiers>;

}  // namespace weir

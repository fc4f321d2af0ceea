#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "check/detached_check.hpp"
#include "check/in_flight.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// A check's share of max_pending. It grows with the subjects' lengths, so that the bound holds for
/// memory, too.
inline std::size_t weight_of(const check& c) noexcept {
  constexpr std::size_t unit = 1024;
  std::size_t bytes = c.subject.view().size();
  for (const term& t : c.further()) bytes += t.subject.view().size();
  return 1 + bytes / unit;
}

/// True for renewals and leaves: a lease that is renewed too late is lost, and a lease whose leave
/// is dropped stays taken without a holder until it lapses.
inline bool is_urgent(const check& c) noexcept {
  return c.kind == check_kind::renew || c.kind == check_kind::leave;
}

/// The check's own timeout, within bounds, or the usual one.
inline std::chrono::microseconds timeout_of(const check& c,
                                            std::chrono::microseconds usual) noexcept {
  using std::chrono::microseconds;
  constexpr std::chrono::hours longest{24};  // far from where time points overflow
  if (c.timeout.count() == 0) return usual;
  return std::min<microseconds>(c.timeout, longest);
}

/// True for a check that may wait beyond max_pending: otherwise leases would be lost. Give-backs
/// and requests that replace a reservation are bounded by the number of reservations.
inline bool is_beyond_bound(const check& c) noexcept {
  return is_urgent(c) || gives_back(c) || flight_of(c).replaces;
}

}  // namespace weir::detail

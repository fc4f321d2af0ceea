#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "check/give_back.hpp"
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

/// False for checks without a caller, and for urgent ones: these wait for the next connection.
inline bool may_end_at_once(const check& c) noexcept {
  return !flight_of(c).is_detached && !c.traits.is_urgent;
}

/// The check's own timeout, within bounds, or the usual one.
inline std::chrono::microseconds timeout_of(const check& c,
                                            std::chrono::microseconds usual) noexcept {
  using std::chrono::microseconds;
  constexpr std::chrono::hours longest{24};  // far from where time points overflow
  if (c.timeout.count() == 0) return usual;
  return std::min<microseconds>(c.timeout, longest);
}

/// For a check whose deadline has passed while the process stood still for `late`: puts it off by
/// as long, at most by the check's timeout. False if that was done before.
inline bool put_off(check& c, std::chrono::steady_clock::time_point now,
                    std::chrono::steady_clock::duration late,
                    std::chrono::microseconds usual) noexcept {
  in_flight& f = flight_of(c);
  if (late.count() == 0 || f.was_put_off) return false;
  f.was_put_off = true;
  f.deadline = now + std::min<std::chrono::steady_clock::duration>(late, timeout_of(c, usual));
  return true;
}

/// True for a check that may wait beyond max_pending: otherwise leases would be lost. Give-backs
/// and requests that replace a reservation are bounded by the number of reservations.
inline bool is_beyond_bound(const check& c) noexcept {
  return c.traits.is_urgent || c.traits.gives_back || flight_of(c).replaces;
}

}  // namespace weir::detail

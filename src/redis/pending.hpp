#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "weir/detail/check.hpp"

namespace weir::redis {

/// A check's share of max_pending. It grows with the subjects' lengths, so that the bound holds for
/// memory, too.
inline std::size_t weight_of(const detail::check& c) noexcept {
  constexpr std::size_t unit = 1024;
  std::size_t bytes = c.subject.view().size();
  for (const detail::term& t : c.further()) bytes += t.subject.view().size();
  return 1 + bytes / unit;
}

/// True for renewals and leaves: behind many other checks, a lease would be lost.
inline bool is_urgent(const detail::check& c) noexcept {
  return c.kind == detail::check_kind::renew || c.kind == detail::check_kind::leave;
}

/// The check's own timeout, or the usual one.
inline std::chrono::microseconds timeout_of(const detail::check& c,
                                            std::chrono::microseconds usual) noexcept {
  using std::chrono::microseconds;
  constexpr std::chrono::hours longest{24};  // far from where time points overflow
  return std::clamp<microseconds>(c.timeout.count() != 0 ? c.timeout : usual, microseconds{0},
                                  longest);
}

}  // namespace weir::redis

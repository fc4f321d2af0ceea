#pragma once

#include <cstdint>

#include "base/hash.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

inline in_flight& flight_of(check& c) noexcept { return c.flight; }
inline const in_flight& flight_of(const check& c) noexcept { return c.flight; }

/// The hash of the check's own subject, computed when it is first asked for.
inline std::uint64_t subject_hash(const check& c) noexcept {
  const in_flight& f = flight_of(c);
  if (f.subject_hash == 0) f.subject_hash = subject_hash(c.subject.view());
  return f.subject_hash;
}

}  // namespace weir::detail

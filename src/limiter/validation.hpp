#pragma once

#include <cstdint>
#include <string_view>

#include "check/limiter_spec.hpp"
#include "policy/arithmetic.hpp"
#include "weir/detail/check.hpp"
#include "weir/error.hpp"

namespace weir::detail {

/// Why one limiter cannot count so many units of that subject; zero: it can.
inline error validate(const limiter_spec& limiter, std::string_view subject, std::int64_t cost) {
  if (subject.empty() || subject.size() > max_subject_size) return error::invalid_subject;
  if (cost < 1 || cost > max_units) return error::invalid_cost;
  if (cost > limiter.ceiling) return error::cost_exceeds_limit;
  return error{};
}

/// Why the store is not asked; zero: it is. May throw std::bad_alloc.
error validate(const check& c);

}  // namespace weir::detail

#pragma once

#include <cstdint>
#include <string_view>

#include "check/limiter_spec.hpp"
#include "policy/arithmetic.hpp"
#include "weir/detail/check.hpp"
#include "weir/error.hpp"

namespace weir::detail {

/// The error if the limiter cannot count `cost` units of the subject; else zero.
inline error validate(const limiter_spec& limiter, std::string_view subject, std::int64_t cost) {
  if (subject.empty() || subject.size() > max_subject_size) return error::invalid_subject;
  if (cost < 1 || cost > max_units) return error::invalid_cost;
  if (cost > limiter.ceiling) return error::cost_exceeds_limit;
  return error{};
}

/// The error if the check is not valid; else zero. May throw std::bad_alloc.
error validate(const check& c);

}  // namespace weir::detail

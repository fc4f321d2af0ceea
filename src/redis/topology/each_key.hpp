#pragma once

#include "base/hash.hpp"
#include "check/limiter_spec.hpp"

namespace weir::redis {

/// Calls f with a hash of each resource and subject of the check: checks that share a key share
/// such a hash.
template <class F>
void each_key(const detail::check& c, F&& f) {
  detail::for_each_limiter(c, [&](const detail::limiter_spec& limiter, std::string_view subject) {
    f(limiter.resource_id ^ detail::subject_hash(subject));
  });
}

}  // namespace weir::redis

#pragma once

#include "support/random_source.hpp"
#include "weir/policy.hpp"

namespace weir::model {

/// A policy of that kind with parameters from all over its range: the awkward ones from a table,
/// the rest at random.
template <class Policy>
Policy random_policy(test::random_source& random);

template <>
fixed_window random_policy<fixed_window>(test::random_source&);
template <>
sliding_log random_policy<sliding_log>(test::random_source&);
template <>
sliding_window random_policy<sliding_window>(test::random_source&);
template <>
token_bucket random_policy<token_bucket>(test::random_source&);
template <>
gcra random_policy<gcra>(test::random_source&);
template <>
leaky_bucket random_policy<leaky_bucket>(test::random_source&);

/// A policy of any kind, without count_refused.
policy random_policy_that_combines(test::random_source& random);

/// The policy's own measure of time: its window, or how long its bucket takes to fill.
std::int64_t span_of(const policy& p);

/// Where its counters stop.
std::int64_t most_of(const policy& p);

}  // namespace weir::model

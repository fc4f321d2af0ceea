#include "weir/stats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace weir {
namespace {

constexpr int parts = 8;  // steps to a power of two

/// The step of a time in microseconds: below 8, one to each; then 8 to each power of two.
std::size_t step_of(std::uint64_t us) noexcept {
  if (us < parts) return us;
  const int power = static_cast<int>(std::bit_width(us)) - 1;
  return static_cast<std::size_t>(parts * (power - 2)) + ((us >> (power - 3)) & (parts - 1));
}

/// The longest time of a step.
std::uint64_t end_of(std::size_t step) noexcept {
  if (step < parts) return step;
  const std::size_t power = step / parts + 2;
  return ((parts + step % parts + 1) << (power - 3)) - 1;
}

std::uint64_t in_microseconds(std::chrono::microseconds time) noexcept {
  return static_cast<std::uint64_t>(std::max<std::chrono::microseconds::rep>(0, time.count()));
}

template <class Counts>
std::uint64_t sum_of(const Counts& counts) noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

}  // namespace

void duration_histogram::add(std::chrono::microseconds took) noexcept {
  const std::uint64_t us = in_microseconds(took);
  ++counts_[std::min(step_of(us), steps - 1)];
  sum_ += us;
}

duration_histogram& duration_histogram::operator+=(const duration_histogram& other) noexcept {
  for (std::size_t i = 0; i < steps; ++i) counts_[i] += other.counts_[i];
  sum_ += other.sum_;
  return *this;
}

std::uint64_t duration_histogram::count() const noexcept { return sum_of(counts_); }

std::chrono::microseconds duration_histogram::quantile(double q) const noexcept {
  const std::uint64_t all = count();
  if (all == 0) return {};
  const double part = (q > 0 ? std::min(q, 1.0) : 0.0) * static_cast<double>(all);
  const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(part)));
  std::uint64_t seen = 0;
  std::size_t step = 0;
  while (step < steps - 1 && (seen += counts_[step]) < wanted) ++step;
  return std::chrono::microseconds(end_of(step));
}

std::uint64_t duration_histogram::count_within(std::chrono::microseconds bound) const noexcept {
  if (bound.count() < 0) return 0;
  const std::size_t last = std::min(step_of(in_microseconds(bound)), steps - 1);
  return std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                         std::uint64_t{0});
}

std::uint64_t call_counts::all_allowed() const noexcept { return sum_of(allowed); }
std::uint64_t call_counts::all_refused() const noexcept { return sum_of(refused); }
std::uint64_t call_counts::all_failed() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [what, count] : failed) sum += count;
  return sum;
}

std::size_t store_stats::pending() const noexcept {
  std::size_t sum = 0;
  for (const connection_stats& one : connections) sum += one.pending;
  return sum;
}

duration_histogram store_stats::round_trips() const noexcept {
  duration_histogram sum;
  for (const connection_stats& one : connections) sum += one.round_trips;
  return sum;
}

}  // namespace weir

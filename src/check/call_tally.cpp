#include "check/call_tally.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>

namespace weir::detail {
namespace {

std::size_t place_of(error e) noexcept {
  const auto value = static_cast<std::size_t>(e);
  return value < call_tally::numbers::most_errors ? value : 0;
}

/// Calls f(mine, theirs) for each pair of numbers.
template <class F>
void each_pair(call_tally::numbers& mine, const call_tally::numbers& theirs, F&& f) noexcept {
  for (std::size_t i = 0; i < mine.outcomes.size(); ++i) f(mine.outcomes[i], theirs.outcomes[i]);
  for (std::size_t i = 0; i < mine.failed.size(); ++i) {
    f(mine.failed[i], theirs.failed[i]);
    f(mine.covered[i], theirs.covered[i]);
  }
  f(mine.other, theirs.other);
  f(mine.cancelled, theirs.cancelled);
}

}  // namespace

void call_tally::numbers::add(const numbers& n) noexcept {
  each_pair(*this, n, [](std::uint64_t& a, std::uint64_t b) { a += b; });
}

void call_tally::numbers::subtract(const numbers& n) noexcept {
  each_pair(*this, n, [](std::uint64_t& a, std::uint64_t b) { a -= std::min(a, b); });
}

call_counts call_tally::numbers::counts() const {
  call_counts made{.other = other, .cancelled = cancelled};
  std::copy_n(outcomes.begin(), 4, made.allowed.begin());
  std::copy_n(outcomes.begin() + 4, 4, made.refused.begin());
  for (std::size_t i = 0; i < failed.size(); ++i) {
    const auto what = static_cast<error>(i);
    if (failed[i] != 0) made.failed.emplace_back(what, failed[i]);
    if (covered[i] != 0) made.covered.emplace_back(what, covered[i]);
  }
  return made;
}

void call_tally::add(const check& c) noexcept {
  const std::lock_guard lock(mutex_);
  if (c.ec == boost::asio::error::operation_aborted) {
    ++rare_.cancelled;
  } else if (c.ec) {
    const bool is_own = c.ec.category() == error_category();
    ++rare_.failed[is_own ? place_of(static_cast<error>(c.ec.value())) : 0];
  } else if (c.traits.signs) {
    if (c.answer.failure != error{}) ++rare_.covered[place_of(c.answer.failure)];
    const auto by_source = static_cast<std::size_t>(c.answer.source);
    ++rare_.outcomes[by_source + (c.answer.allowed ? 0 : 4)];
  } else {
    ++rare_.other;
  }
}

call_tally::numbers call_tally::read() const noexcept {
  numbers sum;
  {
    const std::lock_guard lock(mutex_);
    sum = rare_;
  }
  static_assert(static_cast<int>(source::store) == 0);
  for (const line& one : stripes_) {
    sum.outcomes[0] += one.allowed.load(std::memory_order_relaxed);
  }
  return sum;
}

void tally_book::enter(call_tally& of_limiter) {
  const std::lock_guard lock(mutex_);
  present_.push_back(of_limiter);
}

void tally_book::leave(call_tally& of_limiter) noexcept {
  const std::lock_guard lock(mutex_);
  present_.erase(present_.iterator_to(of_limiter));
  of_past_.add(of_limiter.read());
}

call_counts tally_book::sum() const {
  call_tally::numbers all;
  {
    const std::lock_guard lock(mutex_);
    all = of_past_;
    for (const call_tally& one : present_) all.add(one.read());
  }
  all.subtract(again_.read());
  return all.counts();
}

}  // namespace weir::detail

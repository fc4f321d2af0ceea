#include "policy/sliding_log.hpp"

#include <algorithm>

#include "policy/lua_sources.hpp"

namespace weir::policies {
namespace {

constexpr std::int64_t modulus = std::int64_t{1} << 52;

/// From one running total to a later one.
constexpr units distance(std::int64_t from, std::int64_t to) noexcept {
  return to >= from ? to - from : to - from + modulus;
}

}  // namespace

sliding_log::sliding_log(const weir::sliding_log& policy) noexcept
    : window_(policy.window.count()),
      limit_(policy.limit == unlimited ? no_limit : policy.limit),
      resolution_(policy.resolution.count()),
      count_refused_(policy.count_refused && limit_ != no_limit) {}

instant sliding_log::time_at(instant newest, instant now) const noexcept {
  return std::max(now, newest - resolution_);
}

instant sliding_log::entry_time(instant at) const noexcept {
  return resolution_ == 0 ? at : (at / resolution_ + 1) * resolution_;
}

bool sliding_log::is_far_ahead(const state& s, instant now) const noexcept {
  return !s.empty() && s.entries_.back().time - resolution_ - now > window_;
}

sliding_log::state sliding_log::moved_to(const state& s, instant now) const {
  const std::size_t first = first_alive(s, s.entries_.back().time - resolution_);
  const std::int64_t base = first == s.first_ ? s.base_ : s.entries_[first - 1].total;
  const units sum = distance(base, s.entries_.back().total);
  state moved;
  moved.entries_.push_back({entry_time(now), count_refused_ ? std::min(sum, limit_) : sum});
  return moved;
}

std::size_t sliding_log::first_alive(const state& s, instant at) const noexcept {
  const auto alive = std::partition_point(
      s.entries_.begin() + static_cast<std::ptrdiff_t>(s.first_), s.entries_.end(),
      [&](const entry& e) { return e.time <= at - window_; });
  return static_cast<std::size_t>(alive - s.entries_.begin());
}

void sliding_log::drop_before(state& s, std::size_t first) const {
  if (first == s.first_) return;
  s.base_ = s.entries_[first - 1].total;
  s.first_ = first;
  // Moving the rest to the front each time half of the vector is dead costs one move per entry in the long run.
  if (s.first_ * 2 >= s.entries_.size()) {
    s.entries_.erase(s.entries_.begin(), s.entries_.begin() + static_cast<std::ptrdiff_t>(first));
    s.first_ = 0;
    if (s.entries_.capacity() > 4 * s.entries_.size() + 16) s.entries_.shrink_to_fit();
  }
}

void sliding_log::append(state& s, instant at, units cost) const {
  const instant time = entry_time(at);
  const std::int64_t last = s.empty() ? s.base_ : s.entries_.back().total;
  const bool joins = !s.empty() && s.entries_.back().time == time;
  units most = max_units - distance(s.base_, last);
  if (count_refused_) {
    const bool alone = s.first_ + 1 == s.entries_.size();
    const std::int64_t before = !joins ? last : alone ? s.base_ : s.entries_.end()[-2].total;
    most = std::min(most, std::max<units>(0, limit_ - distance(before, last)));
  }
  const std::int64_t total = (last + std::min(cost, most)) % modulus;
  if (joins) {
    s.entries_.back().total = total;
  } else {
    s.entries_.push_back({time, total});
  }
}

/// The time at which `need` units of the oldest have left; need is at least 1 and at most the whole sum.
instant sliding_log::passes_at(const state& s, std::size_t first, std::int64_t base,
                               units need) const noexcept {
  const auto enough = std::partition_point(
      s.entries_.begin() + static_cast<std::ptrdiff_t>(first), s.entries_.end(),
      [&](const entry& e) { return distance(base, e.total) < need; });
  return enough->time + window_;
}

decision sliding_log::describe(instant at, units sum, instant newest, instant passes,
                               bool allowed) const noexcept {
  decision d;
  d.allowed = allowed;
  d.limit = limit_for_caller(limit_);
  d.used = sum;
  d.remaining = remaining_for_caller(limit_, sum);
  if (!allowed) d.retry_after = std::chrono::microseconds(passes - at);
  if (sum > 0) d.reset_after = std::chrono::microseconds(newest + window_ - at);
  d.at = to_time_point(at);
  return d;
}

decision sliding_log::record(state& s, instant now, units cost) const {
  if (is_far_ahead(s, now)) s = moved_to(s, now);
  const instant at = time_at(s.empty() ? 0 : s.entries_.back().time, now);
  const std::size_t first = first_alive(s, at);
  const bool any = first < s.entries_.size();
  const std::int64_t base = first == s.first_ ? s.base_ : s.entries_[first - 1].total;
  const units sum = any ? distance(base, s.entries_.back().total) : 0;
  const bool allowed = sum + cost <= limit_;
  if (!allowed && !count_refused_) {
    return describe(at, sum, s.entries_.back().time, passes_at(s, first, base, sum + cost - limit_),
                    false);
  }

  drop_before(s, first);
  append(s, at, cost);
  if (count_refused_) {
    const std::int64_t last = s.entries_.back().total;
    std::size_t keep = s.first_;
    while (distance(s.entries_[keep].total, last) >= limit_) ++keep;
    drop_before(s, keep);
  }
  const units after = distance(s.base_, s.entries_.back().total);
  const instant passes = allowed ? 0 : passes_at(s, s.first_, s.base_, after + cost - limit_);
  return describe(at, after, s.entries_.back().time, passes, allowed);
}

decision sliding_log::fetch(const state& s, instant now, units cost) const {
  if (is_far_ahead(s, now)) return fetch(moved_to(s, now), now, cost);
  const instant newest = s.empty() ? 0 : s.entries_.back().time;
  const instant at = time_at(newest, now);
  const std::size_t first = first_alive(s, at);
  if (first == s.entries_.size()) return describe(at, 0, 0, 0, true);
  const std::int64_t base = first == s.first_ ? s.base_ : s.entries_[first - 1].total;
  const units sum = distance(base, s.entries_.back().total);
  const bool allowed = sum + cost <= limit_;
  const instant passes = allowed ? 0 : passes_at(s, first, base, sum + cost - limit_);
  return describe(at, sum, newest, passes, allowed);
}

std::string_view sliding_log::script() noexcept { return lua::sliding_log_lua; }

script_arguments sliding_log::arguments(units cost) const noexcept {
  return {window_, limit_, resolution_, count_refused_ ? 1 : 0, cost};
}

bool sliding_log::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1], fields[2], fields[3]};
  return is_count(fields[0]) && is_instant(fields[1]) && is_count(fields[2]) &&
         is_instant(fields[3]);
}

decision sliding_log::record(replay& r, instant now, units cost) const noexcept {
  const instant at = time_at(r.newest, now);
  const bool allowed = r.sum + cost <= limit_;
  if (allowed || count_refused_) {
    r.sum = count_refused_ ? r.sum_after : add_up_to(r.sum, cost, max_units);
    r.newest = entry_time(at);
  }
  return describe(at, r.sum, r.newest, r.passes_at, allowed);
}

decision sliding_log::fetch(const replay& r, instant now, units cost) const noexcept {
  const instant at = time_at(r.newest, now);
  return describe(at, r.sum, r.newest, r.passes_at, r.sum + cost <= limit_);
}

}  // namespace weir::policies

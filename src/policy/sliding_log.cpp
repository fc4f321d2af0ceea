#include "policy/sliding_log.hpp"

#include <algorithm>
#include <utility>

#include "policy/lua_sources.hpp"
#include "policy/stored_doubles.hpp"

namespace weir::policies {

/// From one running total to a later one.
units sliding_log::distance(std::int64_t from, std::int64_t to) noexcept {
  return to >= from ? to - from : to - from + modulus;
}

void sliding_log::state::write(std::vector<std::int64_t>& out) const {
  out.insert(out.end(), {base_, ahead_.written, ahead_.turn, pinned_});
  instant time = 0;
  std::int64_t total = base_;
  for (std::size_t i = first_; i < entries_.size(); ++i) {
    out.push_back(entries_[i].time - time);
    out.push_back(distance(total, entries_[i].total));
    time = entries_[i].time;
    total = entries_[i].total;
  }
}

bool sliding_log::state::read(std::span<const std::int64_t> numbers) {
  constexpr std::size_t head = 4;
  *this = {};
  if (numbers.size() < head || numbers.size() % 2 != 0) return false;
  base_ = numbers[0];
  ahead_ = {numbers[1], numbers[2]};
  pinned_ = numbers[3];
  if (base_ < 0 || base_ >= modulus || !is_instant(ahead_.written) || !is_instant(ahead_.turn) ||
      !is_instant(pinned_)) {
    return false;
  }
  entries_.reserve((numbers.size() - head) / 2);
  instant time = 0;
  units sum = 0;
  for (std::size_t i = head; i < numbers.size(); i += 2) {
    // Checked before each addition: a foreign number must not overflow.
    if (numbers[i] < -max_exact || numbers[i] > max_exact) return false;
    time += numbers[i];
    const units cost = numbers[i + 1];
    // All of a log sums up to less than the modulus of its totals.
    if (!is_instant(time) || cost < 0 || cost > max_units - sum) return false;
    sum += cost;
    entries_.push_back({time, (base_ + sum) % modulus});
  }
  return true;
}

sliding_log::sliding_log(const weir::sliding_log& policy) noexcept
    : window_(policy.window.count()),
      limit_(policy.limit == unlimited ? no_limit : policy.limit),
      resolution_(policy.resolution.count()),
      count_refused_(policy.count_refused && limit_ != no_limit) {}

sliding_log::times sliding_log::times_of(const reservations_ahead& ahead,
                                         request_time now) noexcept {
  times t;
  t.latest_known_past = std::max(now.clock, ahead.written);
  t.at = std::max(now.when, t.latest_known_past);
  t.turn = std::max(t.at, ahead.turn);
  return t;
}

instant sliding_log::entry_time(instant at) const noexcept {
  return resolution_ == 0 ? at : (at / resolution_ + 1) * resolution_;
}

sliding_log::state sliding_log::moved_to(const state& s, instant clock) const {
  state moved;
  if (s.empty()) return moved;
  const instant own = own_time(s);
  const instant last = std::max(own, s.ahead_.turn);
  const std::size_t first = first_alive(s, last);
  const std::int64_t base = base_of(s, first);
  const units sum = distance(base, s.entries_.back().total);
  const instant turn = clock + last - own;
  moved.entries_.push_back({entry_time(turn), count_refused_ ? std::min(sum, limit_) : sum});
  moved.ahead_ = reservations_ahead{clock, turn}.after(clock);
  if (moved.ahead_.written > 0) moved.pinned_ = turn;
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
  // Moving the rest to the front each time half of the vector is dead costs one move per entry in
  // the long run.
  if (s.first_ * 2 >= s.entries_.size()) {
    s.entries_.erase(s.entries_.begin(), s.entries_.begin() + static_cast<std::ptrdiff_t>(first));
    s.first_ = 0;
    if (s.entries_.capacity() > 4 * s.entries_.size() + 16) s.entries_.shrink_to_fit();
  }
}

/// The running total before that entry.
std::int64_t sliding_log::base_of(const state& s, std::size_t first) noexcept {
  return first == s.first_ ? s.base_ : s.entries_[first - 1].total;
}

/// Drops what has left the window by now; or, if the rest is too much to be counted, by the turn.
void sliding_log::drop_what_left(state& s, const times& t, std::size_t first, units cost) const {
  const std::size_t left = first_alive(s, t.latest_known_past);
  if (left < first && distance(base_of(s, left), s.entries_.back().total) > max_units - cost) {
    drop_before(s, first);
    s.pinned_ = t.turn;
    return;
  }
  drop_before(s, left);
}

void sliding_log::append(state& s, instant at, units cost) const {
  const instant newest = s.empty() ? 0 : s.entries_.back().time;
  const instant time = std::max(entry_time(at), newest);
  const std::int64_t last = s.empty() ? s.base_ : s.entries_.back().total;
  const bool joins = !s.empty() && newest == time;
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

/// The time at which `need` units of the oldest have left; need is at least 1 and at most the whole
/// sum.
instant sliding_log::passes_at(const state& s, std::size_t first, std::int64_t base,
                               units need) const noexcept {
  const auto enough = std::partition_point(
      s.entries_.begin() + static_cast<std::ptrdiff_t>(first), s.entries_.end(),
      [&](const entry& e) { return distance(base, e.total) < need; });
  return enough->time + window_;
}

/// `passes`: when there is room enough; 0 if there is already.
decision sliding_log::describe(const times& t, units sum, instant newest, instant passes,
                               bool allowed) const noexcept {
  decision d;
  d.allowed = allowed;
  d.limit = limit_for_caller(limit_);
  d.used = t.at < t.turn ? d.limit : sum;
  d.remaining = t.at < t.turn ? 0 : remaining_for_caller(limit_, sum);
  if (!allowed) d.retry_after = std::chrono::microseconds(std::max(passes, t.turn) - t.at);
  if (sum > 0) d.reset_after = std::chrono::microseconds(newest + window_ - t.at);
  d.decided_at = to_time_point(t.at);
  // Entered at a newest entry that is later: the receipt says in which step.
  if (allowed && newest > entry_time(t.turn)) d.receipt.counted_at = newest - resolution_;
  return d;
}

decision sliding_log::record(state& s, request_time now, units cost) const {
  if (is_far_ahead(s, now.clock)) s = moved_to(s, now.clock);
  const times t = times_of(s.ahead_, now);
  const std::size_t first = first_alive(s, t.turn);
  const bool any = first < s.entries_.size();
  const std::int64_t base = base_of(s, first);
  const units sum = any ? distance(base, s.entries_.back().total) : 0;
  const bool fits = sum + cost <= limit_;
  const bool allowed = fits && t.at == t.turn;
  if (!allowed && !count_refused_) {
    const instant passes = fits ? 0 : passes_at(s, first, base, sum + cost - limit_);
    return describe(t, sum, s.empty() ? 0 : s.entries_.back().time, passes, false);
  }

  drop_what_left(s, t, first, cost);
  append(s, t.turn, cost);
  const instant newest = s.entries_.back().time;
  s.ahead_ = reservations_ahead{t.latest_known_past, t.turn}.after(t.latest_known_past);
  if (s.ahead_.written == 0) s.pinned_ = 0;
  if (!count_refused_) return describe(t, distance(base, s.entries_.back().total), newest, 0, true);

  const std::int64_t last = s.entries_.back().total;
  // Entries do not matter any more if the newer ones alone fill the limit.
  if (distance(base, last) > limit_) {
    std::size_t keep = s.first_;
    while (distance(s.entries_[keep].total, last) >= limit_) ++keep;
    drop_before(s, keep);
  }
  const units after = distance(s.base_, last);
  const bool full = !allowed && after + cost > limit_;
  const instant passes = full ? passes_at(s, s.first_, s.base_, after + cost - limit_) : 0;
  return describe(t, after, newest, passes, allowed);
}

decision sliding_log::fetch(const state& s, request_time now, units cost) const {
  if (is_far_ahead(s, now.clock)) return fetch(moved_to(s, now.clock), now, cost);
  const times t = times_of(s.ahead_, now);
  const std::size_t first = first_alive(s, t.turn);
  if (first == s.entries_.size()) return describe(t, 0, 0, 0, t.at == t.turn);
  const std::int64_t base = base_of(s, first);
  const units sum = distance(base, s.entries_.back().total);
  const bool fits = sum + cost <= limit_;
  const instant passes = fits ? 0 : passes_at(s, first, base, sum + cost - limit_);
  return describe(t, sum, s.entries_.back().time, passes, fits && t.at == t.turn);
}

std::string_view sliding_log::script() noexcept { return lua::sliding_log_lua; }

script_arguments sliding_log::arguments(units cost) const noexcept {
  return {window_, limit_, resolution_, count_refused_ ? 1 : 0, cost};
}

bool sliding_log::read_plain(std::string_view& text,
                             std::span<std::int64_t> fields) const noexcept {
  // The sum, the newest entry's time, and that of the entry that has to leave.
  if (!take_doubles(text, 3, 3, fields)) return false;
  if (const instant leaves = std::exchange(fields[2], 0); leaves > 0) fields[3] = leaves + window_;
  return true;
}

bool sliding_log::restore(std::span<const std::int64_t> fields, replay& out) noexcept {
  out = {fields[0], fields[1], fields[2], fields[3], {fields[4], fields[5]}};
  return is_count(fields[0]) && is_instant(fields[1]) && is_count(fields[2]) &&
         is_instant(fields[3]) && is_instant(fields[4]) && is_instant(fields[5]);
}

decision sliding_log::record(replay& r, request_time now, units cost) const noexcept {
  const times t = times_of(r.ahead, now);
  const bool allowed = r.sum + cost <= limit_ && t.at == t.turn;
  if (allowed || count_refused_) {
    r.sum = count_refused_ ? r.sum_after : add_up_to(r.sum, cost, max_units);
    r.newest = std::max(entry_time(t.turn), r.newest);
    r.ahead = reservations_ahead{t.latest_known_past, t.turn}.after(t.latest_known_past);
  }
  return describe(t, r.sum, r.newest, r.passes_at, allowed);
}

decision sliding_log::fetch(const replay& r, request_time now, units cost) const noexcept {
  const times t = times_of(r.ahead, now);
  return describe(t, r.sum, r.newest, r.passes_at, r.sum + cost <= limit_ && t.at == t.turn);
}

}  // namespace weir::policies

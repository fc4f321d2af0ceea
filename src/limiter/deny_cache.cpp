#include "limiter/deny_cache.hpp"

#include <algorithm>
#include <bit>

namespace weir::detail {

deny_cache::deny_cache(std::size_t slots, duration longest)
    : longest_(longest), mask_(std::bit_ceil(slots) - 1), slots_(mask_ + 1) {}

/// The refusal is known to hold from the moment of asking, which is not after that of deciding: so
/// it never holds here for longer than in the store.
void deny_cache::note(std::string_view subject, std::int64_t cost, const decision& refusal,
                      time asked) {
  if (subject.size() > longest_subject) return;
  const std::size_t index = index_of(subject);
  const time until = asked + std::min(refusal.retry_after, longest_);
  const std::lock_guard lock(lock_of(index));
  slot& s = slots_[index];
  // Another thread may have given units back after the store refused this.
  if (asked <= s.forgotten) return;
  s.subject.assign(subject);
  s.cost = cost;
  s.refusal = refusal;
  s.refusal.source = source::deny_cache;
  s.asked = asked;
  s.until = until;
}

std::optional<decision> deny_cache::find(std::string_view subject, std::int64_t cost,
                                         time now) const {
  const std::size_t index = index_of(subject);
  const std::lock_guard lock(lock_of(index));
  const slot& s = slots_[index];
  if (now >= s.until || cost != s.cost || s.subject != subject) return std::nullopt;
  decision d = s.refusal;
  const auto passed = std::chrono::floor<duration>(std::max(now - s.asked, time::duration{}));
  // `until` may be before retry_after has passed, never after it.
  d.retry_after = std::max(d.retry_after - passed, duration{1});
  d.reset_after = std::max(d.reset_after - passed, d.retry_after);
  d.decided_at += passed;
  return d;
}

void deny_cache::forget(std::string_view subject, time now) {
  const std::size_t index = index_of(subject);
  const std::lock_guard lock(lock_of(index));
  slot& s = slots_[index];
  if (s.subject == subject) s = {};
  s.forgotten = now;
}

}  // namespace weir::detail

#include "limiter/deny_cache.hpp"

#include <algorithm>
#include <bit>

namespace weir::detail {

deny_cache::deny_cache(std::size_t slots, duration longest)
    : longest_(longest),
      mask_(std::bit_ceil((slots + slots_per_set - 1) / slots_per_set) - 1),
      sets_(mask_ + 1) {}

/// The time of the refusal counts from `asked`, which is not after the store's decision, so it ends
/// here no later than in the store.
void deny_cache::note(std::string_view subject, std::int64_t cost, const decision& refusal,
                      time asked) {
  if (subject.size() > longest_subject) return;
  const std::uint64_t hash = hash_(subject);
  const std::size_t index = index_of(hash);
  const time until = asked + std::min(refusal.retry_after, longest_);
  const std::lock_guard lock(lock_of(index));
  set& all = sets_[index];
  // Another thread may have given units back after the store refused this.
  if (asked <= all.forgotten) return;
  slot* place = nullptr;
  for (slot& s : all.slots) {
    if (s.hash == hash && s.cost == cost && s.subject == subject) {
      place = &s;
      break;
    }
    if (place == nullptr && s.until <= asked) place = &s;
  }
  if (place == nullptr) return;
  place->subject.assign(subject);
  place->hash = hash;
  place->cost = cost;
  place->refusal = refusal;
  place->refusal.source = source::deny_cache;
  place->asked = asked;
  place->until = until;
}

std::optional<decision> deny_cache::find(std::string_view subject, std::int64_t cost,
                                         time now) const {
  const std::uint64_t hash = hash_(subject);
  const std::size_t index = index_of(hash);
  const std::lock_guard lock(lock_of(index));
  for (const slot& s : sets_[index].slots) {
    if (s.hash != hash || now >= s.until || s.cost != cost || s.subject != subject) continue;
    decision d = s.refusal;
    const auto passed = std::chrono::floor<duration>(std::max(now - s.asked, time::duration{}));
    // `until` may be before retry_after has passed, never after it.
    d.retry_after = std::max(d.retry_after - passed, duration{1});
    d.reset_after = std::max(d.reset_after - passed, d.retry_after);
    d.decided_at += passed;
    return d;
  }
  return std::nullopt;
}

void deny_cache::forget(std::string_view subject, time now) {
  const std::uint64_t hash = hash_(subject);
  const std::size_t index = index_of(hash);
  const std::lock_guard lock(lock_of(index));
  set& all = sets_[index];
  for (slot& s : all.slots) {
    if (s.hash == hash && s.subject == subject) s = {};
  }
  all.forgotten = now;
}

}  // namespace weir::detail

#include "limiter/local_fallback.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>

#include "base/clock.hpp"
#include "check/apply.hpp"
#include "memory/bounded_key.hpp"

namespace weir::detail {
namespace {

using held_tiers = std::span<const held_tier>;

constexpr std::chrono::seconds retry_without_store{1};

constexpr auto the_clock = [] { return read_clock({}); };

std::int64_t part_of(std::int64_t limit, std::int64_t processes) {
  return limit == unlimited ? unlimited : std::max<std::int64_t>(1, limit / processes);
}

/// count / (period * processes): multiplies the period, or divides the count, to stay in range.
rate part_of(rate r, std::int64_t processes) {
  constexpr std::int64_t longest = std::int64_t{1} << 50;
  if (r.count % processes == 0) return {r.count / processes, r.period};
  if (r.period.count() <= longest / processes) return {r.count, r.period * processes};
  return {std::max<std::int64_t>(1, r.count / processes), r.period};
}

struct sharer {
  std::int64_t processes;

  template <class Window>
  weir::policy operator()(Window p) const {
    p.limit = part_of(p.limit, processes);
    return p;
  }
  weir::policy operator()(weir::token_bucket p) const {
    p.capacity = part_of(p.capacity, processes);
    p.refill = part_of(p.refill, processes);
    return p;
  }
  weir::policy operator()(weir::gcra p) const {
    p.burst = part_of(p.burst, processes);
    p.rate = part_of(p.rate, processes);
    return p;
  }
  weir::policy operator()(weir::leaky_bucket p) const {
    p.capacity = part_of(p.capacity, processes);
    p.leak = part_of(p.leak, processes);
    return p;
  }
};

/// Each tier of a subject is a state of its own.
std::size_t states_of(std::size_t subjects, std::size_t tiers) noexcept {
  return std::min(subjects, std::numeric_limits<std::size_t>::max() / tiers) * tiers;
}

}  // namespace

decision without_store(bool allowed) {
  decision d;
  d.allowed = allowed;
  d.source = source::fallback;
  d.decided_at = policies::to_time_point(the_clock());
  if (!allowed) d.retry_after = retry_without_store;
  return d;
}

weir::policy share_of(const weir::policy& policy, std::int64_t processes) {
  return std::visit(sharer{std::max<std::int64_t>(1, processes)}, policy);
}

local_fallback::local_fallback(const weir::tiers& tiers, const limiter_options& options)
    : subjects_(states_of(options.max_fallback_subjects, tiers.size()), 1) {
  for (const weir::policy& policy : tiers) {
    tiers_.push_back(policies::compile(share_of(policy, options.process_count)));
  }
  ceiling_ = policies::ceiling_of(tiers_);
}

std::vector<memory::shard::tier_key> local_fallback::keys_of(std::string_view subject,
                                                             std::int64_t cost) const {
  std::vector<memory::shard::tier_key> keys;
  const memory::bounded_key as(subject);
  for (const policies::kernel& kernel : tiers_) {
    // One byte in front tells the tiers apart. A single tier has the bare subject.
    std::string key(tiers_.size() > 1 ? 1 : 0, static_cast<char>(keys.size()));
    keys.push_back({&kernel, key.append(as), cost});
  }
  return keys;
}

/// `ask` makes a decision, or returns an error. The cost may exceed this process's share of the
/// limit.
template <class F>
decision local_fallback::answer(std::int64_t cost, F&& ask) const {
  decision d;
  if (cost > ceiling_ || ask(d)) return without_store(false);
  d.source = source::fallback;
  return d;
}

decision local_fallback::record(std::string_view subject, std::int64_t cost) {
  return answer(cost, [&](decision& d) {
    if (tiers_.size() == 1) {
      return own().record(tiers_.front(), memory::bounded_key(subject), the_clock, cost, d);
    }
    return own().change_all(
        keys_of(subject, cost), the_clock,
        [&](held_tiers tiers, policies::instant now) { d = policies::record_all(tiers, now); });
  });
}

decision local_fallback::fetch(std::string_view subject, std::int64_t cost) {
  return answer(cost, [&](decision& d) {
    own().look_at(keys_of(subject, cost), the_clock, [&](held_tiers tiers, policies::instant now) {
      d = policies::fetch_all(tiers, now);
    });
    return error_code();
  });
}

decision local_fallback::acquire(std::string_view subject, std::int64_t cost,
                                 std::chrono::microseconds max_wait) {
  return answer(cost, [&](decision& d) {
    return own().change_all(keys_of(subject, cost), the_clock,
                            [&](held_tiers tiers, policies::instant now) {
                              d = policies::reserve_all(tiers, now, max_wait.count());
                            });
  });
}

void local_fallback::note_refusal(std::string_view subject, std::int64_t cost) {
  // A max_wait below zero: no reservation lies before now, so policies::reserve_all() refuses.
  acquire(subject, cost, std::chrono::microseconds{-1});
}

}  // namespace weir::detail

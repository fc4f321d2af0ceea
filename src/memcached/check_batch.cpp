#include "memcached/check_batch.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "check/apply.hpp"
#include "check/limiter_spec.hpp"

namespace weir::memcached {
namespace {

using detail::check;
using policies::instant;

/// Until when the id of a settlement is kept.
instant remembered_until(const check& c, instant now) {
  if (c.traits.gives_back) return now + policies::shortest_marker_life;
  return std::max(detail::marker_needed_until(detail::as<detail::settle_request>(c).about),
                  now + policies::shortest_marker_life);
}

/// If the first check is a record, gives its error to equal records, which would fail on the same
/// state, and moves them behind it. Looks at no more than `most` checks, and not beyond one that is
/// neither a record nor a fetch, because it may change the state. Returns how many equal ones there
/// are.
std::size_t fail_equals_of_first(detail::check_list& checks, std::size_t most) {
  const check& first = checks.front();
  std::size_t count = 0;
  const auto behind = std::next(checks.begin());
  for (auto it = behind; it != checks.end() && it->traits.decides_now && --most > 0;) {
    const auto one = it++;
    if (!is_record(first) || !is_record(*one) || one->limiter != first.limiter ||
        one->units != first.units) {
      continue;
    }
    one->ec = first.ec;
    checks.splice(behind, checks, one);
    ++count;
  }
  return count;
}

/// Moves the ends of cool-downs by `by`.
void move_cool_downs(std::span<const detail::held_tier> tiers, policies::span by) noexcept {
  for (const detail::held_tier& t : tiers) {
    auto* const one = std::get_if<policies::cool_down::state>(t.state);
    if (one != nullptr && one->until != 0) one->until += by;
  }
}

}  // namespace

/// The time by which the check is decided. A kernel takes a state that is far ahead for one of a
/// clock that was set back, and moves it to now. But here another process, whose clock is ahead,
/// may have written it, and for that process the moved state would soon be over: if the two take
/// turns, any number would pass. So as far as their clocks may differ, the state's own time counts.
instant check_batch::clock_for(std::span<const detail::held_tier> tiers,
                               instant now) const noexcept {
  instant latest = now;
  for (const detail::held_tier& t : tiers) {
    std::visit(
        [&]<class Kernel>(const Kernel& k) {
          if constexpr (policies::is_policy(Kernel::kind)) {
            const auto& state = policies::state_for(k, *t.state);
            const instant own = k.own_time(state);
            if (own - now <= clocks_differ_ && k.is_far_ahead(state, now))
              latest = std::max(latest, own);
          }
        },
        *t.rules);
  }
  return latest;
}

/// Calls apply() with the states of the check's tiers.
void check_batch::run_states(check& c, instant now) {
  std::array<detail::held_tier, policies::max_tiers> tiers;
  std::array<subject_value::tier_value*, policies::max_tiers> values;
  std::size_t count = 0;
  bool is_readable = true;
  detail::for_each_tier(c, [&](const detail::limiter_spec& limiter, std::string_view,
                               std::int64_t number, std::size_t tier) {
    const policies::kernel& kernel = limiter.tiers[tier];
    auto* const value = values[count] = value_.find(limiter.tier_name(tier), kernel);
    is_readable = is_readable && value != nullptr;
    tiers[count++] = {&kernel, value != nullptr ? &value->state : nullptr, number};
  });
  if (!is_readable) {
    c.ec = error::wrong_type;
    return;
  }
  const std::span<const detail::held_tier> held(tiers.data(), count);
  const policies::span ahead = clock_for(held, now) - now;
  now += ahead;
  const std::uint64_t id = detail::settlement_id_of(c);
  const bool is_first = id == 0 || !value_.is_settled(id, now);
  // Ids stay long, and must leave room for reservations and cool-downs.
  if (id != 0 && !c.traits.gives_back && is_first && value_.settled() >= most_settled_) {
    c.ec = error::settlements_full;
    return;
  }
  // A cool-down goes by the caller's own clock.
  if (ahead > 0) move_cool_downs(held, ahead);
  detail::apply(c, held, now, is_first);
  if (ahead > 0) move_cool_downs(held, -ahead);
  // A process whose clock is behind can give something back for longer.
  if (id != 0 && is_first) value_.set_settled(id, remembered_until(c, now) + clocks_differ_);
  for (std::size_t i = 0; i < count; ++i) {
    std::visit(
        [&](const auto& k) {
          const auto& state = policies::state_for(k, *tiers[i].state);
          values[i]->ends = policies::matters_until(k, state, values[i]->ends);
        },
        *tiers[i].rules);
  }
}

void check_batch::run_one(check& c, instant now) {
  c.ec = {};
  if (resets(c)) {
    if (unreadable_ != error{}) {
      unreadable_ = {};
      erases_unread_ = true;
    }
    for (std::size_t i = 0; i < c.limiter->tiers.size(); ++i) {
      value_.forget(c.limiter->tier_name(i));
    }
  }
  if (unreadable_ != error{}) {
    c.ec = unreadable_;
  } else if (!resets(c)) {
    run_states(c, now);
  }
}

check_batch::result check_batch::run(detail::check_list& checks, std::string_view found,
                                     bool is_oversized, instant now, std::size_t max_value,
                                     std::string& out) {
  most_settled_ = (max_value - max_value / 16) / subject_value::bytes_of_settled;
  // Each attempt decodes the whole value, so there are few.
  for (std::size_t wanted = most;; wanted = std::max<std::size_t>(1, wanted / 8)) {
    unreadable_ = value_.decode(found, now);
    if (is_oversized && unreadable_ == error{}) unreadable_ = error::state_too_large;
    if (unreadable_ != error{}) value_.decode({}, now);
    erases_unread_ = false;
    result r;
    for (auto it = checks.begin(); it != checks.end() && r.checks < wanted; ++it, ++r.checks) {
      run_one(*it, now);
    }
    if (!value_.is_changed() && !erases_unread_) return r;
    r.ends = value_.encode(now, out);
    if (out.size() <= max_value) {
      r.what = !out.empty() ? verdict::store : found.empty() ? verdict::unchanged : verdict::erase;
      return r;
    }
    if (r.checks > 1) {
      wanted = r.checks;  // fewer of them may fit
      for (check& c : checks) c.ec = {};
      continue;
    }
    check& only = checks.front();
    only.ec = detail::settlement_id_of(only) != 0 ? error::settlements_full
                                                  : error::state_too_large;
    return {verdict::unchanged, 1 + fail_equals_of_first(checks, most), 0};
  }
}

}  // namespace weir::memcached

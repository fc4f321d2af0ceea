#include "policy/tier_set.hpp"

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <utility>

namespace weir::policies {
namespace {

/// One of each tier.
using decisions = boost::container::static_vector<decision, max_tiers>;

template <class State, class F>
auto with_state(const tier<State>& t, F&& f) {
  return std::visit(
      [&]<class Kernel>(const Kernel& k) {
        // In the memory store, the kernel's own state; from a script's reply, its replay.
        using state = std::conditional_t<std::is_same_v<State, any_state>, typename Kernel::state,
                                         typename Kernel::replay>;
        return f(k, std::get<state>(*t.state));
      },
      *t.rules);
}

template <class State>
decision fetch(const tier<State>& t, request_time now) {
  return with_state(t, [&](const auto& k, const auto& s) { return k.fetch(s, now, t.cost); });
}

template <class State>
decision record(const tier<State>& t, request_time now) {
  return with_state(t, [&](const auto& k, auto& s) { return k.record(s, now, t.cost); });
}

/// Writes what the request leaves behind in the first buckets.
template <class State>
void write_buckets(receipt& to, further_receipt* further, std::span<const tier<State>> tiers,
                   std::span<const decision> each) {
  to.buckets = {};
  std::span<receipt::bucket> room(to.buckets);
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (kind_of(*tiers[i].rules) != kernel_kind::bucket) continue;
    if (room.empty() && further != nullptr) room = std::exchange(further, nullptr)->buckets;
    if (room.empty()) return;
    room.front() = each[i].receipt.buckets[0];
    room = room.subspan(1);
  }
}

/// combined(), where some tiers may be cool-downs.
template <class State>
decision answer(std::span<const tier<State>> tiers, std::span<const decision> each,
                further_receipt* further = nullptr) {
  decision d = combined(each);
  if (d.allowed) {
    write_buckets(d.receipt, further, tiers, each);
    // The time of the request for all tiers. A log's entry may stand later, and is not found then.
    d.receipt.counted_at = d.decided_at.time_since_epoch().count();
  }
  if (d.allowed || d.tier < 0) return d;
  const auto is_cool_down = [](const tier<State>& t) {
    return kind_of(*t.rules) == kernel_kind::cool_down;
  };
  auto by = static_cast<std::size_t>(d.tier);
  if (d.cooling_down && by > 0) {
    --by;
    d.limit = each[by].limit;
    d.used = each[by].used;
  }
  const auto before = std::count_if(tiers.begin(), tiers.begin() + static_cast<std::ptrdiff_t>(by),
                                    is_cool_down);
  const auto all = std::count_if(tiers.begin(), tiers.end(), is_cool_down);
  const bool alone = static_cast<std::size_t>(all) + 1 == tiers.size();
  d.tier = static_cast<std::int16_t>(alone ? -1 : static_cast<std::ptrdiff_t>(by) - before);
  return d;
}

/// When a refusal ends. A cool-down's retry_after tells less while the clock is behind its
/// beginning; its reset_after is exact.
time_point end_of(const decision& refusal) noexcept {
  return refusal.decided_at + (refusal.cooling_down ? refusal.reset_after : refusal.retry_after);
}

}  // namespace

decision combined(std::span<const decision> of) noexcept {
  const auto until = [](const decision& d, std::chrono::microseconds after) {
    return d.decided_at + after;
  };
  std::size_t chosen = 0;
  time_point idle{}, turn{};
  std::chrono::microseconds longest{0};  // that a refusal tells
  for (std::size_t i = 0; i < of.size(); ++i) {
    const decision& d = of[i];
    const decision& best = of[chosen];
    // Zero means now, whatever this tier's own time is.
    if (d.reset_after.count() > 0) idle = std::max(idle, until(d, d.reset_after));
    if (d.delay.count() > 0) turn = std::max(turn, until(d, d.delay));
    if (!d.allowed) longest = std::max(longest, d.retry_after);
    if (d.allowed != best.allowed ? !d.allowed
        : d.allowed               ? d.remaining < best.remaining
                                  : end_of(d) > end_of(best)) {
      chosen = i;
    }
  }
  decision result = of[chosen];
  result.reset_after = std::max(idle, result.decided_at) - result.decided_at;
  result.delay = std::chrono::microseconds{0};
  if (result.allowed) {
    result.delay = std::max(turn, result.decided_at) - result.decided_at;
  } else if (of.size() > 1) {
    result.tier = static_cast<std::int16_t>(chosen);
    if (result.cooling_down) result.retry_after = longest;
  }
  return result;
}

/// When an admitted request may go, if one of several leaky buckets delays it: all of them have to
/// count it at that time. 0 otherwise.
template <class State>
instant common_start(std::span<const tier<State>> tiers, std::span<const decision> each,
                     instant when) {
  instant start = 0;
  std::size_t leaky = 0;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (!is_leaky(*tiers[i].rules)) continue;
    const instant turn = (each[i].decided_at + each[i].delay).time_since_epoch().count();
    start = std::max(start, turn);
    ++leaky;
  }
  return leaky > 1 && start > when ? start : 0;
}

template <class State>
decision record(const tier<State>& t, request_time now, instant start) {
  if (start == 0 || !is_leaky(*t.rules)) return record(t, now);
  return with_state(t, [&]<class Kernel>(const Kernel& k, auto& s) {
    if constexpr (Kernel::kind == kernel_kind::bucket) return k.record_from(start, s, now, t.cost);
    return decision{};
  });
}

/// Tidies a gate, so that an enter's answer is right even if another tier refuses.
template <class State>
void tidy(const tier<State>& t, instant clock) {
  if constexpr (std::is_same_v<State, any_state>) {
    const auto* gate = std::get_if<lease_set>(t.rules);
    if (gate != nullptr) gate->tidy(std::get<lease_set::state>(*t.state), clock);
  }
}

template <class State>
decision record_all(std::span<const tier<State>> tiers, request_time now,
                    further_receipt* further) {
  if (tiers.size() == 1) return record(tiers.front(), now);
  decisions each;
  bool allowed = true;
  for (const tier<State>& t : tiers) {
    tidy(t, now.clock);
    allowed = each.emplace_back(fetch(t, now)).allowed && allowed;
  }
  const instant start = allowed ? common_start<State>(tiers, each, now.when) : 0;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    // A tier that refuses is recorded, too: that mends a state far ahead of the clock.
    if (allowed || !each[i].allowed) each[i] = record(tiers[i], now, start);
  }
  return answer<State>(tiers, each, further);
}

template <class State>
decision fetch_all(std::span<const tier<State>> tiers, request_time now) {
  if (tiers.size() == 1) return fetch(tiers.front(), now);
  decisions each;
  for (const tier<State>& t : tiers) each.push_back(fetch(t, now));
  return answer<State>(tiers, each);
}

/// The first time at which this tier alone would allow the request without a delay. `d`: its
/// decision now.
template <class State>
instant own_turn(const tier<State>& t, instant now, decision d) {
  instant turn = now;
  // Two rounds: a leaky bucket that refuses would then ask for a delay.
  for (int i = 0; i < 2; ++i) {
    const auto wait = d.allowed ? d.delay : end_of(d) - d.decided_at;
    if (wait.count() == 0) break;
    const instant own = (d.decided_at + wait).time_since_epoch().count();
    turn = std::max(turn, own);
    d = fetch(t, request_time(now, own));
  }
  return turn;
}

/// As fetch_all(), for a request whose reservation lies ahead: a tier that would only delay it
/// refuses, too. So `tier` is the last one to let it go.
template <class State>
decision refusal_of_turn(std::span<const tier<State>> tiers, instant now) {
  decisions each;
  for (const tier<State>& t : tiers) {
    decision& d = each.emplace_back(fetch(t, now));
    const instant turn = own_turn(t, now, d);
    if (turn == now) continue;
    d.allowed = false;
    d.delay = {};
    d.retry_after = to_time_point(turn) - d.decided_at;
  }
  return answer<State>(tiers, each);
}

template <class State>
decision reserve_at(std::span<const tier<State>> tiers, request_time turn, span max_wait,
                    further_receipt* further) {
  const std::chrono::microseconds wait(turn.when - turn.clock);
  if (wait.count() > max_wait) {
    decision d = refusal_of_turn(tiers, turn.clock);
    // Otherwise a state far ahead of the clock would stay there for the next caller.
    if constexpr (std::is_same_v<State, any_state>) {
      for (const tier<State>& t : tiers) {
        with_state(t, [&]<class Kernel>(const Kernel& k, auto& s) {
          if constexpr (is_policy(Kernel::kind)) k.mend(s, turn.clock);
        });
      }
    }
    d.allowed = false;
    d.delay = {};
    d.retry_after = wait - std::chrono::microseconds(max_wait);
    // As in a reservation, all durations count from the clock, which may be behind the states.
    const time_point clock = to_time_point(turn.clock);
    if (d.reset_after.count() > 0) d.reset_after += d.decided_at - clock;
    d.decided_at = clock;
    return d;
  }
  decision d = record_all(tiers, turn, further);
  if (wait.count() > 0) {
    d.delay = wait;
    // decided_at may lie behind the turn: a tier whose own time is ahead counts the request there.
    d.reset_after += d.decided_at - to_time_point(turn.clock);
    d.decided_at = to_time_point(turn.clock);
  }
  return d;
}

template <class State>
decision reserve_all(std::span<const tier<State>> tiers, instant now, span max_wait,
                     further_receipt* further, std::vector<std::int64_t>* found) {
  instant turn = now;
  for (const tier<State>& t : tiers) turn = std::max(turn, own_turn(t, now, fetch(t, now)));
  const bool is_ahead = turn > now && turn - now <= max_wait;
  if (found != nullptr && is_ahead) *found = found_in(tiers, now);
  return reserve_at(tiers, request_time(now, turn), max_wait, further);
}

template <class State>
span cool_down_left(std::span<const tier<State>> tiers, instant clock) noexcept {
  span left = 0;
  for (const tier<State>& t : tiers) {
    const auto* h = std::get_if<cool_down::state>(t.state);
    if (h != nullptr && h->has_effect(clock)) left = std::max(left, h->left(clock));
  }
  return left;
}

tickets tickets_of(const joint_decision& d, std::vector<std::int64_t> found) {
  const instant turn = (d.decided_at + d.delay).time_since_epoch().count();
  const instant counted = d.receipt.counted_at > 0 ? d.receipt.counted_at : turn;
  const auto &first = d.receipt.buckets, &further = d.further.buckets;
  return {counted, {first[0], first[1], further[0], further[1]}, std::move(found)};
}

std::vector<std::int64_t> found_in(std::span<const tier<any_state>> tiers, instant clock) {
  std::vector<std::int64_t> all;
  for (const tier<any_state>& one : tiers) {
    with_state(one, [&]<class Kernel>(const Kernel& k, const auto& s) {
      std::array<std::int64_t, Kernel::reply_width> own{};
      if constexpr (Kernel::tells_state) own = k.fields(s, clock);
      all.insert(all.end(), own.begin(), own.end());
    });
  }
  return all;
}

template <class Kernel>
void charge(const Kernel& k, typename Kernel::state& s, instant clock, units cost) {
  if constexpr (Kernel::kind == kernel_kind::window) {
    const Kernel endless = k.endless();
    // Behind the reservations ahead.
    const decision d = endless.fetch(s, clock, cost);
    endless.record(
        s, request_time(clock, (d.decided_at + d.retry_after).time_since_epoch().count()), cost);
  } else {
    k.charge(s, clock, cost);
  }
}

bool could_leave(std::span<const kernel* const> kernels, const tickets& all) {
  bool could = true;
  const auto kernel_of = [](const kernel* one) -> const kernel& { return *one; };
  each_ticket(all, kernels, kernel_of, [&]<class Kernel>(const Kernel& k, const ticket& t) {
    if constexpr (Kernel::kind == kernel_kind::bucket) could = could && k.could_leave(t.left);
  });
  return could;
}

void settle_all(std::span<const tier<any_state>> tiers, instant clock, const tickets& all) {
  std::size_t i = 0;
  const auto kernel_of = [](const tier<any_state>& one) -> const kernel& { return *one.rules; };
  each_ticket(all, tiers, kernel_of, [&]<class Kernel>(const Kernel& k, const ticket& t) {
    const tier<any_state>& one = tiers[i++];
    if constexpr (Kernel::kind != kernel_kind::gate) {
      auto& state = std::get<typename Kernel::state>(*one.state);
      if (one.cost > 0) k.give_back(state, clock, t, one.cost);
      if (one.cost < 0) charge(k, state, clock, -one.cost);
    }
  });
}

kernel charging(const kernel& k) {
  return std::visit(
      []<class Kernel>(const Kernel& one) -> kernel {
        if constexpr (Kernel::kind == kernel_kind::window) return one.endless();
        return one;
      },
      k);
}

void lower_all(std::span<const tier<any_state>> tiers, instant clock) {
  for (const tier<any_state>& one : tiers) {
    with_state(one, [&]<class Kernel>(const Kernel& k, auto& s) {
      if constexpr (Kernel::kind == kernel_kind::window) {
        const units left = k.fetch(s, clock, 1).remaining;
        if (k.limit() != unlimited && left > one.cost) k.record(s, clock, left - one.cost);
      } else if constexpr (Kernel::kind != kernel_kind::gate) {
        k.lower(s, clock, one.cost);
      }
    });
  }
}

template <class State>
decision settled(std::span<const tier<State>> tiers, instant clock, bool done) {
  decisions each;
  bool cools_down = false;
  for (const tier<State>& t : tiers) {
    decision& one = each.emplace_back(fetch(tier<State>{t.rules, t.state, 1}, clock));
    // A settlement asks for nothing: the tier with the least left decides the numbers. A cool-down
    // has no limit and no count.
    cools_down = cools_down || one.cooling_down;
    if (one.cooling_down) one.remaining = unlimited;
    one.allowed = true;
    one.cooling_down = false;
    one.retry_after = one.delay = {};
  }
  decision d = combined(each);
  d.allowed = done;
  if (cools_down) d.remaining = 0;
  return d;
}

template decision record_all(std::span<const tier<any_state>>, request_time, further_receipt*);
template decision record_all(std::span<const tier<any_replay>>, request_time, further_receipt*);
template decision fetch_all(std::span<const tier<any_state>>, request_time);
template decision fetch_all(std::span<const tier<any_replay>>, request_time);
template decision reserve_all(std::span<const tier<any_state>>, instant, span, further_receipt*,
                              std::vector<std::int64_t>*);
template span cool_down_left(std::span<const tier<any_state>>, instant) noexcept;
template span cool_down_left(std::span<const tier<any_replay>>, instant) noexcept;
template decision reserve_at(std::span<const tier<any_replay>>, request_time, span,
                             further_receipt*);
template decision settled(std::span<const tier<any_state>>, instant, bool);
template decision settled(std::span<const tier<any_replay>>, instant, bool);

}  // namespace weir::policies

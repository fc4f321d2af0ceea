#pragma once

#include <array>
#include <span>
#include <vector>

#include "policy/kernel.hpp"

namespace weir::policies {

/// A state from a script's reply, of any kernel; see restore().
using any_replay = std::variant<meter::replay, fixed_window::replay, sliding_window::replay,
                                sliding_log::replay, cool_down::replay, lease_set::replay>;

/// The most keys that one check may touch.
inline constexpr std::size_t max_tiers = 16;

/// One of the kernels that are asked together. `State` is any_state or any_replay, and holds a
/// state of the kernel.
template <class State>
struct tier {
  const kernel* rules;
  State* state;
  units cost;
};

/// The decision of several tiers. If all allow: that of the tier with the least left, with the
/// longest delay. Else that of the tier that refuses longest, with its place in `tier` (-1 if there
/// is only one). `of` is not empty.
decision combined(std::span<const decision> of) noexcept;

/// Counts in all tiers, at one instant of the clock, if all allow it; else in none. At most
/// max_tiers. A cool-down stands behind the tiers of its limiter, has no number among them, and
/// refuses with the number of the last. A single tier decides as its kernel's record() does; of
/// several tiers, none may have count_refused.
/// `further`: for the third and fourth bucket; may be null.
template <class State>
decision record_all(std::span<const tier<State>> tiers, request_time now,
                    further_receipt* further = nullptr);

template <class State>
decision fetch_all(std::span<const tier<State>> tiers, request_time now);

/// Makes a reservation in all tiers, if its turn is not after now + max_wait; else in none. The
/// turn is the first time at which all tiers allow the request without a delay; `delay` is the time
/// until the turn. If refused, `retry_after` is when the same call would get the reservation, and
/// `decided_at` is `now`, also if that is behind a state.
template <class State>
decision reserve_all(std::span<const tier<State>> tiers, instant now, span max_wait,
                     further_receipt* further = nullptr,
                     std::vector<std::int64_t>* found = nullptr);

/// How much of a cool-down is left.
template <class State>
span cool_down_left(std::span<const tier<State>> tiers, instant clock) noexcept;

/// The decision on a request whose turn is known.
template <class State>
decision reserve_at(std::span<const tier<State>> tiers, request_time turn, span max_wait,
                    further_receipt* further = nullptr);

/// What is known of a counted request at all of its tiers.
struct tickets {
  instant counted = 0;  // as in ticket
  std::array<receipt::bucket, 4> buckets{};
  /// For a reservation ahead: the reply_width numbers of each tier's state before it. Else empty.
  std::vector<std::int64_t> found;
};

tickets tickets_of(const joint_decision& d, std::vector<std::int64_t> found = {});

/// True if requests at these kernels can have left behind what the tickets say.
bool could_leave(std::span<const kernel* const> kernels, const tickets& all);

/// Calls f(kernel, ticket), with the kernel's own type, for each of `kernels`. `kernel_of` makes a
/// kernel of an element.
template <class Range, class Projection, class F>
void each_ticket(const tickets& all, const Range& kernels, Projection&& kernel_of, F&& f) {
  std::span<const std::int64_t> found(all.found);
  std::size_t bucket = 0;
  for (const auto& one : kernels) {
    std::visit(
        [&]<class Kernel>(const Kernel& k) {
          ticket t{all.counted};
          constexpr bool is_bucket = Kernel::kind == kernel_kind::bucket;
          if (is_bucket && bucket < all.buckets.size()) {
            t.left = all.buckets[bucket++];
          }
          if (!found.empty()) {
            const bool counts = !is_bucket || t.left.whole > 0;
            if (counts) t.found = found.first(Kernel::reply_width);
            found = found.subspan(Kernel::reply_width);
          }
          f(k, t);
        },
        kernel_of(one));
  }
}

/// The states, as the kernels' scripts would reply them; zeros for a kernel without tells_state.
std::vector<std::int64_t> found_in(std::span<const tier<any_state>> tiers, instant clock);

/// What is done to a counted request at one of its tiers. policy/lua/settle.lua has the same
/// numbers.
enum class settle_act : std::int64_t { look = 0, give_back = 1, charge = 2, lower = 3 };

/// What settle_all() does at a tier with this cost.
constexpr settle_act act_of(units cost) noexcept {
  return cost > 0 ? settle_act::give_back : cost < 0 ? settle_act::charge : settle_act::look;
}

/// Settles a counted request, at each tier by the tier's cost. A cost above zero is given back, as
/// far as possible. A cost below zero is charged: counted at the first time at which it would pass
/// without a limit.
void settle_all(std::span<const tier<any_state>> tiers, instant clock, const tickets& all);

/// Counts so much in each tier that at most the tier's cost is left.
void lower_all(std::span<const tier<any_state>> tiers, instant clock);

/// The answer to a settlement: `allowed` is `done` (this was the first time), and the rest
/// describes the states after it.
template <class State>
decision settled(std::span<const tier<State>> tiers, instant clock, bool done);

/// The kernel that charges for `k`, perhaps without its limit: the script takes its constants.
kernel charging(const kernel& k);

}  // namespace weir::policies

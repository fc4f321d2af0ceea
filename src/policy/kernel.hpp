#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "policy/cool_down.hpp"
#include "policy/fixed_window.hpp"
#include "policy/lease_set.hpp"
#include "policy/meter.hpp"
#include "policy/sliding_log.hpp"
#include "policy/sliding_window.hpp"

namespace weir::policies {

/// What each kernel offers. It is a pure state machine; its script makes the same transitions in
/// Redis and answers with the state that it found. restore() makes a `replay` of that, and record()
/// on it, once per check and in order, gives each caller's decision. So the rules stand twice, in
/// C++ and in Lua, and the differential test keeps the two equal; decisions are made in C++ alone.
///
/// Constants name what only some kernels can do:
///
///     can_reserve           counts a request at a later time than the clock's: acquire()
///     can_settle            gives back, charges and lowers what was counted
///     can_mend              rewrites a state that lies far ahead of the clock, and tells which do;
///                           otherwise it has a reach(): it writes no end further ahead than that
///     tells_state           fields() is what the script replies with
///     charges_without_limit endless() charges in its stead; otherwise charge() and lower() do
///     is_bucket             has a TAT, which a receipt carries; a request may have to wait until
///                           the bucket is empty
///     has_number            a decision counts it among the tiers; a cool-down has no number
///     has_window            limiters of one key may have windows of other lengths; is_empty() says
///                           that a state counts nothing for any of them
///     has_common_path       its own script begins with a short path for plain states, which
///                           answers with what the key holds. read_plain() takes one key's state
///                           from the front of that text, and gives the fields for restore()
///     has_joint_path        has a part in the common path of checks with several keys, and
///                           read_plain() for what it answers with. joint_arguments() is what the
///                           part takes, or nothing if the policy needs the full kernel
template <class K>
concept is_kernel =
    requires(const K& k, typename K::state& state, const typename K::state& seen,
             typename K::replay& replay, const typename K::replay& replayed, moment now, units cost,
             std::span<const std::int64_t> fields) {
      // Counts the cost if it fits; the same verdict without a change.
      { k.record(state, now, cost) } -> std::same_as<decision>;
      { k.fetch(seen, now, cost) } -> std::same_as<decision>;
      { k.record(replay, now, cost) } -> std::same_as<decision>;
      { k.fetch(replayed, now, cost) } -> std::same_as<decision>;
      // When the state may be forgotten.
      { k.matters_until(seen) } -> std::same_as<instant>;
      // The largest cost that can ever pass; what a decision calls `limit`.
      { k.ceiling() } -> std::same_as<units>;
      { k.limit() } -> std::same_as<units>;
      // Whether a refused request counts, too; whether equal checks may share one look.
      { k.counts_refused() } -> std::same_as<bool>;
      { k.coalesces() } -> std::same_as<bool>;
      // The Lua half: its text, its constants, the width of its reply, the end of its keys.
      { K::script() } -> std::same_as<std::string_view>;
      { k.arguments(cost) } -> std::same_as<script_arguments>;
      { K::restore(fields, replay) } -> std::same_as<bool>;
      requires K::script_constants > 0 && K::reply_width > 0 && !K::key_suffix.empty();
      // std::bool_constant: they are constants.
      typename std::bool_constant<K::can_reserve && K::has_number>;
    } &&
    (!K::can_mend ||
     requires(const K& k, typename K::state& s, const typename K::state& seen, instant clock) {
       k.mend(s, clock);
       // Whether the state lies further ahead of the clock than the policy looks back.
       { k.is_far_ahead(seen, clock) } noexcept -> std::same_as<bool>;
       // A time that had certainly passed when it was written.
       { k.own_time(seen) } noexcept -> std::same_as<instant>;
     }) &&
    (K::can_mend ||
     requires(const K& k) {
       { k.reach() } noexcept -> std::same_as<span>;
     }) &&
    (!K::tells_state ||
     requires(const K& k, const typename K::state& s, instant clock) {
       { k.fields(s, clock) } -> std::same_as<std::array<std::int64_t, K::reply_width>>;
     }) &&
    (!K::can_settle ||
     requires(const K& k, typename K::state& s, instant clock, units cost) {
       k.give_back(s, clock, ticket{}, cost);
       { K::settle_script() } -> std::same_as<std::string_view>;
     }) &&
    (!K::can_settle || K::charges_without_limit ||
     requires(const K& k, typename K::state& s, instant clock, units cost) {
       k.charge(s, clock, cost);
       k.lower(s, clock, cost);
     }) &&
    (!K::charges_without_limit ||
     requires(const K& k) {
       requires K::can_settle;
       { k.endless() } -> std::same_as<K>;
     }) &&
    (!K::has_window ||
     requires(const typename K::state& s) {
       { K::is_empty(s) } -> std::same_as<bool>;
     }) &&
    (!K::has_common_path ||
     requires(const K& k, units cost, std::string_view& text, std::span<std::int64_t> fields) {
       { K::record_script() } -> std::same_as<std::string_view>;
       { k.record_arguments(cost) } -> std::same_as<script_arguments>;
       { k.read_plain(text, fields) } -> std::same_as<bool>;
     }) &&
    (!K::has_joint_path ||
     requires(const K& k, units cost, std::string_view& text, std::span<std::int64_t> fields) {
       { k.joint_script() } noexcept -> std::same_as<std::string_view>;
       { k.joint_arguments(cost) } -> std::same_as<std::optional<joint_constants>>;
       { k.read_plain(text, fields) } -> std::same_as<bool>;
     }) &&
    (!K::is_bucket || requires(const K& k, typename K::state& s, moment now, units cost) {
      { k.is_spaced() } -> std::same_as<bool>;
      { k.record_from(instant{}, s, now, cost) } -> std::same_as<decision>;
    });

static_assert(is_kernel<meter>);
static_assert(is_kernel<fixed_window>);
static_assert(is_kernel<sliding_window>);
static_assert(is_kernel<sliding_log>);
static_assert(is_kernel<cool_down>);
static_assert(is_kernel<lease_set>);

/// A validated policy, ready to run.
using kernel = std::variant<meter, fixed_window, sliding_window, sliding_log, cool_down, lease_set>;

/// Throws boost::system::system_error with error::invalid_policy; the text names the field and its
/// bound.
kernel compile(const weir::policy& policy);
std::vector<kernel> compile(const weir::tiers& tiers);

/// The largest cost that all of them can ever allow.
inline units ceiling_of(std::span<const kernel> kernels) noexcept {
  units least = max_units;
  for (const kernel& one : kernels) {
    least = std::min(least, std::visit([](const auto& k) { return k.ceiling(); }, one));
  }
  return least;
}

/// True if a refused request counts: then the kernel cannot be one of several that pass all or
/// nothing.
inline bool counts_refused(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.counts_refused(); }, k);
}

/// True if a request that passes may have to wait until the bucket is empty (leaky_bucket).
inline bool is_spaced(const kernel& k) noexcept {
  return std::visit(
      []<class Kernel>(const Kernel& one) {
        if constexpr (Kernel::is_bucket) return one.is_spaced();
        return false;
      },
      k);
}

inline bool is_bucket(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.is_bucket; }, k);
}

/// True if a decision counts it among the tiers: all but cool-downs.
inline bool has_number(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.has_number; }, k);
}

/// Whether it can count a request ahead of time.
inline bool can_reserve(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.can_reserve; }, k);
}

/// Whether what it counted can be settled later.
inline bool can_settle(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.can_settle; }, k);
}

/// Until when a state matters to every limiter of its key. `ends`: until when it matters to this
/// kernel. `before`: until when it mattered before the kernel changed it. A limiter with a longer
/// window may have set that; only an empty state matters to none.
template <class Kernel>
instant matters_until(const typename Kernel::state& s, instant ends, instant before) noexcept {
  if constexpr (Kernel::has_window) return Kernel::is_empty(s) ? ends : std::max(before, ends);
  return ends;
}
template <class Kernel>
instant matters_until(const Kernel& k, const typename Kernel::state& s, instant before) noexcept {
  return matters_until<Kernel>(s, k.matters_until(s), before);
}

/// How far ahead of the clock the kernel has just written the end of the state, which is `ends`, if
/// that may be further than `known`. Not more if the state came from a clock that was ahead, and
/// the call has left it so.
template <class Kernel>
span written_ahead(const Kernel& k, const typename Kernel::state& s, instant ends, instant clock,
                   span known) noexcept {
  const span ahead = ends - clock;
  if (ahead <= known) return known;
  if constexpr (Kernel::can_mend) {
    return k.is_far_ahead(s, clock) ? known : ahead;
  } else {
    return std::max(known, std::min(ahead, k.reach()));
  }
}

/// k.record() into a decision that is empty still.
template <class Kernel, class State>
void record_into(decision& empty, const Kernel& k, State& s, moment now, units cost) {
  if constexpr (requires { k.record_into(empty, s, now, cost); }) {
    k.record_into(empty, s, now, cost);
  } else {
    ::new (&empty) decision(k.record(s, now, cost));  // made in its place
  }
}

/// Where a kernel's state lives in a store that holds all kinds.
using any_state = std::variant<std::monostate, meter::state, fixed_window::state,
                               sliding_window::state, sliding_log::state, cool_down::state,
                               lease_set::state>;

/// The kernel's own state in there: a fresh one, if it held another kind.
template <class Kernel>
typename Kernel::state& state_for(const Kernel&, any_state& state) {
  if (auto* s = std::get_if<typename Kernel::state>(&state)) return *s;
  return state.template emplace<typename Kernel::state>();
}

}  // namespace weir::policies

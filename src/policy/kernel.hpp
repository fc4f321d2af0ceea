#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <new>
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

/// What each kernel offers. A kernel is a pure state machine. Its script makes the same transitions
/// in Redis and replies with the state that it found; restore() makes a `replay` of that state, and
/// record() on the replay, once per check and in order, gives each caller's decision. So the rules
/// stand twice, in C++ and in Lua (the differential test keeps the two equal); decisions are made
/// in C++ alone.
template <class K>
concept is_kernel =
    requires(const K& k, typename K::state& state, const typename K::state& seen,
             typename K::replay& replay, const typename K::replay& replayed, request_time now,
             units cost, std::span<const std::int64_t> fields) {
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
      // Whether a refused request counts, too; whether equal checks may be coalesced.
      { k.counts_refused() } -> std::same_as<bool>;
      { k.coalesces() } -> std::same_as<bool>;
      // The Lua half: its text, its constants, the width of its reply, the end of its keys; false
      // if it always needs its full kernel.
      { k.has_common_path() } noexcept -> std::same_as<bool>;
      { K::script() } -> std::same_as<std::string_view>;
      { k.arguments(cost) } -> std::same_as<script_arguments>;
      { K::restore(fields, replay) } -> std::same_as<bool>;
      requires K::script_constants > 0 && K::reply_width > 0 && !K::key_suffix.empty();
      typename std::bool_constant<K::tells_state && is_policy(K::kind)>;  // they are constants
    } &&
    (!is_policy(K::kind) ||
     requires(const K& k, typename K::state& s, const typename K::state& seen, instant clock) {
       // Rewrites a state that lies far ahead of the clock.
       k.mend(s, clock);
       // Whether the state lies further ahead of the clock than the policy looks back.
       { k.is_far_ahead(seen, clock) } noexcept -> std::same_as<bool>;
       // A time that had certainly passed when it was written.
       { k.own_time(seen) } noexcept -> std::same_as<instant>;
       // About how many units are in use, to compare states that still matter.
       { k.in_use(seen, clock) } noexcept -> std::same_as<units>;
     }) &&
    (is_policy(K::kind) ||
     requires(const K& k) {
       // The kernel writes no end further ahead of the clock than this, unless the clock is behind.
       { k.reach() } noexcept -> std::same_as<span>;
     }) &&
    // fields() is what the script replies with.
    (!K::tells_state ||
     requires(const K& k, const typename K::state& s, instant clock) {
       { k.fields(s, clock) } -> std::same_as<std::array<std::int64_t, K::reply_width>>;
     }) &&
    // What all kernels except gates can do: record() at a later time than the clock's makes a
    // reservation; what was counted can be settled; plain states have a common path, which replies
    // with the text of what the keys hold, and takes some of the constants. read_plain() takes one
    // key's state from the front of that text, and gives the fields for restore().
    (K::kind == kernel_kind::gate ||
     requires(const K& k, typename K::state& s, instant clock, units cost, std::string_view& text,
              std::span<std::int64_t> fields, std::string& packed) {
       k.give_back(s, clock, ticket{}, cost);
       { K::settle_script() } -> std::same_as<std::string_view>;
       { k.read_plain(text, fields) } -> std::same_as<bool>;
       k.pack_common_constants(packed, cost);
     }) &&
    // A window charges by record() without its limit. is_empty() says that a state counts nothing
    // for any limiter of its key.
    (K::kind != kernel_kind::window ||
     requires(const K& k, const typename K::state& s) {
       { k.endless() } -> std::same_as<K>;
       { K::is_empty(s) } -> std::same_as<bool>;
     }) &&
    (K::kind == kernel_kind::window || K::kind == kernel_kind::gate ||
     requires(const K& k, typename K::state& s, instant clock, units cost) {
       k.charge(s, clock, cost);
       k.lower(s, clock, cost);
     }) &&
    // A request that passes may have to wait until the bucket is empty.
    (K::kind != kernel_kind::bucket ||
     requires(const K& k, typename K::state& s, request_time now, units cost) {
       { k.is_leaky() } -> std::same_as<bool>;
       // Its script has other text for a T in parts.
       { k.has_whole_units() } noexcept -> std::same_as<bool>;
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

/// The largest cost that all kernels can ever allow.
inline units ceiling_of(std::span<const kernel> kernels) noexcept {
  units least = max_units;
  for (const kernel& one : kernels) {
    least = std::min(least, std::visit([](const auto& k) { return k.ceiling(); }, one));
  }
  return least;
}

/// True if a refused request counts: then the kernel cannot be one of several tiers.
inline bool counts_refused(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.counts_refused(); }, k);
}

/// True if a request that passes may have to wait until the bucket is empty (leaky_bucket).
inline bool is_leaky(const kernel& k) noexcept {
  return std::visit(
      []<class Kernel>(const Kernel& one) {
        if constexpr (Kernel::kind == kernel_kind::bucket) return one.is_leaky();
        return false;
      },
      k);
}

inline kernel_kind kind_of(const kernel& k) noexcept {
  return std::visit([](const auto& one) { return one.kind; }, k);
}

/// Until when a state matters to any limiter of its key. `ends`: until when it matters to this
/// kernel. `before`: until when it mattered before the kernel changed it; a limiter with a longer
/// window may have set that. An empty state matters to no other limiter.
template <class Kernel>
instant matters_until(const typename Kernel::state& s, instant ends, instant before) noexcept {
  if constexpr (Kernel::kind == kernel_kind::window) {
    return Kernel::is_empty(s) ? ends : std::max(before, ends);
  }
  return ends;
}
template <class Kernel>
instant matters_until(const Kernel& k, const typename Kernel::state& s, instant before) noexcept {
  return matters_until<Kernel>(s, k.matters_until(s), before);
}

/// The larger of `known` and how far ahead of the clock the kernel has just written the end of the
/// state, which is `ends`. An end that comes from a clock that was ahead does not count.
template <class Kernel>
span written_ahead(const Kernel& k, const typename Kernel::state& s, instant ends, instant clock,
                   span known) noexcept {
  const span ahead = ends - clock;
  if (ahead <= known) return known;
  if constexpr (is_policy(Kernel::kind)) {
    return k.is_far_ahead(s, clock) ? known : ahead;
  } else {
    return std::max(known, std::min(ahead, k.reach()));
  }
}

/// k.record() into a decision that is empty still.
template <class Kernel, class State>
void record_into(decision& empty, const Kernel& k, State& s, request_time now, units cost) {
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

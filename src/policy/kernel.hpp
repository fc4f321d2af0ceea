#pragma once

#include <variant>
#include <vector>

#include "policy/cool_down.hpp"
#include "policy/fixed_window.hpp"
#include "policy/lease_set.hpp"
#include "policy/meter.hpp"
#include "policy/sliding_log.hpp"
#include "policy/sliding_window.hpp"

namespace weir::policies {

/// A validated policy, ready to run. Every alternative is a pure state machine of the same shape:
///
///     decision record(state&, instant now, units cost)        count it if it fits
///     decision fetch(const state&, instant now, units cost)   the same verdict, changing nothing
///     instant matters_until(const state&)                     when the state may be forgotten
///     units ceiling()                                         the largest cost that can ever pass
///     units limit()                                           what a decision calls `limit`
///
/// and has a script that makes the same transition in Redis. The script answers with the state it
/// found; restore() makes a `replay` of it, and record() on that, once per check and in order,
/// tells each caller's decision. So the rules stand twice, in C++ and in Lua, and the differential
/// test holds the two equal; the wording of a decision stands once.
using kernel = std::variant<meter, fixed_window, sliding_window, sliding_log, cool_down, lease_set>;

/// Throws boost::system::system_error with error::invalid_policy; the text names the field and its
/// bound.
kernel compile(const weir::policy& policy);
std::vector<kernel> compile(const weir::tiers& tiers);

/// Whether a refused request leaves a trace: then the kernel cannot be one of several that pass all
/// or nothing.
bool counts_refused(const weir::policy& policy) noexcept;

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

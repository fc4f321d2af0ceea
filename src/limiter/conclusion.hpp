#pragma once

#include <algorithm>
#include <cstdint>

#include "waiting/acquire_queue.hpp"
#include "weir/detail/check.hpp"

namespace weir::detail {

/// True for a decision of the store that took units.
inline bool took_units(const check& c) {
  return c.answer.allowed && c.answer.source == source::store;
}

inline void write_receipt(check& c, std::uint64_t number, std::uint64_t origin) {
  c.answer.receipt.id = std::max<std::uint64_t>(1, number);  // 0: no receipt
  c.answer.receipt.origin = origin;
}

/// Prepares the result of a check that its store has finished, other than a plain record: applies
/// the failure policy, notes for later checks what the answer says, writes the receipt, and adds
/// jitter to the retries in a cool-down. Without memory, the check ends with the store's own answer
/// or error: an exception would leave the check without an owner.
void conclude(check& c, waiting::acquire_queue& joint_waiters);

}  // namespace weir::detail
